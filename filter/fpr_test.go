package filter

import (
	"math"
	"testing"
)

// chainRate is the false-positive rate of a generation by running the occupancy
// chain that the doc of [Params.FPRAt] solves: states are the numbers of set cells,
// a step is a throw, and the visits are weighted by their Poisson chances. It has
// only positive terms and shares nothing with the model but the definitions.
func chainRate(p Params, n uint64) float64 {
	visits := float64(n) * float64(p.LinesPerKey) / float64(p.Lines)
	var occupied [CellsInLine + 1]float64
	occupied[0] = 1
	var hit, covered float64
	for i := 0; covered < 1-1e-15 && float64(i) < visits+100+20*math.Sqrt(visits); i++ {
		var found float64
		for cells, chance := range occupied {
			found += chance * math.Pow(float64(cells)/CellsInLine, float64(p.CellsPerLine))
		}
		logFactorial, _ := math.Lgamma(float64(i + 1))
		weight := math.Exp(float64(i)*math.Log(visits) - visits - logFactorial)
		hit += weight * found
		covered += weight
		for range p.CellsPerLine {
			for cells := CellsInLine; cells >= 0; cells-- {
				occupied[cells] *= float64(cells) / CellsInLine
				if cells > 0 {
					occupied[cells] += occupied[cells-1] * float64(CellsInLine-cells+1) / CellsInLine
				}
			}
		}
	}
	return math.Pow(hit, float64(p.LinesPerKey))
}

func TestFPR_IsTheOccupancyChain(t *testing.T) {
	for lines := minLinesPerKey; lines <= maxLinesPerKey; lines++ {
		for cells := minCellsPerLine; cells <= maxCellsPerLine; cells++ {
			p := Params{Lines: 1_000_000, LinesPerKey: lines, CellsPerLine: cells}
			for _, n := range []uint64{1000, 50_000, 400_000, 1_000_000, 4_000_000, 20_000_000} {
				// The model sums with signs, so it loses digits of rates that no one
				// can observe.
				got, want := p.FPRAt([Generations]uint64{n}), chainRate(p, n)
				if math.Abs(got-want) > 1e-8*want+1e-25 {
					t.Errorf("%+v with %d IDs: the rate is %.12g, the chain gives %.12g", p, n, got, want)
				}
			}
		}
	}
}

func TestFPRAt_IsTheUnion(t *testing.T) {
	geometries := []sized{Params{100_000, 3, 3}, Params{100_000, 2, 6}, ClassicParams{1_000_000, 10}}
	for _, g := range geometries {
		single := func(n uint64) float64 { return g.FPRAt([Generations]uint64{n}) }
		loads := [Generations]uint64{300_000, 0, 50_000, 7, 123_456, 90_000, 1, 60_000}
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
		var full [Generations]uint64
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
		if one, eight := single(1), g.FPRAt(full); one <= 0 || math.Abs(eight/one-Generations) > 1e-6 {
			t.Errorf("%+v: rates of one ID %g, of eight %g", g, one, eight)
		}
	}
}

func TestFPR_NeverFalls(t *testing.T) {
	for _, g := range []sized{Params{64, 2, 1}, Params{1000, 3, 4}, Params{1 << 20, 4, 8}, ClassicParams{1 << 20, 14}} {
		var before float64
		for n := uint64(1); n < 1<<50; n += 1 + n/9 {
			rate := g.FPR(n)
			if rate < before*(1-1e-9) || rate > 1 {
				t.Errorf("%+v: rate %g at %d, %g before", g, rate, n, before)
			}
			before = rate
		}
	}
}

func BenchmarkFPRAt(b *testing.B) {
	p := Params{Lines: 1 << 20, LinesPerKey: 4, CellsPerLine: 4}
	loads := [Generations]uint64{1e6, 2e6, 3e6, 1e6, 5, 6, 7, 8}
	for b.Loop() {
		p.FPRAt(loads)
	}
}
