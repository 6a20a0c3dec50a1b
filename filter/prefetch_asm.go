//go:build (amd64 || arm64) && !purego

package filter

// prefetch asks for the given lines, all at once. One call serves a batch: a
// call of assembly costs more than a prefetch saves when it serves one line.
//
//go:noescape
func prefetch(lines []line, numbers []uint64)
