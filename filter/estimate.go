package filter

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// estimateLines is how many lines an estimate looks at. So many say what share of the
// bits is set to 0.3% of it, which sixteen bits a hash raise to 5% of the rate of one
// generation and, since each generation has its own error, to 2% of that of eight.
const estimateLines = 4096

// sampled is the number of the i-th of n samples in so many lines. They are spread
// evenly: where a hash lies has nothing to do with what lies beside it.
func sampled(i, n, lines uint64) uint64 {
	hi, lo := bits.Mul64(i, lines)
	line, _ := bits.Div64(hi, lo, n)
	return line
}

// FPREstimate implements [Set]. A look-up that throws kk cells onto a line in which a
// generation has set some of them hits with probability (set/63)^kk: the mean of that
// over lines, to the power of the lines a hash picks, is the generation's rate. It
// takes no model of how the lines were filled.
func (s *Sliced) FPREstimate() float64 {
	// How many of the sampled lines have how many cells set, by bit of a cell.
	var lines [Generations][CellsInLine + 1]uint32
	n := min(estimateLines, uint64(len(s.lines)))
	for from := uint64(0); from < n; from += batch {
		at := s.spots.lines[:min(batch, n-from)]
		for i := range at {
			at[i] = sampled(from+uint64(i), n, uint64(len(s.lines)))
		}
		prefetch(s.lines, at)
		for _, number := range at {
			set := s.cellsSet(&s.lines[number])
			for bit, cells := range set {
				lines[bit][cells]++
			}
		}
	}
	var sum float64
	for bit := range lines {
		hit := meanHit(lines[bit][:], s.params.CellsPerLine, n)
		sum += math.Log1p(-math.Pow(hit, float64(s.params.LinesPerKey)))
	}
	return -math.Expm1(sum)
}

// cellsSet is how many cells of l have each bit set that has not expired. It adds up the
// eight words of a line in each byte at once, as no byte gets to more than eight. With
// a loop over the bits it takes several times as long.
func (s *Sliced) cellsSet(l *line) [Generations]uint8 {
	const ones = 0x0101010101010101
	fresh := uint64(s.fresh[l[stampCell]]) * ones
	var b0, b1, b2, b3, b4, b5, b6, b7 uint64
	for i := range LineBytes / 8 {
		w := binary.LittleEndian.Uint64(l[8*i:]) & fresh
		if i == stampCell/8 {
			w &^= 0xff << (8 * (stampCell % 8)) // it is no cell
		}
		b0 += w & ones
		b1 += w >> 1 & ones
		b2 += w >> 2 & ones
		b3 += w >> 3 & ones
		b4 += w >> 4 & ones
		b5 += w >> 5 & ones
		b6 += w >> 6 & ones
		b7 += w >> 7 & ones
	}
	sum := func(bytes uint64) uint8 { return uint8(bytes * ones >> 56) }
	return [Generations]uint8{sum(b0), sum(b1), sum(b2), sum(b3), sum(b4), sum(b5), sum(b6), sum(b7)}
}

// FPREstimate implements [Set]; see [Sliced.FPREstimate].
func (s *Single) FPREstimate() float64 {
	var lines [bitsInLine + 1]uint32
	n := min(estimateLines, uint64(len(s.lines)))
	for from := uint64(0); from < n; from += batch {
		at := s.spots.lines[:min(batch, n-from)]
		for i := range at {
			at[i] = sampled(from+uint64(i), n, uint64(len(s.lines)))
		}
		prefetch(s.lines, at)
		for _, number := range at {
			set := 0
			for l := s.lines[number][:]; len(l) > 0; l = l[8:] {
				set += bits.OnesCount64(binary.LittleEndian.Uint64(l))
			}
			lines[set]++
		}
	}
	return math.Pow(meanHit(lines[:], s.params.BitsPerLine, n), SingleLinesPerKey)
}

// meanHit is the chance that so many throws at a line find set cells alone, over n lines
// of which lines[set] have so many of their len(lines)-1 cells set.
func meanHit(lines []uint32, throws int, n uint64) float64 {
	var sum float64
	cells := float64(len(lines) - 1)
	for set, of := range lines {
		if of > 0 {
			sum += float64(of) * math.Pow(float64(set)/cells, float64(throws))
		}
	}
	return sum / float64(n)
}

// FPREstimate implements [Set]: each filter of the ring answers falsely with the
// probability f^k that k bits are set where a share f of them is.
func (c *Classic) FPREstimate() float64 {
	const lineWords, perFilter = LineBytes / 8, estimateLines / Generations
	var sum float64
	for _, f := range c.ring {
		words := f.BitSet().Words()
		lines := (uint64(len(words)) + lineWords - 1) / lineWords
		n := min(perFilter, lines)
		var set, of uint64
		for i := range n {
			at := sampled(i, n, lines) * lineWords
			for _, w := range words[at:min(at+lineWords, uint64(len(words)))] {
				set += uint64(bits.OnesCount64(w))
				of += wordBits
			}
		}
		sum += math.Log1p(-math.Pow(float64(set)/float64(min(of, c.params.Bits)), float64(c.params.Hashes)))
	}
	return -math.Expm1(sum)
}
