package filter

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestSize_BitsPerElement(t *testing.T) {
	const elements = 1_000_000_000
	f := func(fpr float64, layout Layout, lines, cells int, limit float64) {
		t.Helper()
		p, err := Size(elements, fpr, layout)
		if err != nil {
			t.Fatal(err)
		}
		if p.LinesPerKey != lines || p.CellsPerLine != cells {
			t.Errorf("%g %v: %d lines of %d cells, want %d of %d", fpr, layout, p.LinesPerKey, p.CellsPerLine, lines, cells)
		}
		if bits := float64(p.Bytes()) * 8 / elements; bits > limit || bits < limit-0.5 {
			t.Errorf("%g %v: %.3f bits per element, limit %g", fpr, layout, bits, limit)
		}
	}
	f(1e-2, Compact, 3, 3, 17.1)
	f(1e-3, Compact, 3, 4, 24.1)
	f(1e-4, Compact, 4, 4, 30.0)
	f(1e-6, Compact, 4, 5, 45.8)
	f(1e-2, Fast, 2, 4, 18.3)
	f(1e-3, Fast, 2, 5, 27.3)
	f(1e-4, Fast, 2, 6, 39.0)
	f(1e-6, Fast, 2, 8, 75.2)
}

func TestClassicSize_BitsPerElement(t *testing.T) {
	const elements = 1_000_000_000
	f := func(fpr float64, hashes uint, want float64) {
		t.Helper()
		p, err := ClassicSize(elements, fpr)
		if err != nil {
			t.Fatal(err)
		}
		if bits := float64(p.Bytes()) * 8 / elements; p.Hashes != hashes || math.Abs(bits-want) > 0.05 {
			t.Errorf("%g: %d hashes, %.3f bits per element, want %d, %.1f", fpr, p.Hashes, bits, hashes, want)
		}
	}
	f(1e-2, 10, 15.9)
	f(1e-3, 13, 21.4)
	f(1e-4, 16, 26.9)
	f(1e-6, 23, 37.8)
}

func TestTextbookSize(t *testing.T) {
	f := func(elements uint64, fpr float64, wantBits uint64, wantHashes uint) {
		t.Helper()
		bits, hashes, err := TextbookSize(elements, fpr)
		if err != nil || bits != wantBits || hashes != wantHashes {
			t.Errorf("%d at %g: %d bits, %d hashes, %v; want %d, %d", elements, fpr, bits, hashes, err, wantBits, wantHashes)
		}
	}
	f(1_000_000_000, 0.01, 9_585_058_378, 7)
	f(1_000_000_000, 1e-6, 28_755_175_133, 20)
	f(1, 0.5, 2, 1)
}

// workloads are the sizes that laws are checked for: borders, and some at random.
func workloads(t *testing.T) (elements []uint64, fprs []float64) {
	elements = []uint64{1, 2, 6, 7, 8, 63, 100, 1000, 12_345, 1_000_000, 5_000_000_000, 1 << 40}
	fprs = []float64{0.99, 0.5, 0.1, 1e-2, 1e-3, math.Nextafter(1e-3, 0), 1e-4, 1e-6, MinFPR}
	r := seeded(t)
	for range 10 {
		elements = append(elements, 1+uint64(math.Exp(r.Float64()*25)))
		fprs = append(fprs, math.Exp(-r.Float64()*20-0.01))
	}
	return elements, fprs
}

// It is minimal: no geometry of one line less, with any number of cells, holds the
// rate; and of those with as many lines none has a lower one.
func TestSize_IsMinimal(t *testing.T) {
	elements, fprs := workloads(t)
	for _, layout := range []Layout{Compact, Fast} {
		for _, n := range elements {
			for _, fpr := range fprs {
				p, err := Size(n, fpr, layout)
				if err != nil {
					t.Fatalf("Size(%d, %g, %v): %v", n, fpr, layout, err)
				}
				if err := p.Validate(); err != nil {
					t.Errorf("Size(%d, %g, %v) = %+v: %v", n, fpr, layout, p, err)
				}
				if got := p.FPR(n); got > fpr {
					t.Errorf("Size(%d, %g, %v) = %+v has rate %g", n, fpr, layout, p, got)
				}
				for cells := minCellsPerLine; cells <= maxCellsPerLine; cells++ {
					other := Params{p.Lines, p.LinesPerKey, cells}
					if other.FPR(n) < p.FPR(n) {
						t.Errorf("Size(%d, %g, %v) = %+v: %d cells have a lower rate", n, fpr, layout, p, cells)
					}
					if other.Lines--; p.Lines > MinLines && other.FPR(n) <= fpr {
						t.Errorf("Size(%d, %g, %v) = %+v: %+v is enough", n, fpr, layout, p, other)
					}
				}
			}
		}
	}
}

func TestClassicSize_IsMinimal(t *testing.T) {
	elements, fprs := workloads(t)
	for _, n := range elements {
		for _, fpr := range fprs {
			p, err := ClassicSize(n, fpr)
			if err != nil {
				t.Fatalf("ClassicSize(%d, %g): %v", n, fpr, err)
			}
			if err := p.Validate(); err != nil {
				t.Errorf("ClassicSize(%d, %g) = %+v: %v", n, fpr, p, err)
			}
			if got := p.FPR(n); got > fpr {
				t.Errorf("ClassicSize(%d, %g) = %+v has rate %g", n, fpr, p, got)
			}
			for hashes := uint(1); hashes <= maxClassicHashes; hashes++ {
				other := ClassicParams{p.Bits - wordBits, hashes}
				if p.Bits > MinClassicBits && other.FPR(n) <= fpr {
					t.Errorf("ClassicSize(%d, %g) = %+v: %+v is enough", n, fpr, p, other)
				}
			}
		}
	}
}

func TestSingleSize_BitsPerElement(t *testing.T) {
	const elements = 1_000_000_000
	f := func(fpr float64, bits int, want float64) {
		t.Helper()
		p, err := SingleSize(elements, fpr)
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(p.Bytes()) * 8 / elements; p.BitsPerLine != bits || math.Abs(got-want) > 0.05 {
			t.Errorf("%g: %d bits a line, %.3f bits per element, want %d, %.1f", fpr, p.BitsPerLine, got, bits, want)
		}
	}
	f(1e-2, 3, 9.7)
	f(1e-3, 5, 14.6)
	f(1e-4, 6, 19.8)
	f(1e-6, 9, 31.1)
	f(MinFPR, 13, 51.4)
}

// It is minimal among all numbers of bits, of which the largest is not the best for
// any rate: more would not help.
func TestSingleSize_IsMinimal(t *testing.T) {
	elements, fprs := workloads(t)
	for _, n := range elements {
		for _, fpr := range fprs {
			p, err := SingleSize(n, fpr)
			if err != nil {
				t.Fatalf("SingleSize(%d, %g): %v", n, fpr, err)
			}
			if err := p.Validate(); err != nil {
				t.Errorf("SingleSize(%d, %g) = %+v: %v", n, fpr, p, err)
			}
			if got := p.FPR(n); got > fpr {
				t.Errorf("SingleSize(%d, %g) = %+v has rate %g", n, fpr, p, got)
			}
			for bits := 1; bits <= maxBitsPerLine; bits++ {
				other := SingleParams{p.Lines, bits}
				if other.FPR(n) < p.FPR(n) {
					t.Errorf("SingleSize(%d, %g) = %+v: %d bits have a lower rate", n, fpr, p, bits)
				}
				if other.Lines--; p.Lines > MinLines && other.FPR(n) <= fpr {
					t.Errorf("SingleSize(%d, %g) = %+v: %+v is enough", n, fpr, p, other)
				}
			}
			if n > 1000 && p.BitsPerLine == maxBitsPerLine {
				t.Errorf("SingleSize(%d, %g) = %+v: more bits might be better", n, fpr, p)
			}
		}
	}
}

// sized is what the kinds of geometry have in common.
type sized interface {
	FPR(elements uint64) float64
	FPRAt(loads [Generations]uint64) float64
	Capacity(fpr float64) uint64
	Bytes() uint64
}

// Capacity inverts FPR: what it says fits, and one more does not.
func TestCapacity_IsTheInverse(t *testing.T) {
	elements, fprs := workloads(t)
	for _, n := range elements {
		for _, fpr := range fprs {
			p, err := Size(n, fpr, Compact)
			if err != nil {
				t.Fatal(err)
			}
			c, err := ClassicSize(n, fpr)
			if err != nil {
				t.Fatal(err)
			}
			one, err := SingleSize(n, fpr)
			if err != nil {
				t.Fatal(err)
			}
			// least allows for the digits that the model of a single filter loses: at 1e-9, where
			// a key has the most bits, its rate goes up and down by some 1e-8 of itself.
			least := n - n/1e8
			for _, g := range []sized{p, c, one} {
				most, generations := g.Capacity(fpr), uint64(Sealed)
				if g == sized(one) {
					generations = 1
				}
				if most < least || generations > 1 && most < n || most%generations != 0 {
					t.Errorf("%+v for %d at %g: Capacity is %d", g, n, fpr, most)
				}
				if g.FPR(most) > fpr || g.FPR(most+1) <= fpr {
					t.Errorf("%+v at %g: Capacity %d is not the border: rates %g and, one above, %g",
						g, fpr, most, g.FPR(most), g.FPR(most+1))
				}
			}
		}
	}
}

func TestCapacity_Borders(t *testing.T) {
	for _, g := range []sized{Params{64, 2, 4}, ClassicParams{1024, 7}, SingleParams{64, 6}, SingleParams{64, 14}} {
		for _, fpr := range []float64{0, -1, math.NaN(), math.Inf(-1)} {
			if got := g.Capacity(fpr); got != 0 {
				t.Errorf("%+v: Capacity(%g) = %d, want 0", g, fpr, got)
			}
		}
		if got := g.Capacity(1); got != math.MaxUint64 {
			t.Errorf("%+v: Capacity(1) = %d, want all", g, got)
		}
		if got := g.FPR(math.MaxUint64); got != 1 {
			t.Errorf("%+v: the rate of an overfull filter is %g, want 1", g, got)
		}
		if got := g.FPR(0); got != 0 {
			t.Errorf("%+v: the rate of an empty filter is %g, want 0", g, got)
		}
	}
}

func TestSize_IsMonotone(t *testing.T) {
	sizes := map[string]func(n uint64, fpr float64) (sized, error){
		"compact": func(n uint64, fpr float64) (sized, error) { return Size(n, fpr, Compact) },
		"fast":    func(n uint64, fpr float64) (sized, error) { return Size(n, fpr, Fast) },
		"classic": func(n uint64, fpr float64) (sized, error) { return ClassicSize(n, fpr) },
		"single":  func(n uint64, fpr float64) (sized, error) { return SingleSize(n, fpr) },
	}
	// Compact gets a fourth line below 1e-3 and so may get smaller there.
	bands := [][]float64{{0.9, 0.3, 0.1, 1e-2, 3e-3, 1e-3}, {9e-4, 1e-4, 1e-5, 1e-6, 1e-8, MinFPR}}
	for name, size := range sizes {
		bytes := func(n uint64, fpr float64) uint64 {
			g, err := size(n, fpr)
			if err != nil {
				t.Fatal(err)
			}
			return g.Bytes()
		}
		for _, band := range bands {
			for i, fpr := range band {
				var before uint64
				for n := uint64(1); n < 1<<40; n = n*3 + 1 {
					b := bytes(n, fpr)
					if b < before {
						t.Errorf("%s at %g: %d elements take %d bytes, fewer take %d", name, fpr, n, b, before)
					}
					if before = b; i > 0 && b < bytes(n, band[i-1]) {
						t.Errorf("%s: %d elements take less at %g than at %g", name, n, fpr, band[i-1])
					}
				}
			}
		}
	}
}

// Geometry in one place says how much is allocated in the other.
func TestBytes_AreWhatIsAllocated(t *testing.T) {
	for _, n := range []uint64{1, 1000, 100_000, 1_234_567} {
		p, err := Size(n, 1e-3, Compact)
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewSliced(p)
		if err != nil {
			t.Fatal(err)
		}
		if s.Bytes() != p.Bytes() {
			t.Errorf("%+v allocates %d bytes, Params says %d", p, s.Bytes(), p.Bytes())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		c, err := ClassicSize(n, 1e-3)
		if err != nil {
			t.Fatal(err)
		}
		ring, err := NewClassic(c)
		if err != nil {
			t.Fatal(err)
		}
		if ring.Bytes() != c.Bytes() {
			t.Errorf("%+v allocates %d bytes, ClassicParams says %d", c, ring.Bytes(), c.Bytes())
		}
		if err := ring.Close(); err != nil {
			t.Error(err)
		}
		g, err := SingleSize(n, 1e-3)
		if err != nil {
			t.Fatal(err)
		}
		if one := newSingle(t, g); one.Bytes() != g.Bytes() {
			t.Errorf("%+v allocates %d bytes, SingleParams says %d", g, one.Bytes(), g.Bytes())
		}
	}
}

// Nonsense is refused with an error that names the value, never clamped.
func TestCase_BLOOM_05(t *testing.T) {
	f := func(elements uint64, fpr float64, wantErr string) {
		t.Helper()
		check := func(what string, g any, err error) {
			t.Helper()
			if wantErr == "" && err != nil {
				t.Errorf("%s(%d, %g): %v", what, elements, fpr, err)
			}
			if wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)) {
				t.Errorf("%s(%d, %g) = %+v, %v; want an error with %q", what, elements, fpr, g, err, wantErr)
			}
		}
		p, err := Size(elements, fpr, Compact)
		check("Size", p, err)
		p, err = Size(elements, fpr, Fast)
		check("Size", p, err)
		c, err := ClassicSize(elements, fpr)
		check("ClassicSize", c, err)
		one, err := SingleSize(elements, fpr)
		check("SingleSize", one, err)
		bits, _, err := TextbookSize(elements, fpr)
		check("TextbookSize", bits, err)
	}
	f(0, 0.01, "elements is 0")
	f(5_000_000_000, 0.01, "")
	f(1<<63, 0.01, "limit")
	f(math.MaxUint64, 0.01, "limit")
	for _, fpr := range []float64{0, 1, 1.5, -1, math.NaN(), 1e-18, math.Inf(1), math.Inf(-1), 10.1} {
		f(1000, fpr, fmt.Sprintf("rate is %g", fpr))
	}
	f(1, 0.99, "")
	if p, err := Size(1, 0.99, Compact); err != nil || p.Bytes()*8 < 64 {
		t.Errorf("Size(1, 0.99) = %+v, %v; want at least 64 bits", p, err)
	}
	if _, err := Size(1000, 0.01, Layout(7)); err == nil || !strings.Contains(err.Error(), "Layout(7)") {
		t.Errorf("unknown layout: %v", err)
	}
}
