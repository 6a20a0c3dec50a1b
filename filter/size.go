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
	var best Params
	for cells := minCellsPerLine; cells <= maxCellsPerLine; cells++ {
		p := Params{LinesPerKey: lines, CellsPerLine: cells}
		fits := func(n uint64) bool {
			p.Lines = n
			return p.FPR(elements) <= fpr
		}
		n, ok := smallest(MinLines, MaxLines, fits)
		if !ok {
			continue
		}
		p.Lines = n
		if best.Lines == 0 || p.Lines < best.Lines ||
			p.Lines == best.Lines && p.FPR(elements) < best.FPR(elements) {
			best = p
		}
	}
	if best.Lines == 0 {
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
	var best ClassicParams
	for hashes := uint(1); hashes <= maxClassicHashes; hashes++ {
		p := ClassicParams{Hashes: hashes}
		fits := func(words uint64) bool {
			p.Bits = words * wordBits
			return p.FPR(elements) <= fpr
		}
		words, ok := smallest(MinClassicBits/wordBits, MaxClassicBits/wordBits, fits)
		if !ok {
			continue
		}
		p.Bits = words * wordBits
		if best.Bits == 0 || p.Bits < best.Bits ||
			p.Bits == best.Bits && p.FPR(elements) < best.FPR(elements) {
			best = p
		}
	}
	if best.Bits == 0 {
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
	var best SingleParams
	for bits := 1; bits <= maxBitsPerLine; bits++ {
		p := SingleParams{BitsPerLine: bits}
		fits := func(n uint64) bool {
			p.Lines = n
			return p.FPR(elements) <= fpr
		}
		n, ok := smallest(MinLines, MaxLines, fits)
		if !ok {
			continue
		}
		p.Lines = n
		if best.Lines == 0 || p.Lines < best.Lines ||
			p.Lines == best.Lines && p.FPR(elements) < best.FPR(elements) {
			best = p
		}
	}
	if best.Lines == 0 {
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
