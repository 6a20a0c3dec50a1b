package pipeline

import (
	"runtime"
	"sync/atomic"
)

// ringSize is how many tasks wait for a worker at most. A task is a batch of
// thousands of records, so a few hide the handing over.
const ringSize = 64

// cacheLine is what processors exchange when one reads what another has written: 64
// bytes on most, 128 on some, and where neighbours are fetched in pairs.
const cacheLine = 128

// ring passes tasks from one goroutine to one other, in order, without a lock.
// Each end is touched by its own goroutine only, in lines of cache of its own. An end
// that finds nothing to do spins for a moment and then sleeps until the other wakes it.
type ring struct {
	_    [cacheLine]byte
	head atomic.Uint64 // next to take; moved by the taker
	_    [cacheLine - 8]byte
	tail atomic.Uint64 // next to put; moved by the putter
	_    [cacheLine - 8]byte

	sleeping atomic.Bool   // the taker sleeps
	wake     chan struct{} // holds at most the one token that wakes it
	_        [cacheLine]byte

	slots [ringSize]task
}

func newRing() *ring { return &ring{wake: make(chan struct{}, 1)} }

// put adds a task. The caller never has more than ringSize under way.
func (r *ring) put(t task) {
	tail := r.tail.Load()
	if tail-r.head.Load() == ringSize {
		panic("BUG: pipeline: ring is full")
	}
	r.slots[tail%ringSize] = t
	r.tail.Store(tail + 1)
	if r.sleeping.Load() && r.sleeping.CompareAndSwap(true, false) {
		r.wake <- struct{}{}
	}
}

// spins is how often a taker looks again before it sleeps: a few microseconds,
// the time between two batches at full load.
const spins = 64

// take waits for the next task.
func (r *ring) take() task {
	head := r.head.Load()
	for i := 0; r.tail.Load() == head; i++ {
		if i < spins {
			runtime.Gosched()
			continue
		}
		r.sleeping.Store(true)
		// A put between the look and the store must not be slept through.
		if r.tail.Load() != head && r.sleeping.CompareAndSwap(true, false) {
			break
		}
		<-r.wake
	}
	t := r.slots[head%ringSize]
	r.slots[head%ringSize] = task{}
	r.head.Store(head + 1)
	return t
}
