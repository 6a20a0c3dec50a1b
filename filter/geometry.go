package filter

import "fmt"

// Model is what the parameters of a filter say of it.
type Model interface {
	// FPR is the false-positive rate when the window holds elements distinct IDs at its
	// worst moment.
	FPR(elements uint64) float64
	// FPRAt is the false-positive rate for generations that hold loads[i] distinct IDs
	// each, in any order. What has one generation holds their sum in it.
	FPRAt(loads [Generations]uint64) float64
	// Capacity is the most IDs of a window for which the rate is at most fpr.
	Capacity(fpr float64) uint64
	// Bytes is the memory.
	Bytes() uint64
}

const (
	slicedGeometry  = "sliced filter, format %d: %d lines, %d of them a hash, %d cells in each"
	classicGeometry = "classic filter, format %d: %d bits, %d of them a hash"
	singleGeometry  = "single filter, format %d: %d lines, 2 of them a hash, %d bits in each"
)

// ParseGeometry reads what Geometry said of a [Set] of this version.
func ParseGeometry(text string) (Model, error) {
	if m, ok := parseGrowing(text); ok {
		return m, nil
	}
	if m := parseOne(text); m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("read geometry %q: no filter of this version has it", text)
}

// parseOne reads the geometry of one filter, nil if it is none.
func parseOne(text string) Model {
	var format int
	var sliced Params
	// Only what reads as it is written is one: Sscanf takes more.
	_, _ = fmt.Sscanf(text, slicedGeometry, &format, &sliced.Lines, &sliced.LinesPerKey, &sliced.CellsPerLine)
	if sliced.geometry() == text && sliced.Validate() == nil {
		return sliced
	}
	var classic ClassicParams
	_, _ = fmt.Sscanf(text, classicGeometry, &format, &classic.Bits, &classic.Hashes)
	if classic.geometry() == text && classic.Validate() == nil {
		return classic
	}
	var single SingleParams
	_, _ = fmt.Sscanf(text, singleGeometry, &format, &single.Lines, &single.BitsPerLine)
	if single.geometry() == text && single.Validate() == nil {
		return single
	}
	return nil
}

func (p Params) geometry() string {
	return fmt.Sprintf(slicedGeometry, slicedFormat, p.Lines, p.LinesPerKey, p.CellsPerLine)
}

func (p ClassicParams) geometry() string {
	return fmt.Sprintf(classicGeometry, classicFormat, p.Bits, p.Hashes)
}

func (p SingleParams) geometry() string {
	return fmt.Sprintf(singleGeometry, singleFormat, p.Lines, p.BitsPerLine)
}
