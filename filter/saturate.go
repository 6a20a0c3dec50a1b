package filter

import (
	"encoding/binary"
	"math"
)

// Saturate sets random bits in an empty filter, as many as when each generation
// holds its share of a window of elements distinct IDs. A benchmark gets so in a
// second the filter that a stream fills in a day; it holds no ID that anyone
// knows. Equal seeds give equal bits. It is not journaled: Rollback leaves it.
func (s *Sliced) Saturate(elements, seed uint64) {
	throws := float64(generationShare(elements)) * float64(s.params.LinesPerKey*s.params.CellsPerLine)
	coins := newCoins(-math.Expm1(-throws/(float64(len(s.lines))*CellsInLine)), seed)
	for i := range s.lines {
		l := &s.lines[i]
		for c := 0; c < LineBytes; c += 8 {
			binary.LittleEndian.PutUint64(l[c:], coins.toss())
		}
		l[stampCell] = s.stamp
	}
}

// Saturate sets random bits in an empty ring; see [Sliced.Saturate].
func (c *Classic) Saturate(elements, seed uint64) {
	throws := float64(generationShare(elements)) * float64(c.params.Hashes)
	coins := newCoins(-math.Expm1(-throws/float64(c.params.Bits)), seed)
	for _, f := range c.ring {
		words := f.BitSet().Words()
		for i := range words {
			words[i] = coins.toss()
		}
		if last := c.params.Bits % wordBits; last != 0 {
			words[len(words)-1] &= 1<<last - 1
		}
	}
}

// coinBits is how exactly coins know their bias: to one part in 65,536.
const coinBits = 16

// coins tosses 64 biased coins at a time.
type coins struct {
	bias uint32 // the chance of a set bit, in parts of 1<<coinBits
	next uint64
}

func newCoins(bias float64, seed uint64) coins {
	return coins{bias: uint32(math.Round(bias * (1<<coinBits - 1))), next: seed}
}

// toss combines a fair toss for each binary digit of the bias, the lowest first:
// a set one is OR, which adds a half to what is there halved, a clear one AND.
func (c *coins) toss() (word uint64) {
	for digit := range coinBits {
		fair := c.random()
		if c.bias>>digit&1 != 0 {
			word |= fair
		} else {
			word &= fair
		}
	}
	return word
}

// random is splitmix64.
func (c *coins) random() uint64 {
	c.next += 0x9e3779b97f4a7c15
	x := c.next
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
