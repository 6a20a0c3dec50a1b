package filter_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"math/bits"
	"os"
	"slices"
	"testing"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/filter/internal/simulate"
)

// model is what the geometries of both kinds say about themselves.
type model interface {
	FPR(elements uint64) float64
	FPRAt(loads [filter.Generations]uint64) float64
}

// chainRate is the false-positive rate of a generation by running the occupancy
// chain that the doc of [filter.Params.FPRAt] solves: states are the numbers of set cells,
// a step is a throw, and the visits are weighted by their Poisson chances. It has
// only positive terms and shares nothing with the model but the definitions. A key has
// d lines of so many cells, and throws at each.
func chainRate(cells, d, throws int, lines, n uint64) float64 {
	visits := float64(n) * float64(d) / float64(lines)
	occupied := make([]float64, cells+1)
	occupied[0] = 1
	var hit, covered float64
	for i := 0; covered < 1-1e-15 && float64(i) < visits+100+20*math.Sqrt(visits); i++ {
		var found float64
		for set, chance := range occupied {
			found += chance * math.Pow(float64(set)/float64(cells), float64(throws))
		}
		logFactorial, _ := math.Lgamma(float64(i + 1))
		weight := math.Exp(float64(i)*math.Log(visits) - visits - logFactorial)
		hit += weight * found
		covered += weight
		for range throws {
			for set := cells; set >= 0; set-- {
				occupied[set] *= float64(set) / float64(cells)
				if set > 0 {
					occupied[set] += occupied[set-1] * float64(cells-set+1) / float64(cells)
				}
			}
		}
	}
	return math.Pow(hit, float64(d))
}

func TestFPR_IsTheOccupancyChain(t *testing.T) {
	for lines := 2; lines <= 4; lines++ {
		for cells := 1; cells <= 8; cells++ {
			p := filter.Params{Lines: 1_000_000, LinesPerKey: lines, CellsPerLine: cells}
			for _, n := range []uint64{1000, 50_000, 400_000, 1_000_000, 4_000_000, 20_000_000} {
				// The model sums with signs, so it loses digits of rates that no one
				// can observe.
				got, want := p.FPRAt([filter.Generations]uint64{n}), chainRate(filter.CellsInLine, lines, cells, p.Lines, n)
				if math.Abs(got-want) > 1e-8*want+1e-25 {
					t.Errorf("%+v with %d IDs: the rate is %.12g, the chain gives %.12g", p, n, got, want)
				}
			}
		}
	}
	for bits := 1; bits <= 14; bits++ {
		p := filter.SingleParams{Lines: 1_000_000, BitsPerLine: bits}
		for _, n := range []uint64{1_000_000, 10_000_000, 30_000_000, 100_000_000} {
			got, want := p.FPR(n), chainRate(8*filter.LineBytes, filter.SingleLinesPerKey, bits, p.Lines, n)
			// Fourteen terms with signs cancel each other to fewer digits than eight.
			if math.Abs(got-want) > 1e-6*want+1e-18 {
				t.Errorf("%+v with %d IDs: the rate is %.12g, the chain gives %.12g", p, n, got, want)
			}
		}
	}
}

func TestFPRAt_IsTheUnion(t *testing.T) {
	geometries := []model{filter.Params{Lines: 100_000, LinesPerKey: 3, CellsPerLine: 3}, filter.Params{Lines: 100_000, LinesPerKey: 2, CellsPerLine: 6}, filter.ClassicParams{Bits: 1_000_000, Hashes: 10}}
	for _, g := range geometries {
		single := func(n uint64) float64 { return g.FPRAt([filter.Generations]uint64{n}) }
		loads := [filter.Generations]uint64{300_000, 0, 50_000, 7, 123_456, 90_000, 1, 60_000}
		pass := 1.0
		for _, n := range loads {
			pass *= 1 - single(n)
		}
		if got := g.FPRAt(loads); math.Abs(got-(1-pass)) > 1e-12 {
			t.Errorf("%+v: FPRAt is %.15g, the union of its generations %.15g", g, got, 1-pass)
		}
		loads[0], loads[7] = loads[7], loads[0]
		if got := g.FPRAt(loads); math.Abs(got-(1-pass)) > 1e-12 {
			t.Errorf("%+v: the order of generations matters", g)
		}
		var full [filter.Generations]uint64
		for i := range full {
			full[i] = 50_001 // 350,001 elements are 50,000.14 a generation: rounded up
		}
		if at, all := g.FPRAt(full), g.FPR(350_001); math.Abs(at-all) > 1e-12 {
			t.Errorf("%+v: FPRAt of equal loads %.15g, FPR %.15g", g, at, all)
		}
		// Small rates keep their digits: one ID is an eighth of eight.
		for i := range full {
			full[i] = 1
		}
		if one, eight := single(1), g.FPRAt(full); one <= 0 || math.Abs(eight/one-filter.Generations) > 1e-6 {
			t.Errorf("%+v: rates of one ID %g, of eight %g", g, one, eight)
		}
	}
}

func TestFPR_NeverFalls(t *testing.T) {
	for _, g := range []model{filter.Params{Lines: 64, LinesPerKey: 2, CellsPerLine: 1}, filter.Params{Lines: 1000, LinesPerKey: 3, CellsPerLine: 4}, filter.Params{Lines: 1 << 20, LinesPerKey: 4, CellsPerLine: 8}, filter.ClassicParams{Bits: 1 << 20, Hashes: 14},
		filter.SingleParams{Lines: 64, BitsPerLine: 1}, filter.SingleParams{Lines: 1 << 20, BitsPerLine: 6}, filter.SingleParams{Lines: 1 << 20, BitsPerLine: 14}} {
		var before float64
		for n := uint64(1); n < 1<<50; n += 1 + n/9 {
			rate := g.FPR(n)
			// A sum with signs has lost the digits of what no one can observe.
			if rate < before*(1-1e-9)-1e-20 || rate > 1 {
				t.Errorf("%+v: rate %g at %d, %g before", g, rate, n, before)
			}
			before = rate
		}
	}
}

// long is whether the long versions of tests run.
func long() bool { return os.Getenv("STREAMDEDUP_LONG") != "" }

// equalLoads are the generations of a window of elements at its worst moment.
func equalLoads(elements uint64) (loads [filter.Generations]uint64) {
	for i := range loads {
		loads[i] = (elements + filter.Sealed - 1) / filter.Sealed
	}
	return loads
}

// build makes the set that a geometry describes.
func build(t *testing.T, g model) filter.Set {
	t.Helper()
	var set filter.Set
	var err error
	switch p := g.(type) {
	case filter.Params:
		set, err = filter.NewSliced(p)
	case filter.ClassicParams:
		set, err = filter.NewClassic(p)
	case filter.SingleParams:
		set, err = filter.NewSingle(p)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	return set
}

// measure is the rate at which a set of geometry g, which has learned loads, takes
// absent IDs for seen. Its seed is fixed, so that a run either always passes or never.
func measure(t *testing.T, g model, loads [filter.Generations]uint64, probes uint64) float64 {
	t.Helper()
	set, ids := build(t, g), simulate.NewIDs(1)
	simulate.Fill(set, ids, loads)
	return float64(simulate.Positives(set, ids, probes)) / float64(probes)
}

// The published promise: in a full window, just before a rotation, the share of new
// IDs taken for seen is what the model says, within a tenth, and at most a tenth above
// the target. Three standard deviations of each run are less than that tenth.
func TestFPR_IsMeasured(t *testing.T) {
	sliced := func(layout filter.Layout) func(uint64, float64) (model, error) {
		return func(n uint64, fpr float64) (model, error) { return filter.Size(n, fpr, layout) }
	}
	classic := func(n uint64, fpr float64) (model, error) { return filter.ClassicSize(n, fpr) }
	single := func(n uint64, fpr float64) (model, error) { return filter.SingleSize(n, fpr) }
	f := func(name string, size func(uint64, float64) (model, error), fpr float64, probes uint64) {
		t.Helper()
		elements := uint64(200_000)
		if long() {
			elements = 5_000_000
		}
		g, err := size(elements, fpr)
		if err != nil {
			t.Fatal(err)
		}
		if sigma := 1 / math.Sqrt(fpr*float64(probes)); 3*sigma > 0.1 {
			t.Fatalf("%s at %g: %d probes are too few to tell", name, fpr, probes)
		}
		loads := equalLoads(elements)
		if _, ok := g.(filter.SingleParams); ok {
			loads = [filter.Generations]uint64{elements}
		}
		rate := measure(t, g, loads, probes)
		t.Logf("%s at %g, %+v: measured %.4g, model %.4g", name, fpr, g, rate, g.FPR(elements))
		if ratio := rate / g.FPR(elements); ratio < 0.9 || ratio > 1.1 || rate > 1.1*fpr {
			t.Errorf("%s at %g, %+v: measured %.4g, model %.4g", name, fpr, g, rate, g.FPR(elements))
		}
	}
	most, rare := uint64(200_000), uint64(10_000_000)
	if long() {
		most, rare = 2_000_000, 20_000_000
	}
	f("compact", sliced(filter.Compact), 1e-2, most)
	f("compact", sliced(filter.Compact), 1e-4, rare)
	f("fast", sliced(filter.Fast), 1e-2, most)
	f("fast", sliced(filter.Fast), 1e-4, rare)
	f("single", single, 1e-2, most)
	f("single", single, 1e-4, rare)
	f("classic", classic, 1e-2, most)
	if long() { // a look-up of a classic ring takes long
		f("classic", classic, 1e-4, rare)
	}
}

// A live filter estimates its rate from the counts of its generations.
func TestFPRAt_IsMeasured(t *testing.T) {
	p, err := filter.Size(200_000, 1e-2, filter.Compact)
	if err != nil {
		t.Fatal(err)
	}
	c, err := filter.ClassicSize(200_000, 1e-2)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []model{p, c} {
		loads := [filter.Generations]uint64{0, 60_000, 1, 10_000, 30_000, 5_000, 45_000, 20_000}
		rate, want := measure(t, g, loads, 200_000), g.FPRAt(loads)
		if ratio := rate / want; ratio < 0.9 || ratio > 1.1 {
			t.Errorf("%+v: measured %.4g, model %.4g", g, rate, want)
		}
	}
}

// The rate belongs to the window, not to each of its generations.
func TestCase_BLOOM_04(t *testing.T) {
	const elements, fpr = 1_000_000, 1e-3
	p, err := filter.Size(elements, fpr, filter.Compact)
	if err != nil {
		t.Fatal(err)
	}
	if each := p.FPRAt([filter.Generations]uint64{elements / filter.Sealed}); each > fpr/filter.Generations*1.001 {
		t.Errorf("%+v: one generation has a rate of %g", p, each)
	}
	if rate := measure(t, p, equalLoads(elements), 1_000_000); rate > 1.1*fpr {
		t.Errorf("%+v: measured %g, want at most %g", p, rate, fpr)
	}
}

// A large filter uses all of its lines: a hash or an index of 32 bits would leave parts
// of one of 2^33 bits empty and its rate far above the model's. What has a pattern can be
// compressed to less than its share of set bits says. The short run scales the filter
// down.
func TestCase_BLOOM_01(t *testing.T) {
	lines := uint64(1 << 24)
	if !long() {
		lines /= 128
	}
	sliced := filter.Params{Lines: lines, LinesPerKey: 3, CellsPerLine: 3}
	single := filter.SingleParams{Lines: lines / 8, BitsPerLine: 3} // whose lines are picked alike
	for g, loads := range map[filter.Model][filter.Generations]uint64{
		sliced: equalLoads(sliced.Capacity(1e-2)),
		single: {single.Capacity(1e-2)},
	} {
		set, ids := build(t, g), simulate.NewIDs(1)
		simulate.Fill(set, ids, loads)
		const probes = 1_000_000
		rate, want := float64(simulate.Positives(set, ids, probes))/probes, g.FPRAt(loads)
		if ratio := rate / want; ratio < 0.9 || ratio > 1.1 {
			t.Errorf("%+v: measured %.4g, model %.4g", g, rate, want)
		}
		body := set.AppendBody(nil, 0, set.BodyBytes())
		if g == filter.Model(sliced) {
			body = withoutStamps(body)
		}
		var quarters [4]int
		for i, b := range body {
			quarters[i*4/len(body)] += bits.OnesCount8(b)
		}
		total := float64(quarters[0] + quarters[1] + quarters[2] + quarters[3])
		for at, set := range quarters {
			if share := float64(set) / total; math.Abs(share-0.25) > 0.001 {
				t.Errorf("%+v: quarter %d has %.4f of all bits that are set", g, at, share)
			}
		}
		share := total / float64(8*len(body))
		entropy := -(share*math.Log2(share) + (1-share)*math.Log2(1-share))
		if ratio := compressed(t, body) / float64(len(body)); ratio < 0.99*entropy {
			t.Errorf("%+v: %.3f of the bits are set, compressed it takes %.3f of its size, want %.3f", g, share, ratio, entropy)
		}
	}
}

// withoutStamps is the cells of a sliced filter's body.
func withoutStamps(body []byte) (cells []byte) {
	for line := range slices.Chunk(body, filter.LineBytes) {
		cells = append(cells, line[:filter.CellsInLine]...)
	}
	return cells
}

// compressed is the size of the first 16 MB of b as gzip writes it, scaled to all.
func compressed(t *testing.T, b []byte) float64 {
	t.Helper()
	part := b[:min(len(b), 16<<20)]
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(part); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return float64(out.Len()) / float64(len(part)) * float64(len(b))
}

// FPR.md says what the model says. Its measured column is the generator's.
func TestFPR_TableIsCurrent(t *testing.T) {
	doc, err := os.ReadFile("FPR.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := simulate.Table(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := simulate.WithoutMeasurements(string(doc)); got != want {
		t.Errorf("FPR.md is not what the model gives, run go generate on this package; it says\n%s\nthe model gives\n%s", got, want)
	}
}

func ExampleSize() {
	p, err := filter.Size(1_000_000_000, 0.0001, filter.Compact)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d lines of %d cells for each ID\n", p.LinesPerKey, p.CellsPerLine)
	fmt.Printf("%d bytes\n", p.Bytes())
	fmt.Printf("twice as many IDs: %.2f%% taken for seen\n", 100*p.FPR(2_000_000_000))
	// Output:
	// 4 lines of 4 cells for each ID
	// 3708194752 bytes
	// twice as many IDs: 4.31% taken for seen
}

func BenchmarkFPRAt(b *testing.B) {
	p := filter.Params{Lines: 1 << 20, LinesPerKey: 4, CellsPerLine: 4}
	loads := [filter.Generations]uint64{1e6, 2e6, 3e6, 1e6, 5, 6, 7, 8}
	for b.Loop() {
		p.FPRAt(loads)
	}
}
