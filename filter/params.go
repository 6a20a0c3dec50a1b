package filter

import (
	"errors"
	"fmt"
)

// Layout is the trade between memory and cache lines per look-up that [Size]
// makes for a sliced filter.
type Layout uint8

const (
	// Compact touches three lines per look-up down to a rate of 1e-3 and four
	// below it, for the fewest bits per element.
	Compact Layout = iota
	// Fast touches two lines per look-up and pays for it with memory.
	Fast
)

// String is the layout's name as [ParseLayout] reads it.
func (l Layout) String() string {
	switch l {
	case Compact:
		return "compact"
	case Fast:
		return "fast"
	}
	return fmt.Sprintf("Layout(%d)", uint8(l))
}

// ParseLayout reads the name of a layout.
func ParseLayout(s string) (Layout, error) {
	switch s {
	case "compact":
		return Compact, nil
	case "fast":
		return Fast, nil
	}
	return 0, fmt.Errorf("parse layout %q: want compact or fast", s)
}

// Geometry of a line of the sliced filter, and the limits of [Params].
const (
	// LineBytes is the size of a line, which is that of a cache line.
	LineBytes = 64
	// CellsInLine is how many cells of a byte a line has; its last byte is the
	// stamp of the rotation that last cleaned it.
	CellsInLine = LineBytes - 1

	// MinLines keeps tiny filters out of the range where the model, which takes
	// the load of a line as Poisson, and a handful of lines would disagree.
	MinLines = 64
	// MaxLines is 64 TiB, far above any machine and far below overflow.
	MaxLines = 1 << 40

	minLinesPerKey  = 2
	maxLinesPerKey  = 4
	minCellsPerLine = 1
	maxCellsPerLine = 8
)

// Params is the geometry of a sliced filter. Filters of equal Params, given the
// same hashes, hold the same bytes. It is comparable.
type Params struct {
	Lines        uint64 // lines of LineBytes in the filter
	LinesPerKey  int    // lines that a hash picks
	CellsPerLine int    // cells that it picks in each of them
}

// Validate reports everything that is wrong with p.
func (p Params) Validate() error {
	var errs []error
	if p.Lines < MinLines || p.Lines > MaxLines {
		errs = append(errs, fmt.Errorf("Lines is %d, want %d to %d", p.Lines, MinLines, uint64(MaxLines)))
	}
	if p.LinesPerKey < minLinesPerKey || p.LinesPerKey > maxLinesPerKey {
		errs = append(errs, fmt.Errorf("LinesPerKey is %d, want %d to %d", p.LinesPerKey, minLinesPerKey, maxLinesPerKey))
	}
	if p.CellsPerLine < minCellsPerLine || p.CellsPerLine > maxCellsPerLine {
		errs = append(errs, fmt.Errorf("CellsPerLine is %d, want %d to %d", p.CellsPerLine, minCellsPerLine, maxCellsPerLine))
	}
	return errors.Join(errs...)
}

// Limits of [ClassicParams].
const (
	// MinClassicBits keeps the textbook formula, which is asymptotic, honest.
	MinClassicBits = 1024
	// MaxClassicBits makes the largest ring as large as the largest sliced filter.
	MaxClassicBits = MaxLines * LineBytes * 8 / Generations

	maxClassicHashes = 64
)

// ClassicParams is the geometry of one of the [Generations] Bloom filters in a
// ring of classic filters. It is comparable.
type ClassicParams struct {
	Bits   uint64 // bits of one generation's filter
	Hashes uint   // bits that a hash sets in it
}

// Validate reports everything that is wrong with p.
func (p ClassicParams) Validate() error {
	var errs []error
	if p.Bits < MinClassicBits || p.Bits > MaxClassicBits {
		errs = append(errs, fmt.Errorf("Bits is %d, want %d to %d", p.Bits, MinClassicBits, uint64(MaxClassicBits)))
	}
	if p.Hashes < 1 || p.Hashes > maxClassicHashes {
		errs = append(errs, fmt.Errorf("Hashes is %d, want 1 to %d", p.Hashes, maxClassicHashes))
	}
	return errors.Join(errs...)
}

const (
	// SingleLinesPerKey is how many lines a hash picks in a [Single].
	SingleLinesPerKey = 2

	// maxBitsPerLine is two picks of a line's bits: enough for [MinFPR].
	maxBitsPerLine = 2 * bitsPerPick
)

// SingleParams is the geometry of a [Single]. It is comparable.
type SingleParams struct {
	Lines       uint64 // lines of LineBytes in the filter
	BitsPerLine int    // bits that a hash sets in each of its two lines
}

// Validate reports everything that is wrong with p.
func (p SingleParams) Validate() error {
	var errs []error
	if p.Lines < MinLines || p.Lines > MaxLines {
		errs = append(errs, fmt.Errorf("Lines is %d, want %d to %d", p.Lines, MinLines, uint64(MaxLines)))
	}
	if p.BitsPerLine < 1 || p.BitsPerLine > maxBitsPerLine {
		errs = append(errs, fmt.Errorf("BitsPerLine is %d, want 1 to %d", p.BitsPerLine, maxBitsPerLine))
	}
	return errors.Join(errs...)
}
