package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadClock is what the engine is timed by: the processor time of the calling
// thread, which leaves out what other programs take from it.
const threadClock = "CPU time of the thread"

// threadTime reads it. The difference of two readings on one thread is a time.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic("BUG: bench: the kernel has no clock of a thread: " + err.Error())
	}
	return time.Duration(t.Nano())
}
