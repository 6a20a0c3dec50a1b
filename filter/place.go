package filter

import "math/bits"

// Where a hash lies. Each use of a hash's bits is mixed anew: bits that pick both
// a line and a cell, or two lines, make rates far above those of the model. All
// arithmetic is on 64 bits, so that no size of filter runs out of them.

const (
	// golden is 2^64 divided by the golden ratio, the step of the SplitMix64
	// generator: it sets a hash's lines apart before they are mixed.
	golden = 0x9e3779b97f4a7c15
	// cellsPerPick is how many cells the 64 bits of a pick choose, 16 for each.
	cellsPerPick = 4
)

// linePick is the mixed bits that choose the j-th line of h, by the finaliser of
// MurmurHash3 (Appleby).
func linePick(h Hash, j int) uint64 {
	x := uint64(h) + uint64(j+1)*golden
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// lineOf scales a pick to one of n lines (Lemire, "Fast random integer
// generation in an interval", without the rejection: n is far below 2^64).
func lineOf(pick, n uint64) uint64 {
	hi, _ := bits.Mul64(pick, n)
	return hi
}

// cellPick is the mixed bits that choose the first four cells in the line that
// pick chose, by the finaliser of SplitMix64 (Stafford's variant 13).
func cellPick(pick uint64) uint64 {
	x := (pick ^ pick>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// cellPickMore is the mixed bits that choose cells five to eight, from those
// that chose the first four.
func cellPickMore(pick uint64) uint64 { return cellPick(pick + golden) }

// cellOf is the cell that the c-th 16 bits of a pick choose, c modulo four. From
// 16 bits the 63 cells differ by a tenth of a percent in their share; from 6 bits
// cell 0 would have twice that of another.
func cellOf(pick uint64, c int) uint64 {
	return uint64(uint16(pick>>(16*(uint(c)%cellsPerPick)))) * CellsInLine >> 16
}
