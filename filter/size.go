package filter

import (
	"fmt"
	"math"
)

//go:generate go run geometry_gen.go

// MinFPR is the lowest false-positive rate that [Size] and its siblings accept.
// Below it the clash of two 64-bit hashes, 5e-11 per look-up in a window of a
// billion IDs, would be a noticeable part of the rate, and no geometry helps
// against that.
const MinFPR = 1e-9

// Size is the smallest geometry that holds a window of elements distinct IDs at a
// false-positive rate of at most fpr by the model of [Params.FPR]: the worst moment
// of the window, all of its generations together. Of the cells per line it takes the
// number that needs the fewest lines and, of equals, has the lowest rate.
//
// It refuses elements of 0, a rate below [MinFPR] or not below 1, an unknown
// layout, and what would need more than [MaxLines]. It never sizes for anything
// else than it was asked for.
func Size(elements uint64, fpr float64, layout Layout) (Params, error) {
	if err := checkTarget(elements, fpr); err != nil {
		return Params{}, err
	}
	lines, err := linesPerKey(layout, fpr)
	if err != nil {
		return Params{}, err
	}
	best, ok := smallestOf(elements, fpr, span[int]{minCellsPerLine, maxCellsPerLine}, span[uint64]{MinLines, MaxLines},
		func(cells int, n uint64) Params { return Params{Lines: n, LinesPerKey: lines, CellsPerLine: cells} })
	if !ok {
		return Params{}, fmt.Errorf("size a filter for %d elements at a false positive rate of %g: needs more than the limit of %d bytes; take fewer elements or more false positives",
			elements, fpr, uint64(MaxLines*LineBytes))
	}
	return best, nil
}

// linesPerKey is a layout's choice of lines, from what GEOMETRY.md lists. A fourth line
// pays below 1e-3: at 1e-4 it saves two bits of 32 per element.
func linesPerKey(layout Layout, fpr float64) (int, error) {
	switch layout {
	case Fast:
		return 2, nil
	case Compact:
		if fpr < 1e-3 {
			return 4, nil
		}
		return 3, nil
	}
	return 0, fmt.Errorf("size a filter: unknown layout %v", layout)
}

// Bytes is what a filter of this geometry allocates, exactly.
func (p Params) Bytes() uint64 { return p.Lines * LineBytes }

// Capacity is the inverse of [Params.FPR]: the most elements of a window for which
// the rate is at most fpr. It is 0 when not even one is, and for a NaN.
func (p Params) Capacity(fpr float64) uint64 { return capacity(fpr, p.FPR) }

// ClassicSize is the geometry of the smallest ring of classic filters that holds a
// window of elements distinct IDs at a rate of at most fpr by [ClassicParams.FPR]:
// each of its [Generations] filters for a share of 1/[Sealed] of the elements, at
// the rate 1-(1-fpr)^(1/Generations). Bits are whole words of 64. It refuses what
// [Size] refuses, with [MaxClassicBits] for a limit.
func ClassicSize(elements uint64, fpr float64) (ClassicParams, error) {
	if err := checkTarget(elements, fpr); err != nil {
		return ClassicParams{}, err
	}
	best, ok := smallestOf(elements, fpr, span[int]{1, maxClassicHashes}, span[uint64]{MinClassicBits / wordBits, MaxClassicBits / wordBits},
		func(hashes int, words uint64) ClassicParams {
			return ClassicParams{Bits: words * wordBits, Hashes: uint(hashes)}
		})
	if !ok {
		return ClassicParams{}, fmt.Errorf("size a ring of classic filters for %d elements at a false positive rate of %g: needs more than the limit of %d bits for each of %d generations; take fewer elements or more false positives",
			elements, fpr, uint64(MaxClassicBits), Generations)
	}
	return best, nil
}

const wordBits = 64

// Bytes is what the whole ring of [Generations] filters allocates for its bits, in
// whole words.
func (p ClassicParams) Bytes() uint64 {
	return (p.Bits + wordBits - 1) / wordBits * (wordBits / 8) * Generations
}

// Capacity is the inverse of [ClassicParams.FPR]; see [Params.Capacity].
func (p ClassicParams) Capacity(fpr float64) uint64 { return capacity(fpr, p.FPR) }

// SingleSize is the smallest geometry of a [Single] that holds elements distinct IDs
// at a rate of at most fpr by [SingleParams.FPR]; of the bits per line it takes the
// number that needs the fewest lines and, of equals, has the lowest rate. It refuses
// what [Size] refuses.
func SingleSize(elements uint64, fpr float64) (SingleParams, error) {
	if err := checkTarget(elements, fpr); err != nil {
		return SingleParams{}, err
	}
	best, ok := smallestOf(elements, fpr, span[int]{1, maxBitsPerLine}, span[uint64]{MinLines, MaxLines},
		func(bits int, n uint64) SingleParams { return SingleParams{Lines: n, BitsPerLine: bits} })
	if !ok {
		return SingleParams{}, fmt.Errorf("size a single filter for %d elements at a false positive rate of %g: needs more than the limit of %d bytes; take fewer elements or more false positives",
			elements, fpr, uint64(MaxLines*LineBytes))
	}
	return best, nil
}

// Bytes is what a filter of this geometry allocates, exactly.
func (p SingleParams) Bytes() uint64 { return p.Lines * LineBytes }

// Capacity is the inverse of [SingleParams.FPR]; see [Params.Capacity].
func (p SingleParams) Capacity(fpr float64) uint64 { return capacity(fpr, p.FPR) }

// TextbookSize is the well-known Bloom filter that has no window and never forgets,
// for comparison: bits = -n·ln p / (ln 2)² and hashes = ln 2 · bits/n, both rounded
// up, which is 9.585 bits per element and 7 hashes at 1%. (Broder and Mitzenmacher,
// "Network Applications of Bloom Filters: A Survey", 2004.) A window costs a factor of
// Generations/Sealed for the generation that fills, and splits p over all of them.
func TextbookSize(elements uint64, fpr float64) (bits uint64, hashes uint, err error) {
	if err := checkTarget(elements, fpr); err != nil {
		return 0, 0, err
	}
	perElement := -math.Log(fpr) / (math.Ln2 * math.Ln2)
	m := math.Ceil(float64(elements) * perElement)
	if m > MaxClassicBits*Generations {
		return 0, 0, fmt.Errorf("size a Bloom filter for %d elements at a false positive rate of %g: needs more than the limit of %d bits",
			elements, fpr, uint64(MaxClassicBits*Generations))
	}
	return uint64(m), uint(math.Ceil(math.Ln2 * perElement)), nil
}

func checkTarget(elements uint64, fpr float64) error {
	if elements == 0 {
		return fmt.Errorf("size a filter: elements is 0, want at least 1")
	}
	// Written so that a NaN fails.
	if !(fpr >= MinFPR && fpr < 1) {
		return fmt.Errorf("size a filter: false-positive rate is %g, want %g or more and less than 1", fpr, MinFPR)
	}
	return nil
}

// capacity is the most elements for which rate, which falls by no more than what the
// arithmetic loses, is at most fpr.
func capacity(fpr float64, rate func(elements uint64) float64) uint64 {
	if math.IsNaN(fpr) {
		return 0
	}
	tooMany, ok := smallest(1, math.MaxUint64, func(n uint64) bool { return rate(n) > fpr })
	if !ok {
		return math.MaxUint64
	}
	return tooMany - 1
}

// span is from one number to another, both included.
type span[N int | uint64] struct{ from, to N }

// smallestOf is the geometry that keeps to a rate in the smallest size, by whatever a
// hash picks; of equals, the one with the lowest rate. It is false when none does.
func smallestOf[P interface{ FPR(elements uint64) float64 }](
	elements uint64, fpr float64, picks span[int], sizes span[uint64], of func(picks int, size uint64) P,
) (best P, found bool) {
	var least uint64
	for n := picks.from; n <= picks.to; n++ {
		size, ok := smallest(sizes.from, sizes.to, func(size uint64) bool { return of(n, size).FPR(elements) <= fpr })
		if !ok {
			continue
		}
		p := of(n, size)
		if !found || size < least || size == least && p.FPR(elements) < best.FPR(elements) {
			best, least, found = p, size, true
		}
	}
	return best, found
}

// smallest is the lowest number from lo to hi for which ok holds, given that it
// holds for all numbers above one for which it does; false when there is none.
func smallest(lo, hi uint64, ok func(uint64) bool) (uint64, bool) {
	if !ok(hi) {
		return 0, false
	}
	for lo < hi {
		mid := lo + (hi-lo)/2
		if ok(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo, true
}
