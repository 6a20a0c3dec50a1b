package main

import (
	"os"
	"runtime/debug"
)

// gcPercent is how much garbage a stream may make before it is collected, in percent of
// what lives; filters are outside of it. Of the processor's time of `bench kafka` at full
// speed collecting takes about 16% at Go's own 100, 7% at 200, 4% at 400 and 3% at 800,
// while the heap, of which 40 MB live, peaks at 80, 120, 200 and 700 MB.
const gcPercent = 200

// collectLess applies gcPercent unless the user has said something else, and returns
// what takes it back.
func collectLess() (restore func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(gcPercent)
	return func() { debug.SetGCPercent(before) }
}
