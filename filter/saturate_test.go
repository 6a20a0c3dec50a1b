package filter

import (
	"math"
	"testing"
)

// TestSaturate compares a saturated filter with the model of a full one: unknown
// IDs must be found in it about as often, and forgotten with its generations.
func TestSaturate(t *testing.T) {
	const elements, fpr, probes = 70_000, 0.01, 200_000
	f := func(name string, s interface {
		Set
		Saturate(elements, seed uint64)
	}) {
		t.Helper()
		s.Saturate(elements, 7)
		found := func() (n int) {
			for i := range uint64(probes) {
				if s.Test(scatter(unused+i)) != 0 {
					n++
				}
			}
			return n
		}
		// The lines of a saturated filter are evenly full, those of a real one are
		// not, which at two lines for each ID makes up a third of their rate.
		if rate := float64(found()) / probes; math.Abs(rate-fpr) > fpr/2 {
			t.Errorf("%s: a saturated filter finds %g of unknown IDs, want about %g", name, rate, fpr)
		}
		s.Rotate(Generations)
		if n := found(); n != 0 {
			t.Errorf("%s: %d unknown IDs are found after all generations are gone", name, n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, layout := range []Layout{Compact, Fast} {
		p, err := Size(elements, fpr, layout)
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewSliced(p)
		if err != nil {
			t.Fatal(err)
		}
		f(layout.String(), s)
	}
	p, err := ClassicSize(elements, fpr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewClassic(p)
	if err != nil {
		t.Fatal(err)
	}
	f("classic", c)
}
