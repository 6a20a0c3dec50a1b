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
// takes 4% with a heap of five times what lives.
//
// A limit near what lives would have the collector run all the time. So it is at least
// twice that, as far as the machine has it.
type heapKeeper struct {
	plan int64 // by the plan
	most int64 // that the machine, or the container, leaves
	// live is what the last collection found to be in use, and the number of that.
	live func() (bytes, collection uint64)
	set  func(limit int64) // nil where the user has said what the collector should do
	stop chan struct{}

	// lived is what the last collections found, as far as they were looked at. One of
	// them tells too much: it takes for alive what was allocated while it ran.
	lived      [3]uint64
	collection uint64
}

// newHeapKeeper keeps nothing before keep is called, and nothing at all where the
// environment sets GOGC or GOMEMLIMIT.
func newHeapKeeper() *heapKeeper {
	k := &heapKeeper{live: liveHeap, stop: make(chan struct{})}
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		k.set = func(limit int64) { debug.SetMemoryLimit(limit) }
	}
	return k
}

// keepEvery is how often the limit follows what lives: a cycle of large records comes
// and goes in less, which the collector bridges by working more.
const keepEvery = time.Second

// keep keeps to the limits until done, which makes the collector what it was.
func (k *heapKeeper) keep() (done func()) {
	if k.set == nil {
		return func() {}
	}
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(-1)
	k.look()
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

// look sets the limit for what lives now.
func (k *heapKeeper) look() {
	if live, collection := k.live(); collection != k.collection {
		k.collection = collection
		copy(k.lived[1:], k.lived[:])
		k.lived[0] = live
	}
	twice := int64(min(2*slices.Min(k.lived[:]), math.MaxInt64))
	k.set(max(k.plan, min(twice, k.most)))
}

func liveHeap() (bytes, collection uint64) {
	found := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(found)
	return found[0].Value.Uint64(), found[1].Value.Uint64()
}
