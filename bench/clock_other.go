//go:build !linux

package bench

import "time"

// threadClock is what the engine is timed by: the clock on the wall.
const threadClock = "wall clock"

var processBegan = time.Now()

// threadTime reads it. The difference of two readings is a time.
func threadTime() time.Duration { return time.Since(processBegan) }
