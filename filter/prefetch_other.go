//go:build purego || !(amd64 || arm64)

package filter

import "runtime"

// prefetch asks for the given lines by loading from each: the loads do not
// depend on one another, so the processor has several in flight.
func prefetch(lines []line, numbers []uint64) {
	var all byte
	for _, n := range numbers {
		all |= lines[n][0]
	}
	runtime.KeepAlive(all)
}
