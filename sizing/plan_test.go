package sizing

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// billion is the workload that the documents calculate with.
var billion = Workload{
	Elements: 1e9, Window: 24 * time.Hour, FPR: 0.01,
	Peak: 1, Skew: 1, Partitions: 1,
}

func solve(t *testing.T, w Workload) Plan {
	t.Helper()
	p, err := Solve(w)
	if err != nil {
		t.Fatalf("Solve(%+v): %v", w, err)
	}
	return p
}

// randomWorkload has up to some millions of IDs.
func randomWorkload(r *rand.Rand) Workload {
	return Workload{
		Elements:   1 + uint64(math.Exp(r.Float64()*17)),
		Window:     MinWindow + time.Duration(r.Int64N(int64(30*24*time.Hour))),
		FPR:        math.Exp(-0.1 - r.Float64()*18),
		Peak:       1 + 3*r.Float64(),
		Skew:       1 + 2*r.Float64(),
		Partitions: 1 + r.IntN(100),
		Kind:       Kind(r.IntN(3)),
		Layout:     filter.Layout(r.IntN(2)),
	}
}

func TestSolve_Billion(t *testing.T) {
	p := solve(t, billion)
	if p.GenerationCapacity != 142_857_143 || p.Share != 1e9 || p.Planned != 1e9 || p.Elements != 1e9 {
		t.Errorf("shares are %+v", p)
	}
	if want, _ := filter.Size(1e9, 0.01, filter.Compact); p.Sliced != want || p.Bytes != want.Bytes() || p.Bytes != p.BytesPerPartition {
		t.Errorf("plan is %+v, want the geometry %+v", p, want)
	}
	if p.JournalBytesPerPartition != p.Bytes/8 {
		t.Errorf("journal of %d bytes for a filter of %d", p.JournalBytesPerPartition, p.Bytes)
	}
	if bits := p.BitsPerElement(); bits < 16.8 || bits > 17.1 {
		t.Errorf("%g bits per element", bits)
	}
	if got := p.LinesPerLookup(); got != 3 {
		t.Errorf("%g lines per look-up", got)
	}
	if got := p.RatePerSecond(); math.Abs(got-11574.07) > 0.01 {
		t.Errorf("%g IDs a second", got)
	}

	w := billion
	w.Kind = Classic
	p = solve(t, w)
	if bits := p.BitsPerElement(); math.Abs(bits-15.9) > 0.05 {
		t.Errorf("classic: %g bits per element", bits)
	}
	if got := p.LinesPerLookup(); got < 25 || got > 28 {
		t.Errorf("classic: %g lines per look-up", got)
	}
}

// The defaults of run leave room for peak and skew: 2.5 times the memory.
func TestSolve_RunDefaults(t *testing.T) {
	w := billion
	w.Partitions, w.Peak, w.Skew = 8, DefaultPeak, DefaultSkew
	p := solve(t, w)
	if p.Share != 156_250_000 || p.Planned != 312_500_000 || p.GenerationCapacity != 44_642_858 {
		t.Errorf("shares are %+v", p)
	}
	w.Peak, w.Skew = 1, 1
	if ratio := float64(p.Bytes) / float64(solve(t, w).Bytes); math.Abs(ratio-2.5) > 1e-4 {
		t.Errorf("%g times the memory of the bare calculation", ratio)
	}
}

// What is one window as a whole takes no room for rotations and peaks.
func TestSolve_Single(t *testing.T) {
	w := billion
	w.Kind, w.Peak = Single, 2
	for fpr, limit := range map[float64]float64{1e-2: 10, 1e-4: 20} {
		w.FPR = fpr
		p := solve(t, w)
		if p.Planned != w.Elements || p.GenerationCapacity != w.Elements {
			t.Errorf("shares are %+v", p)
		}
		if want, err := filter.SingleSize(w.Elements, fpr); err != nil || p.Single != want || p.Bytes != want.Bytes() {
			t.Errorf("plan is %+v, want the geometry %+v, %v", p, want, err)
		}
		if bits := p.BitsPerElement(); bits > limit || bits < 0.95*limit {
			t.Errorf("%g bits per element at %g, want %g", bits, fpr, limit)
		}
		if got := p.LinesPerLookup(); got != 2 {
			t.Errorf("%g lines per look-up", got)
		}
		if got, want := p.FPRAt([filter.Generations]uint64{0: w.Elements}), p.Single.FPR(w.Elements); got != want || got > fpr {
			t.Errorf("full it has a rate of %g, its model says %g", got, want)
		}
		if _, err := NewReport(p, Deployment{}); err == nil {
			t.Error("a report of a plan without a window")
		}
	}
}

// One partition gets everything and never more, whatever the skew.
func TestSolve_SkewIsAtMostEverything(t *testing.T) {
	f := func(partitions int, skew float64, want uint64) {
		t.Helper()
		w := billion
		w.Partitions, w.Skew = partitions, skew
		if got := solve(t, w).Share; got != want {
			t.Errorf("%d partitions, skew %g: share %d, want %d", partitions, skew, got, want)
		}
	}
	f(1, 1.25, 1e9)
	f(2, 1.25, 625e6)
	f(2, 3, 1e9)
	f(16, 12.8, 800e6) // four fifths of all keys in one of 16
	f(3, 1, 333_333_334)
}

func TestSolve_RateIsElements(t *testing.T) {
	w := billion
	w.Elements, w.Rate = 0, 11574.1
	p := solve(t, w)
	if want := uint64(math.Ceil(11574.1 * 86400)); p.Elements != want || p.RatePerSecond() != 11574.1 {
		t.Errorf("%d elements at %g a second, want %d", p.Elements, p.RatePerSecond(), want)
	}
	w.Rate = 1e-9
	if p := solve(t, w); p.Elements != 1 {
		t.Errorf("hardly any: %d elements", p.Elements)
	}
}

// TestCase_BLOOM_08 is 80% of the new IDs in one of 16 partitions. Planned evenly, that
// one is full at a tenth of them and the others are not; with --skew 12.8 all hold.
func TestCase_BLOOM_08(t *testing.T) {
	w := billion
	w.Partitions = 16
	const hot, others = 800_000_000 / filter.Sealed, 200_000_000 / 15 / filter.Sealed
	for skew, holds := range map[float64]bool{1: false, DefaultSkew: false, 12.8: true} {
		w.Skew = skew
		p := solve(t, w)
		if p.GenerationCapacity < others || (p.GenerationCapacity >= hot) != holds {
			t.Errorf("skew %g: a generation takes %d, the hot partition has %d, the others %d", skew, p.GenerationCapacity, hot, others)
		}
		r, err := NewReport(p, Deployment{})
		if err != nil {
			t.Fatal(err)
		}
		if flags := workloadOf(t, r.RunFlags, 16); flags.Skew != skew || r.Skew != skew {
			t.Errorf("skew %g: the report says %g, its flags are %s", skew, r.Skew, r.RunFlags)
		}
	}
}

func TestCase_BLOOM_09(t *testing.T) {
	w := billion
	w.FPR = 1e-3
	if got := solve(t, w).FalsePositivesPerDay(); math.Abs(got-1e6) > 1 {
		t.Errorf("%g false positives a day, want a million", got)
	}
	w.FPR = 1e-6
	r, err := NewReport(solve(t, w), Deployment{})
	if err != nil {
		t.Fatal(err)
	}
	if gib := float64(r.ClassicBytes) / (1 << 30); math.Abs(gib-3.35) > 0.005 || r.ClassicHashes != 20 {
		t.Errorf("one filter of %.2f GiB with %d hashes, want 3.35 with 20", gib, r.ClassicHashes)
	}
	if math.Abs(r.ExpectedFalsePositivesADay-1000) > 1 {
		t.Errorf("%g false positives a day, want a thousand", r.ExpectedFalsePositivesADay)
	}
}

// With all generations full the rate is within the target, and full is what the
// workload's peak makes of its largest partition.
func TestSolve_HoldsItsRateWhenFull(t *testing.T) {
	r := newRand(t)
	for range 300 {
		w := randomWorkload(r)
		p := solve(t, w)
		var full [filter.Generations]uint64
		for i := range full {
			full[i] = p.GenerationCapacity
		}
		generations, peak := float64(filter.Sealed), w.Peak
		if w.Kind == Single {
			clear(full[1:])
			generations, peak = 1, 1
		}
		if got := p.FPRAt(full); got > w.FPR*(1+1e-12) {
			t.Errorf("%+v: the rate of full generations is %g", p, got)
		}
		if need := float64(w.Elements) / float64(w.Partitions) * min(w.Skew, float64(w.Partitions)) * peak / generations; float64(p.GenerationCapacity) < need {
			t.Errorf("%+v: a generation holds %d, its peak is %g", p, p.GenerationCapacity, need)
		}
		if p.Bytes != p.BytesPerPartition*uint64(w.Partitions) {
			t.Errorf("%+v: partitions do not add up", p)
		}
	}
}

// ForMemory inverts Solve: its plan fits, is what Solve makes of its elements, and one
// element more does not fit.
func TestForMemory_IsTheInverse(t *testing.T) {
	r := newRand(t)
	for range 30 {
		w := randomWorkload(r)
		memory := solve(t, w).Bytes + r.Uint64N(100)
		atLeast := w.Elements
		w.Elements = 0
		p, err := ForMemory(w, memory)
		if err != nil {
			t.Fatalf("ForMemory(%+v, %d): %v", w, memory, err)
		}
		if p.Bytes > memory || p.Elements < atLeast {
			t.Errorf("%d bytes hold %d elements, the plan for %d takes %d", memory, atLeast, p.Elements, p.Bytes)
		}
		w.Elements = p.Elements
		if again := solve(t, w); again != p {
			t.Errorf("ForMemory gives %+v, Solve %+v", p, again)
		}
		w.Elements++
		if more := solve(t, w); more.Bytes <= memory {
			t.Errorf("%d bytes hold more than %d elements in %+v", memory, p.Elements, w)
		}
	}
}

func TestForMemory_Refuses(t *testing.T) {
	f := func(change func(*Workload), bytes uint64, want ...string) {
		t.Helper()
		w := billion
		w.Elements = 0
		change(&w)
		_, err := ForMemory(w, bytes)
		for _, text := range want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%+v: %v, want %q", w, err, text)
			}
		}
	}
	f(func(*Workload) {}, 0, "smallest filters for 1 partition take 4096 bytes")
	f(func(w *Workload) { w.Partitions = 10 }, 40_959, "smallest filters for 10 partitions take 40960 bytes")
	f(func(w *Workload) { w.Elements = 5; w.FPR = 2 }, 1<<20, "Elements is 5", "FPR is 2")
	f(func(w *Workload) { w.Rate = 5 }, 1<<20, "Rate is 5")
}

// All faults are reported at once, by the names of their fields.
func TestWorkload_Validate(t *testing.T) {
	all := Workload{
		Elements: 1, Rate: 1, FPR: math.NaN(), Window: time.Millisecond,
		Peak: 0.5, Skew: math.Inf(1), Partitions: 0, Kind: 9, Layout: 9,
	}
	_, err := Solve(all)
	for _, field := range []string{"Elements is 1 and Rate is 1", "FPR is NaN", "Window is 1ms",
		"Peak is 0.5", "Skew is +Inf", "Partitions is 0", "Kind is Kind(9)", "Layout is Layout(9)"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v does not say %q", err, field)
		}
	}
	f := func(want string, change func(*Workload)) {
		t.Helper()
		w := billion
		change(&w)
		if p, err := Solve(w); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %+v, %v; want %q", w, p, err, want)
		}
	}
	f("Elements and Rate are 0", func(w *Workload) { w.Elements = 0 })
	f("Rate is -1", func(w *Workload) { w.Elements, w.Rate = 0, -1 })
	f("Rate is NaN", func(w *Workload) { w.Elements, w.Rate = 0, math.NaN() })
	f("Rate is +Inf", func(w *Workload) { w.Elements, w.Rate = 0, math.Inf(1) })
	f("FPR is 1,", func(w *Workload) { w.FPR = 1 })
	f("FPR is 1e-18", func(w *Workload) { w.FPR = 1e-18 })
	f("Peak is NaN", func(w *Workload) { w.Peak = math.NaN() })
	f("limit", func(w *Workload) { w.Elements = 1 << 63 })
	f("limit", func(w *Workload) { w.Elements = 1 << 50 })
	f("limit", func(w *Workload) { w.Peak = 1e300 })
	f("limit", func(w *Workload) { w.Elements, w.Rate = 0, 1e300 })
	f("no machine", func(w *Workload) { w.Partitions, w.Elements = math.MaxInt, 1<<50 })
}

func TestPlan_NewSet(t *testing.T) {
	for _, kind := range []Kind{Sliced, Classic, Single} {
		w := billion
		w.Elements, w.Partitions, w.Kind = 1_000_000, 10, kind
		p := solve(t, w)
		set, err := p.NewSet()
		if err != nil {
			t.Fatal(err)
		}
		if set.Bytes() != p.BytesPerPartition {
			t.Errorf("%v: the set takes %d bytes, the plan says %d", kind, set.Bytes(), p.BytesPerPartition)
		}
		if err := set.Close(); err != nil {
			t.Error(err)
		}
		if set, err := (Plan{Workload: w}).NewSet(); err == nil || set != nil {
			t.Errorf("%v: a plan of nothing makes %v, %v", kind, set, err)
		}
	}
}

func TestKind_Text(t *testing.T) {
	for _, kind := range []Kind{Sliced, Classic} {
		if got, err := ParseKind(kind.String()); err != nil || got != kind {
			t.Errorf("%v reads back as %v, %v", kind, got, err)
		}
	}
	// A stream that moves on would forget nothing in it: it is no choice there.
	if got, err := ParseKind(Single.String()); err == nil || Single.String() != "single" {
		t.Errorf("%v reads as %v", Single, got)
	}
	if _, err := ParseKind("cuckoo"); err == nil || !strings.Contains(err.Error(), `"cuckoo"`) {
		t.Errorf("unknown kind: %v", err)
	}
}
