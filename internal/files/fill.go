package files

import "github.com/streamdedup/streamdedup/filter"

// FillClock is the clock of an input without times that is all one window: it
// moves to the next generation when one is full. So the load spreads over all
// generations, as the filter's size was calculated for, and none is ever
// forgotten: it stops at the last, where the window's own rule for a full
// generation holds. Where it moves depends on the records alone, however they are
// cut into batches.
//
// The shard must take arrival as its time.
type FillClock struct {
	// Slice is the length of a generation in milliseconds, and Capacity how many
	// IDs it takes.
	Slice    int64
	Capacity uint64

	generation int64
	learned    uint64 // in the filling generation
}

// now is the time to judge the next records at, and limit how many of n they may
// be.
func (c *FillClock) now(n int) (now int64, limit int) {
	if c.learned == c.Capacity && !c.last() {
		c.generation++
		c.learned = 0
	}
	limit = n
	if left := c.Capacity - c.learned; !c.last() && uint64(n) > left {
		limit = int(left)
	}
	// From 1 on: time 0 is no time.
	return (c.generation + 1) * c.Slice, limit
}

func (c *FillClock) last() bool { return c.generation == filter.Generations-1 }

// learn says how many IDs the last records taught.
func (c *FillClock) learn(n uint64) {
	if !c.last() {
		c.learned += n
	}
}
