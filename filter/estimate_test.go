package filter_test

import (
	"math"
	"testing"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/filter/internal/simulate"
)

// estimated fills a set of geometry g, which was sized for elements, to a share of that,
// and compares what it says of its rate with what is measured. The seed is fixed.
func estimated(t *testing.T, g model, elements uint64, share float64) {
	t.Helper()
	loads := equalLoads(uint64(share * float64(elements)))
	if _, ok := g.(filter.SingleParams); ok {
		loads = [filter.Generations]uint64{uint64(share * float64(elements))}
	}
	set, ids := build(t, g), simulate.NewIDs(1)
	simulate.Fill(set, ids, loads)
	estimate := set.FPREstimate()
	probes := uint64(2000 / estimate) // for a deviation of 2% of what is measured
	rate := float64(simulate.Positives(set, ids, probes)) / float64(probes)
	t.Logf("%+v, %g full: measured %.4g, estimated %.4g, model %.4g", g, share, rate, estimate, g.FPRAt(loads))
	if ratio := estimate / rate; ratio < 0.9 || ratio > 1.1 {
		t.Errorf("%+v, %g full: measured %.4g, estimated %.4g", g, share, rate, estimate)
	}
	if again := set.FPREstimate(); again != estimate {
		t.Errorf("%+v: estimated %g, then %g", g, estimate, again)
	}
	if n := testing.AllocsPerRun(3, func() { set.FPREstimate() }); n != 0 {
		t.Errorf("%+v: an estimate allocates %v times", g, n)
	}
}

// A live filter says what its rate is within a tenth, at any fill, also where it has
// taken more than it was sized for and the model says too little.
func TestFPREstimate_IsMeasured(t *testing.T) {
	const elements = 500_000
	geometries := map[string]func(fpr float64) (model, error){
		"compact": func(fpr float64) (model, error) { return filter.Size(elements, fpr, filter.Compact) },
		"fast":    func(fpr float64) (model, error) { return filter.Size(elements, fpr, filter.Fast) },
		"single":  func(fpr float64) (model, error) { return filter.SingleSize(elements, fpr) },
		"classic": func(fpr float64) (model, error) { return filter.ClassicSize(elements, fpr) },
	}
	for name, size := range geometries {
		t.Run(name, func(t *testing.T) {
			g, err := size(1e-2)
			if err != nil {
				t.Fatal(err)
			}
			usual, low := []float64{0.75, 1, 1.5, 2}, []float64{2}
			switch {
			case name == "classic": // a look-up of a ring takes long
				usual, low = []float64{1, 1.5}, nil
			case long():
				usual, low = append(usual, 0.5), append(low, 1)
			}
			for _, share := range usual {
				estimated(t, g, elements, share)
			}
			if g, err = size(1e-4); err != nil {
				t.Fatal(err)
			}
			for _, share := range low {
				estimated(t, g, elements, share)
			}
		})
	}
}

// What only some generations hold counts as far as it is held: no stamp, no expired bit
// and no line that was not cleaned yet is taken for a set one.
func TestFPREstimate_ForgetsWithTheWindow(t *testing.T) {
	p, err := filter.Size(200_000, 1e-2, filter.Compact)
	if err != nil {
		t.Fatal(err)
	}
	c, err := filter.ClassicSize(200_000, 1e-2)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []model{p, c} {
		set, ids := build(t, g), simulate.NewIDs(1)
		if got := set.FPREstimate(); got != 0 {
			t.Errorf("%+v: an empty filter estimates %g", g, got)
		}
		loads := equalLoads(200_000)
		simulate.Fill(set, ids, loads)
		for range filter.Generations {
			want := g.FPRAt(loads)
			if got := set.FPREstimate(); math.Abs(got-want) > 0.1*want {
				t.Errorf("%+v with loads %v: estimated %g, the model says %g", g, loads, got, want)
			}
			set.Rotate(1)
			copy(loads[:], append(loads[1:], 0))
		}
		if got := set.FPREstimate(); got != 0 {
			t.Errorf("%+v: a filter that has forgotten all estimates %g", g, got)
		}
	}
}

// A filter whose every bit is set takes everything for seen.
func TestFPREstimate_OfAFullFilter(t *testing.T) {
	for _, g := range []model{filter.Params{Lines: 64, LinesPerKey: 2, CellsPerLine: 4}, filter.SingleParams{Lines: 64, BitsPerLine: 3}} {
		set, ids := build(t, g), simulate.NewIDs(1)
		hashes, learn, ages := make([]filter.Hash, 1000), make([]bool, 1000), make([]uint8, 1000)
		for i := range learn {
			learn[i] = true
		}
		for range 1000 {
			ids.Next(hashes)
			set.TestAndAdd(hashes, learn, 1000, ages)
		}
		if got := set.FPREstimate(); got < 0.99 || got > 1 {
			t.Errorf("%+v: estimated %g, want 1", g, got)
		}
	}
}

func BenchmarkFPREstimate(b *testing.B) {
	for name, open := range map[string]func() (filter.Set, error){
		"sliced": func() (filter.Set, error) {
			return filter.NewSliced(filter.Params{Lines: 1 << 22, LinesPerKey: 4, CellsPerLine: 4})
		},
		"classic": func() (filter.Set, error) { return filter.NewClassic(filter.ClassicParams{Bits: 1 << 28, Hashes: 10}) },
		"single": func() (filter.Set, error) {
			return filter.NewSingle(filter.SingleParams{Lines: 1 << 22, BitsPerLine: 6})
		},
	} {
		b.Run("filter="+name, func(b *testing.B) {
			set, err := open()
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				set.FPREstimate()
			}
			if err := set.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
