// Package geometry lists what a layout may choose from: how many lines a key and cells a
// line a sliced filter has for a rate, what that costs in memory and in time.
package geometry

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/filter/internal/simulate"
)

// Row is a target and a geometry that meets it for simulate.Elements IDs.
type Row struct {
	Target float64
	Params filter.Params
}

// Measured is what a machine says of a row.
type Measured struct {
	Rate, Deviation float64
	NS              float64 // of CPU for an event
	Lines           float64 // and in units of a random line
}

const intro = `# Lines a key and cells a line

For each target, each number of lines a key, and the number of cells a line that then needs
the least memory: bits per ID of a window of %d by the model, the rate that was measured,
and the time of an event, in nanoseconds of CPU and in units of the time that the same
machine takes to read, change and write one random line of as much memory, measured in
between. An event is a look-up of a hash, nine of ten of them new and added, with journal,
a commit after each 131,072, and all the cleaning of one rotation; the filter has %d MiB and
is as full as it gets. The hash of the ID and the window are not in it.

Size takes for a layout what stands in the last column; a test holds it to that. What no
layout takes has no unrolled code: its time, in brackets, is that of plain loops, which is up
to twice as much. This file is written by geometry_gen.go.

| target | lines | cells | bits per ID | measured rate | ns per event | random lines | layout |
| --- | --- | --- | --- | --- | --- | --- | --- |
`

// Bytes is the size of the filters that are timed.
const Bytes = 2 << 30

// Table is the published table. measure may be nil: its cells are empty then.
func Table(measure func(Row) (Measured, error)) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, intro, simulate.Elements, Bytes>>20)
	for _, target := range []float64{1e-2, 1e-3, 1e-4, 1e-6} {
		for lines := 2; lines <= 4; lines++ {
			row := Row{target, smallest(target, lines)}
			layout, err := layoutOf(row)
			if err != nil {
				return "", err
			}
			var rate, ns, ratio string
			if measure != nil {
				m, err := measure(row)
				if err != nil {
					return "", err
				}
				rate, ns, ratio = fmt.Sprintf("%.3g ± %.1g", m.Rate, m.Deviation), fmt.Sprintf("%.0f", m.NS), fmt.Sprintf("%.2f", m.Lines)
				if layout == "" {
					ns, ratio = "("+ns+")", "("+ratio+")"
				}
			}
			fmt.Fprintf(&b, "| %.0e | %d | %d | %.2f | %s | %s | %s | %s |\n", target, lines, row.Params.CellsPerLine,
				float64(row.Params.Bytes())*8/simulate.Elements, rate, ns, ratio, layout)
		}
	}
	return b.String() + tried, nil
}

// smallest is the geometry with so many lines a key that needs the fewest in all.
func smallest(target float64, linesPerKey int) (best filter.Params) {
	for cells := 1; ; cells++ {
		p := filter.Params{LinesPerKey: linesPerKey, CellsPerLine: cells}
		if (filter.Params{Lines: filter.MinLines, LinesPerKey: linesPerKey, CellsPerLine: cells}).Validate() != nil {
			return best
		}
		low, high := uint64(filter.MinLines), uint64(1<<32)
		for low < high {
			p.Lines = (low + high) / 2
			if p.FPR(simulate.Elements) <= target {
				high = p.Lines
			} else {
				low = p.Lines + 1
			}
		}
		if p.Lines = low; best.Lines == 0 || p.Lines < best.Lines {
			best = p
		}
	}
}

var measured = regexp.MustCompile(`(?m)^(\| [0-9](?:[^|]*\|){4})[^|]*\|[^|]*\|[^|]*\|`)

// WithoutMeasurements is a table without what was measured.
func WithoutMeasurements(table string) string { return measured.ReplaceAllString(table, "$1  |  |  |") }

// layoutOf names the layout that chooses a row.
func layoutOf(r Row) (string, error) {
	for _, layout := range []filter.Layout{filter.Fast, filter.Compact} {
		chosen, err := filter.Size(simulate.Elements, r.Target, layout)
		if err != nil {
			return "", err
		}
		if chosen == r.Params {
			return layout.String(), nil
		}
	}
	return "", nil
}

const tried = `
# What was tried

Nanoseconds of CPU for an event of a fast filter at 1e-2 (2 lines, 4 cells) unless another is
named, making the hash included, as tenth percentiles of short interleaved rounds; only what
stands in one sentence was measured in one run. The machine had an AMD EPYC of the third
generation, and a random line took 25 to 31 ns at 2 GiB. Kept:

- A prefetch of each line between the arithmetic of the next ones, in assembly: 51 to 41 at
  256 MiB, 48 to 42 at 1 GiB; with 3 lines 69 to 55 and 65 to 58. At 2 GiB 49 to 51, and 54 to
  67 while other programs ran: there a burst is better. So it is for filters up to 1 GiB.

Not kept:

- The lines of the next batch asked for in groups while this one is looked up. At 2 GiB a
  burst for 64 hashes took 56, groups of 16, 8, 4 and 2 hashes 60, 65, 71 and 83. At 256 MiB
  groups saved a tenth, which the assembly above saves without them.
- Other prefetches: to the second level, non-temporal, and for writing are within half a
  nanosecond of the usual one a line; loads take 4 to 7 ns more.
- Batches of 128: 52 instead of 51.
- The numbers of the cells found in the first pass, four by two multiplications: 51 instead of
  48; their addresses: 63 instead of 53. The second pass waits for memory and for branches, so
  its arithmetic is free, and more of it in the first pass is not.
- The first pass four hashes at a time in AVX2 (GOEXPERIMENT=simd of Go 1.26, simd/archsimd): at
  256 KiB, where memory does not hide it, 6.9 instead of 7.5 of CPU for a hash's two lines, of
  the 86 that an event takes at 2 GiB. AVX2 multiplies 32 bits, so each product is three. A shift
  of all lanes by one count took 143: the compiler moves the count with an instruction of SSE,
  between those of AVX; counts in a vector do not. The second pass looks single bytes up, which
  no instruction of AVX2 gathers.
- Both lines of a key in an aligned pair, which is 128 bytes: a prototype took 54 instead of 86
  at 2 GiB while a random line took 51. With 4 cells a line the rate is 0.0191 instead of 0.01
  for equal memory, and still 0.0116 at 20.4 bits an ID.
- All lines of a key in one page of 4 KiB, which would be a new format: while other programs
  kept the memory busy a prototype took 57 instead of 85 with 2 lines and 4 cells, 69 instead of
  121 with 3 and 3; built whole and on a quiet machine it took 47 instead of 46 at 2 GiB, 43
  instead of 36 at 256 MiB, with 3 and 3 67 instead of 65 and 62 instead of 54. Of two prefetches
  for one page the processor drops the second one (75 at 256 MiB), so those were loads. The rates
  for equal memory were 0.00998 and 0.0103 instead of 0.01.
- Prefetches asked for twice, loads instead of them, batches of 32, and one by one between the
  arithmetic also above 1 GiB, in the whole engine at 2 GiB: tenth percentiles of its batches
  within 78 to 92 for each of them and for what is, in turns.
- The bits that pick cells mixed in the second pass, one branch for all stale lines of a key,
  the table of fresh bits in a register: all within one nanosecond.
- What the look-up read kept for the journal, instead of reading it again: 61 instead of 57.
- A shorter journal: without any, 49 instead of 51.
`
