package window

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// TestObserveDoesNotAllocate, with new hashes, repeats and rotations. Its journal
// is the set's and grows until a commit, so each run commits.
func TestObserveDoesNotAllocate(t *testing.T) {
	w := mustNew(t, config(700*time.Millisecond), openSet(t, sets["sliced"]))
	var r reader
	now, ids := int64(1_700_000_000_000), uint64(0)
	records := make([]record, 200)
	run := func() {
		for i := range records {
			now++
			ids += uint64(i % 2)
			records[i] = record{offset: now, time: now, hash: hashOf(ids)}
		}
		for i := range records {
			records[i].now = now
		}
		if got, stop := r.read(w, records); len(got) != len(records) || stop != StopNone {
			t.Fatalf("read %d, stop %v", len(got), stop)
		}
		w.Sweep()
		w.Seal()
		w.Commit()
	}
	for range 100 {
		run()
	}
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations for a batch", n)
	}
}

// TestMisusePanics, since going on would judge by the wrong hashes or forget what
// a rollback needs.
func TestMisusePanics(t *testing.T) {
	observed := func() *Window {
		w := mustNew(t, config(70*time.Millisecond), newExactSet())
		var r reader
		r.read(w, []record{{time: 1, now: 1}})
		return w
	}
	rebuilder := func() *Rebuilder {
		r, err := Rebuild(config(70*time.Millisecond), newExactSet(), State{Slice: 10})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for name, misuse := range map[string]func(){
		"Commit without a sealed section": func() { observed().Commit() },
		"MarkCold after the first record": func() { observed().MarkCold() },
		"a batch of 1 records differ":     func() { observed().Observe(&Batch{Offsets: []int64{1}}) },
		"clock of a batch says":           func() { observed().Observe(&Batch{Now: math.MaxInt64}) },
		"of 1 records to learn differ":    func() { rebuilder().Learn([]int64{1}, nil, nil, nil) },
		"added 1 hashes more than":        func() { observe1(mustNew(t, config(70*time.Millisecond), liar{newExactSet()})) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				text, _ := recover().(string)
				if !strings.HasPrefix(text, "BUG: ") || !strings.Contains(text, name) {
					t.Errorf("panic %q", text)
				}
			}()
			misuse()
		})
	}
}

// liar claims to have added one more hash than it did.
type liar struct{ *exactSet }

func (l liar) TestAndAdd(hashes []filter.Hash, learn []bool, room uint64, ages []uint8) uint64 {
	return l.exactSet.TestAndAdd(hashes, learn, room, ages) + 1
}

func observe1(w *Window) {
	var r reader
	r.read(w, []record{{time: 1, now: 1}})
}

// TestStopGivesTheStateBefore stops in the middle of batches, with rotations, a
// first believed time and marks before the stop, and compares with a window whose
// batch ended there.
func TestStopGivesTheStateBefore(t *testing.T) {
	rng := newRand(t)
	stops := map[Stop]int{}
	for range scaled(5000) {
		cfg := config(70 * time.Millisecond)
		cfg.LearnLate, cfg.StopAtLate = false, rng.IntN(2) == 0
		cfg.GenerationCapacity, cfg.OnFull = 1+rng.Uint64N(20), FailWhenFull
		records := newHistory(rng, cfg).take(200)
		for i := range records {
			records[i].now = records[i-i%20].now + 1
		}
		w, other := mustNew(t, cfg, newExactSet()), mustNew(t, cfg, newExactSet())
		var r, one reader
		got, stop := r.read(w, records)
		stops[stop]++
		for i, v := range got {
			if want, stop := one.read(other, records[i:i+1]); stop != StopNone || want[0] != v {
				t.Fatalf("record %d: %v, alone: %v, stop %v", i, v, want, stop)
			}
		}
		if string(w.AppendState(nil)) != string(other.AppendState(nil)) {
			t.Fatalf("state after %v at record %d is %+v, want %+v", stop, len(got), w.State(), other.State())
		}
		if len(got) < len(records) {
			if _, again := one.read(other, records[len(got):len(got)+1]); again != stop {
				t.Fatalf("record %d: stop %v, alone: %v", len(got), stop, again)
			}
		}
	}
	if stops[StopLate] == 0 || stops[StopFull] == 0 {
		t.Errorf("stops that came up: %v", stops)
	}
}

// TestStateBytes pins the order and the length of what AppendState writes.
func TestStateBytes(t *testing.T) {
	w := mustNew(t, config(70*time.Millisecond), newExactSet())
	observe1(w)
	if n := len(w.core.appendTo(nil)); n != coreBytes {
		t.Errorf("%d bytes, want %d", n, coreBytes)
	}
	b := w.AppendState([]byte("before"))
	if string(b[:6]) != "before" || b[6] != 1 || b[14] != 1 || len(b) <= 6+coreBytes {
		t.Errorf("state is %q", b)
	}
}

func TestAgeOf(t *testing.T) {
	w := mustNew(t, config(70*time.Millisecond), newExactSet())
	for ages, want := range map[uint8]time.Duration{0: 0, 1: 0, 2: 10 * time.Millisecond, 128: 70 * time.Millisecond, 129: 0, 160: 50 * time.Millisecond} {
		if got := w.AgeOf(ages); got != want {
			t.Errorf("mask %08b: age %v, want %v", ages, got, want)
		}
	}
}

// TestColdAtTimeZero begins a cold window where the stream time is 0, which must
// not be taken for a window that nothing came before.
func TestColdAtTimeZero(t *testing.T) {
	w := mustNew(t, config(70*time.Millisecond), newExactSet())
	w.MarkCold()
	var r reader
	r.read(w, []record{{time: NoTime, now: 0}})
	if c := w.Coverage(); c != 0 {
		t.Errorf("coverage %v, want 0", c)
	}
}

func TestFloorDiv(t *testing.T) {
	for _, c := range [][3]int64{{0, 10, 0}, {9, 10, 0}, {10, 10, 1}, {-1, 10, -1}, {-10, 10, -1}, {-11, 10, -2}} {
		if got := floorDiv(c[0], c[1]); got != c[2] {
			t.Errorf("floor(%d/%d) is %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// BenchmarkObserve is a batch of 1000 records, half of them repeats, on a set
// that stays in the cache: what the window itself costs, and the look-up.
func BenchmarkObserve(b *testing.B) {
	w := mustNew(b, config(time.Hour), openSet(b, sets["sliced"]))
	records := make([]record, 1000)
	for i := range records {
		records[i] = record{offset: int64(i), time: 1_700_000_000_000, now: 1_700_000_000_000, hash: hashOf(uint64(i / 2))}
	}
	var r reader
	batch := r.fill(records)
	for b.Loop() {
		w.Observe(batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(records)), "ns/record")
}

// TestStatsEstimateTheRate compares Stats.FPR with what is measured of new records, as
// the window fills, in every generation and after a rollback.
func TestStatsEstimateTheRate(t *testing.T) {
	const planned, probes = 100_000, 40_000
	params, err := filter.Size(planned, 1e-1, filter.Compact)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(70 * time.Second)
	cfg.GenerationCapacity = planned / filter.Sealed
	win := mustNew(t, cfg, openSet(t, func(t testing.TB) filter.Set {
		s, err := filter.NewSliced(params)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}))
	if got := win.Stats().FPR; got != 0 {
		t.Errorf("an empty window has a rate of %g", got)
	}
	var r reader
	id := uint64(0)
	read := func(n int, at int64, noLearn bool) (seen int) {
		for n > 0 {
			records := make([]record, min(n, 1000))
			for i := range records {
				records[i] = record{offset: int64(id), time: at, now: at, hash: hashOf(id), noLearn: noLearn}
				id++
			}
			got, _ := r.read(win, records)
			for _, v := range got {
				if v.ages != 0 {
					seen++
				}
			}
			n -= len(records)
		}
		return seen
	}
	compared := 0
	for slice := range int64(12) {
		at := 1_700_000_000_000 + slice*cfg.Slice()
		for range 2 {
			read(planned/filter.Sealed/2, at, false)
			got := win.Stats().FPR
			if want := float64(read(probes, at, true)) / probes; want > 0.02 {
				compared++
				if got < 0.9*want || got > 1.1*want {
					t.Errorf("slice %d: a rate of %.4g, measured %.4g", slice, got, want)
				}
			}
			win.Seal()
			win.Commit()
		}
	}
	if compared < 8 {
		t.Errorf("compared at %d moments: the test is too tame", compared)
	}
	before := win.Stats().FPR
	read(100, 1_700_000_000_000+100*cfg.Slice(), false) // which forgets everything
	if got := win.Stats().FPR; got > before/10 {
		t.Errorf("a rate of %g after everything was forgotten, %g before", got, before)
	}
	win.Rollback()
	if got := win.Stats().FPR; got != before {
		t.Errorf("a rate of %g after a rollback, want %g", got, before)
	}
}
