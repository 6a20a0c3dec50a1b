package filter

import (
	"math"
	"math/bits"
	"testing"
)

// A chi-square of n bins is near n-1 with a deviation of sqrt(2(n-1)) when they
// are filled evenly. The hashes are fixed, so that a test of it never flickers.
func chiSquare(bins []int, total int) (deviations float64) {
	want := float64(total) / float64(len(bins))
	var sum float64
	for _, n := range bins {
		d := float64(n) - want
		sum += d * d / want
	}
	free := float64(len(bins) - 1)
	return (sum - free) / math.Sqrt(2*free)
}

// TestPlacesAreIndependent counts where hashes lie, alone and by pairs: a line
// and a cell in it, two lines, two cells. Bits used twice show up as pairs that
// come too often. The number of lines is not a power of two, and the hashes are
// also counters, which are as badly mixed as a caller could make them.
func TestPlacesAreIndependent(t *testing.T) {
	const lines, hashes = 60, 1 << 18
	type place struct {
		line0, line1 int
		cells0       [8]int // in line0
		cell1        int    // in line1
	}
	views := []struct {
		what string
		bins int
		bin  func(p *place) int
	}{
		{"first line", lines, func(p *place) int { return p.line0 }},
		{"second line", lines, func(p *place) int { return p.line1 }},
		{"both lines", lines * lines, func(p *place) int { return p.line0*lines + p.line1 }},
		{"first cell", CellsInLine, func(p *place) int { return p.cells0[0] }},
		{"fourth cell", CellsInLine, func(p *place) int { return p.cells0[3] }},
		{"fifth cell", CellsInLine, func(p *place) int { return p.cells0[4] }},
		{"line and first cell", lines * CellsInLine, func(p *place) int { return p.line0*CellsInLine + p.cells0[0] }},
		{"line and fourth cell", lines * CellsInLine, func(p *place) int { return p.line0*CellsInLine + p.cells0[3] }},
		{"line and fifth cell", lines * CellsInLine, func(p *place) int { return p.line0*CellsInLine + p.cells0[4] }},
		{"first and second cell", CellsInLine * CellsInLine, func(p *place) int { return p.cells0[0]*CellsInLine + p.cells0[1] }},
		{"first and fifth cell", CellsInLine * CellsInLine, func(p *place) int { return p.cells0[0]*CellsInLine + p.cells0[4] }},
		{"fourth and eighth cell", CellsInLine * CellsInLine, func(p *place) int { return p.cells0[3]*CellsInLine + p.cells0[7] }},
		{"first cells of two lines", CellsInLine * CellsInLine, func(p *place) int { return p.cells0[0]*CellsInLine + p.cell1 }},
	}
	for name, hash := range map[string]func(uint64) Hash{
		"mixed":    scatter,
		"counters": func(n uint64) Hash { return Hash(n) },
		"high":     func(n uint64) Hash { return Hash(n << 40) },
	} {
		t.Run(name, func(t *testing.T) {
			counts := make([][]int, len(views))
			for i, v := range views {
				counts[i] = make([]int, v.bins)
			}
			for n := range uint64(hashes) {
				x0, x1 := linePick(hash(n), 0), linePick(hash(n), 1)
				p := place{line0: int(lineOf(x0, lines)), line1: int(lineOf(x1, lines)), cell1: int(cellOf(cellPick(x1), 0))}
				pick := cellPick(x0)
				for c := range p.cells0 {
					if c == cellsPerPick {
						pick = cellPickMore(pick)
					}
					p.cells0[c] = int(cellOf(pick, c))
				}
				for i, v := range views {
					counts[i][v.bin(&p)]++
				}
			}
			for i, v := range views {
				if d := chiSquare(counts[i], hashes); math.Abs(d) > 5 {
					t.Errorf("%s: the chi-square is %.1f deviations off", v.what, d)
				}
			}
		})
	}
}

// TestLocateEqualsLoop compares what finds the places of a batch, where that is assembly,
// with what is written in Go, for every number of hashes in a batch.
func TestLocateEqualsLoop(t *testing.T) {
	r := seeded(t)
	lines := make([]line, 1000)
	for perKey := minLinesPerKey; perKey <= maxLinesPerKey; perKey++ {
		for n := range batch + 1 {
			hashes := make([]Hash, n)
			for i := range hashes {
				hashes[i] = Hash(r.Uint64())
			}
			var got, want spots
			locate(lines, hashes, perKey, &got)
			locateLoop(lines, hashes, perKey, &want)
			if got != want {
				t.Fatalf("%d hashes with %d lines each: places differ", n, perKey)
			}
		}
	}
}

// TestLinesBeyond32Bits looks at the upper part of sizes that 32 bits cannot
// number: each quarter of the lines must get its quarter of the hashes.
func TestLinesBeyond32Bits(t *testing.T) {
	const hashes = 1 << 20
	for _, lines := range []uint64{1 << 26, 1<<32 + 12345, 3 << 33, MaxLines} {
		var quarters [4]int
		low := make([]int, 1<<10)
		for n := range uint64(hashes) {
			l := lineOf(linePick(scatter(n), 2), lines)
			quarters[l*4/lines]++
			low[l%uint64(len(low))]++
		}
		if d := chiSquare(quarters[:], hashes); math.Abs(d) > 5 {
			t.Errorf("%d lines: quarters have %v hashes, %.1f deviations off", lines, quarters, d)
		}
		if d := chiSquare(low, hashes); math.Abs(d) > 5 {
			t.Errorf("%d lines: the low bits of a line's number are %.1f deviations off", lines, d)
		}
	}
}

// TestBitsAreSpread fills a filter to its plan: each quarter of it must have its
// quarter of the bits.
func TestBitsAreSpread(t *testing.T) {
	s := newSliced(t, Params{Lines: 1 << 15, LinesPerKey: 3, CellsPerLine: 3})
	f := newFeed(1 << 17)
	f.fill()
	s.TestAndAdd(f.hashes, f.learn, uint64(len(f.hashes)), f.ages)
	var quarters [4]int
	total := 0
	for i, l := range s.lines {
		for _, c := range l[:CellsInLine] {
			quarters[4*i/len(s.lines)] += bits.OnesCount8(c)
			total += bits.OnesCount8(c)
		}
	}
	for i, n := range quarters {
		if share := float64(n) / float64(total); math.Abs(share-0.25) > 0.002 {
			t.Errorf("quarter %d has %.2f%% of the bits, want 25%%", i, 100*share)
		}
	}
}

func TestFreshBits(t *testing.T) {
	for rotation := range uint64(600) {
		for age := range min(rotation+1, 256) {
			// The line was cleaned age rotations ago; each rotation since made
			// one generation, whose bit it must not bring along.
			want := byte(0xff)
			for r := rotation - age + 1; r <= rotation; r++ {
				want &^= 1 << (r % Generations)
			}
			if got := freshBits(rotation, byte(rotation-age)); got != want {
				t.Fatalf("at rotation %d a line cleaned %d before has fresh bits %08b, want %08b", rotation, age, got, want)
			}
		}
	}
}
