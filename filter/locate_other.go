//go:build purego || !amd64

package filter

// overlaps says that no compiler puts a prefetch between the arithmetic here.
const overlaps = false

func locate(lines []line, hashes []Hash, linesPerKey int, to *spots) {
	locateLoop(lines, hashes, linesPerKey, to)
	prefetch(lines, to.lines[:len(hashes)*linesPerKey])
}
