package main

import (
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"
)

// heapKeeper makes a stream's process take the memory that its plan says, and collect
// garbage only for that: by itself, Go collects whenever the heap has doubled, however
// small it is. Of the processor's time of `bench kafka` at full speed that took 16%, and
// takes 4% with the plan's.
//
// A process that has little to do takes less: what it makes in collectEvery, and at least
// a quarter of the plan, which a sudden load fills within some collections.
//
// A limit near what lives would have the collector run all the time. So it is at least
// twice that, as far as the machine has it.
type heapKeeper struct {
	plan int64 // by the plan
	most int64 // that the machine, or the container, leaves
	read func() heapUse
	// left is what Go can have of the memory that there is now: filters are made, and
	// others come, meanwhile.
	left func() (bytes int64, known bool)
	set  func(limit int64) // nil where the user has said what the collector should do
	stop chan struct{}

	last heapUse
	// lived is what the last collections found, as far as they were looked at. One of
	// them tells too much: it takes for alive what was allocated while it ran.
	lived [3]uint64
	made  float64 // bytes in collectEvery: now, or not long ago
}

// heapUse is what Go says of its heap.
type heapUse struct {
	live        uint64 // found to be in use by the last collection
	collections uint64
	allocated   uint64 // since the start
}

// newHeapKeeper keeps nothing before keep is called, and nothing at all where the
// environment sets GOGC or GOMEMLIMIT.
func newHeapKeeper() *heapKeeper {
	k := &heapKeeper{read: readHeap, left: leftForGo, stop: make(chan struct{})}
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		k.set = func(limit int64) { debug.SetMemoryLimit(limit) }
	}
	return k
}

const (
	// keepEvery is how often the limit follows: a cycle of large records comes and goes in
	// less than some of them, which the collector bridges by working more.
	keepEvery = 200 * time.Millisecond
	// collectEvery is the time between two collections that costs next to nothing.
	collectEvery = 5 * time.Second
	// calming is what is left of a load, for the limit, by the next look: half in ten
	// seconds, so that pauses of a stream do not count.
	calming = 0.986
)

// keep keeps to the limits until done, which makes the collector what it was.
func (k *heapKeeper) keep() (done func()) {
	if k.set == nil {
		return func() {}
	}
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(-1)
	// There may be much to catch up with.
	k.last, k.made = k.read(), float64(k.plan)
	k.set(k.plan)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(keepEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				k.look()
			case <-k.stop:
				return
			}
		}
	}()
	return func() {
		close(k.stop)
		<-ended
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}
}

// look sets the limit for what lives, and is made, now.
func (k *heapKeeper) look() {
	use := k.read()
	if use.collections != k.last.collections {
		copy(k.lived[1:], k.lived[:])
		k.lived[0] = use.live
	}
	k.made = max(k.made*calming, float64(use.allocated-k.last.allocated)*float64(collectEvery/keepEvery))
	k.last = use
	wanted := int64(min(float64(use.live)+k.made, float64(k.plan)))
	twice := int64(min(2*slices.Min(k.lived[:]), math.MaxInt64))
	limit := max(k.plan/4, wanted, min(twice, k.most))
	if left, known := k.left(); known {
		limit = min(limit, left)
	}
	k.set(limit)
}

// spareMemory is what Go leaves of the memory that there is: it may be over its limit for
// a moment.
const spareMemory = 16 << 20

// leftForGo is what Go has now and what is free, but for some.
func leftForGo() (bytes int64, known bool) {
	free, known := freeMemory()
	return int64(min(goMemory()+free, math.MaxInt64)) - spareMemory, known
}

// goMemory is what Go has of the system now.
func goMemory() uint64 {
	found := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(found)
	return found[0].Value.Uint64() - found[1].Value.Uint64()
}

func readHeap() heapUse {
	found := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(found)
	return heapUse{found[0].Value.Uint64(), found[1].Value.Uint64(), found[2].Value.Uint64()}
}
