package main

import (
	"fmt"
	"sync"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
)

// need is the memory of a process that runs a plan.
type need struct {
	plan sizing.Plan
	all  uint64 // the least with which all partitions begin, see whereThereIsRoom
	one  uint64 // and with one
	peak uint64 // the most, with all of them, while it catches up
	heap uint64 // Go's limit with which that is the most
	live uint64 // what of that is in use at once, besides the filters
}

// rest is how much more a process may take besides the filters, which has so much now.
func (n need) rest(now uint64) uint64 { return n.live - min(n.live, now) }

// filterNeed is that of filter, which buffers next to nothing.
func filterNeed(p sizing.Plan) need {
	return need{plan: p, all: p.Bytes, one: p.BytesPerPartition, peak: p.Bytes}
}

// processNeed is that of run. It may share the input out before it judges it.
func processNeed(p sizing.Plan, shares bool) need {
	all, one := p.Process(sizing.IO{Shares: shares}), p.Process(sizing.IO{Partitions: 1, Shares: shares})
	live := all.Journals + all.Kafka + all.Heap
	spare := min(live, p.BytesPerPartition) // as in whereThereIsRoom
	return need{plan: p, all: all.Filters + all.Heap + spare, one: one.Filters + one.Heap + spare, peak: all.Bytes(), heap: all.GoLimit(), live: live}
}

// tooLarge is a plan that this machine has no memory for: it would be killed while it
// fills the filters.
type tooLarge struct {
	need
	memory uint64
}

// fits compares what a process needs with the memory that there is. Nil says that it
// fits.
func (n need) fits(memory uint64) *tooLarge {
	if n.all <= memory {
		return nil
	}
	return &tooLarge{n, memory}
}

// shareable is whether several instances could hold the plan together: each only
// holds the filters of the partitions that it is assigned.
func (t *tooLarge) shareable() bool { return t.one <= t.memory }

func (t *tooLarge) Error() string {
	text := fmt.Sprintf("the plan takes %s of memory", sizing.FormatBytes(t.plan.Bytes))
	if t.all > t.plan.Bytes {
		text += fmt.Sprintf(", %s with the rest of the process", sizing.FormatBytes(t.all))
	}
	text += fmt.Sprintf(", this machine has %s", sizing.FormatBytes(t.memory))
	if n := t.plan.Workload.Partitions; n > 1 {
		text += fmt.Sprintf(": each of %d partitions takes %s", n, sizing.FormatBytes(t.plan.BytesPerPartition))
	}
	return text
}

// Hint implements hinter.
func (t *tooLarge) Hint() string {
	return "remember fewer IDs (--capacity, --rate or --memory), for a shorter --window, or with a higher --fpr\n" +
		"`streamdedup size` shows what a plan takes"
}

// sharedHint is what else helps where instances share a plan.
const sharedHint = "instances of a group share the partitions: more partitions on more instances take less memory each"

// whereThereIsRoom makes sets of so many bytes while free, the memory that is left, has
// them, and what the rest of the process may still take. The system would end the process
// for one more, with all that it holds; so its partition waits.
func whereThereIsRoom(bytes uint64, rest func() uint64, free func() (uint64, bool), newSet func() (filter.Set, error)) func() (filter.Set, error) {
	r := &room{free: free, rest: rest}
	return func() (filter.Set, error) {
		if err := r.take(bytes); err != nil {
			return nil, err
		}
		defer r.taken()
		return newSet()
	}
}

// room is the memory that is left for sets, several of which may be made at once.
type room struct {
	free func() (bytes uint64, known bool)
	rest func() uint64

	mu     sync.Mutex
	making int    // sets whose memory is being taken
	left   uint64 // when the first of them began, without what all of them take
	known  bool
}

// take begins to take the memory of a set, unless there is too little. Taken ends it.
func (r *room) take(bytes uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.making == 0 {
		r.left, r.known = r.free()
	}
	// Where the rest has too little anyway, small filters change nothing.
	rest := min(r.rest(), bytes)
	if r.known && r.left < bytes+rest {
		return fmt.Errorf("%w: it takes %s, the rest of the process up to %s more, and this machine has %s left",
			pipeline.ErrNoRoom, sizing.FormatBytes(bytes), sizing.FormatBytes(rest), sizing.FormatBytes(r.left))
	}
	r.left -= min(r.left, bytes)
	r.making++
	return nil
}

func (r *room) taken() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.making--
}
