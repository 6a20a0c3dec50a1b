//go:build !purego

package filter

// overlaps says that locate is worth its call.
const overlaps = true

// locate is locateLoop with a prefetch of each line as soon as its number is known, so
// that the processor waits for the first lines while it computes the next. to must have
// room: a batch of hashes, and maxLinesPerKey lines for each.
//
//go:noescape
func locate(lines []line, hashes []Hash, linesPerKey int, to *spots)
