package simulate

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/streamdedup/streamdedup/filter"
)

// Elements is how many a window of the table holds.
const Elements = 1_000_000

// Row is a target and a way to meet it.
type Row struct {
	Target   float64
	Design   string
	Geometry filter.Model
}

const intro = `# False-positive rates

What Size, ClassicSize and SingleSize give for %d distinct IDs, and the rate that was then
measured: with all generations of the window full, just before a rotation, as the share of IDs
never seen that the filter took for seen. A single filter has no window and holds them all.
Bits per element are of these IDs, with all that is allocated. This file is written by
simulate_gen.go; its seed is fixed, so that it writes the same again.

| target | filter | lines or bits per key | cells or bits per line | bits per element | measured |
| --- | --- | --- | --- | --- | --- |
`

// Table is the published table. The last cell of each row is what measure says, or
// empty when there is no measure.
func Table(measure func(Row) (string, error)) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, intro, Elements)
	for _, target := range []float64{1e-2, 1e-3, 1e-4, 1e-5, 1e-6} {
		rows, err := rowsOf(target)
		if err != nil {
			return "", err
		}
		for _, row := range rows {
			measured := ""
			if measure != nil {
				if measured, err = measure(row); err != nil {
					return "", err
				}
			}
			fmt.Fprintf(&b, "| %.0e | %s | %s | %s |\n", target, row.Design, row.geometry(), measured)
		}
	}
	return b.String(), nil
}

func rowsOf(target float64) ([]Row, error) {
	compact, err := filter.Size(Elements, target, filter.Compact)
	if err != nil {
		return nil, err
	}
	fast, err := filter.Size(Elements, target, filter.Fast)
	if err != nil {
		return nil, err
	}
	ring, err := filter.ClassicSize(Elements, target)
	if err != nil {
		return nil, err
	}
	single, err := filter.SingleSize(Elements, target)
	if err != nil {
		return nil, err
	}
	return []Row{
		{target, "sliced, compact", compact},
		{target, "sliced, fast", fast},
		{target, "classic ring", ring},
		{target, "single, no window", single},
	}, nil
}

func (r Row) geometry() string {
	bits := float64(r.Geometry.Bytes()) * 8 / Elements
	switch g := r.Geometry.(type) {
	case filter.ClassicParams:
		return fmt.Sprintf("%d | | %.2f", g.Hashes, bits)
	case filter.SingleParams:
		return fmt.Sprintf("%d | %d | %.2f", filter.SingleLinesPerKey, g.BitsPerLine, bits)
	case filter.Params:
		return fmt.Sprintf("%d | %d | %.2f", g.LinesPerKey, g.CellsPerLine, bits)
	}
	panic(fmt.Sprintf("BUG: a row of %T", r.Geometry))
}

// Measure fills the row's filter and probes it often enough for ten thousand positives
// or, at low rates, as often as patience allows. It gives the rate and its standard deviation.
func (r Row) Measure(seed uint64) (rate, deviation float64, err error) {
	most := uint64(200_000_000)
	var loads [filter.Generations]uint64
	for i := range loads {
		loads[i] = (Elements + filter.Sealed - 1) / filter.Sealed
	}
	var set filter.Set
	switch g := r.Geometry.(type) {
	case filter.ClassicParams:
		most /= 10
		set, err = filter.NewClassic(g)
	case filter.SingleParams:
		loads = [filter.Generations]uint64{Elements}
		set, err = filter.NewSingle(g)
	case filter.Params:
		set, err = filter.NewSliced(g)
	}
	if err != nil {
		return 0, 0, err
	}
	ids := NewIDs(seed)
	Fill(set, ids, loads)
	probes := min(most, uint64(1e4/r.Target))
	positives := float64(Positives(set, ids, probes))
	return positives / float64(probes), math.Sqrt(positives) / float64(probes), set.Close()
}

var lastCell = regexp.MustCompile(`(?m)^(\| [0-9].*\|) [^|]* \|$`)

// WithoutMeasurements is a table without what was measured.
func WithoutMeasurements(table string) string {
	return lastCell.ReplaceAllString(table, "$1  |")
}
