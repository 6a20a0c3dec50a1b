package pipeline

import (
	"fmt"
	"runtime"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/affinity"
)

// PinMode says whether workers stay on a processor of their own.
type PinMode uint8

const (
	// PinAuto pins where there are processors to give: two more than workers, for
	// the network, the compression and the collector.
	PinAuto PinMode = iota
	// PinOn pins always.
	PinOn
	// PinOff never pins.
	PinOff
)

var pinNames = [...]string{"auto", "on", "off"}

// String is the name that [ParsePinMode] reads.
func (p PinMode) String() string { return pinNames[p] }

// ParsePinMode reads "auto", "on" or "off".
func ParsePinMode(s string) (PinMode, error) {
	for i, name := range pinNames {
		if s == name {
			return PinMode(i), nil
		}
	}
	return 0, fmt.Errorf(`parse pin mode %q: want "auto", "on" or "off"`, s)
}

// sparesForAuto is how many processors auto leaves to everything else.
const sparesForAuto = 2

// operation is what a worker does with a shard.
type operation uint8

const (
	opProcess operation = iota
	opSeal
	opCommit
	opRollback
	opSweep
	opCopy
	opCopySample
	opQuit
)

// task is one operation on one shard, and on its way back the result.
type task struct {
	op    operation
	shard *Shard
	batch *Batch
	// journal is how much it would take to undo the shard's open cycle.
	journal uint64
	// buf takes the bytes [from, to) of the shard's body, or the parts [from, to) of its
	// sample: then what it has room for says what to is.
	buf      []byte
	from, to uint64
	err      error
}

// worker runs the shards that it owns. Between putting a task in and taking the
// result out, the shard is the worker's and nobody else touches it.
type worker struct {
	in, out *ring
	pin     bool
	cpu     int
	pinned  error // why pinning failed
	started chan struct{}
	ended   chan struct{}
}

func startWorker(pin bool, cpu int) *worker {
	w := &worker{in: newRing(), out: newRing(), pin: pin, cpu: cpu,
		started: make(chan struct{}), ended: make(chan struct{})}
	go w.run()
	<-w.started
	return w
}

// run is the worker's goroutine. A pinned one keeps its thread and ends with it,
// so that no other goroutine inherits the affinity.
func (w *worker) run() {
	defer close(w.ended)
	if w.pin {
		runtime.LockOSThread()
		w.pinned = affinity.Pin(w.cpu)
	}
	close(w.started)
	for {
		t := w.in.take()
		if t.op == opQuit {
			return
		}
		t.err = t.do()
		w.out.put(t)
	}
}

// firstTouch is newSet run where the worker runs. On a machine with several memories a
// page lies in that of the processor which touches it first, for good, and a new filter
// touches all of its own. The worker itself goes on meanwhile: it has other shards. What
// the filter grows by is touched there as well.
func (w *worker) firstTouch(newSet func() (filter.Set, error)) func() (filter.Set, error) {
	return asideOn(w.near, func() (set filter.Set, err error) {
		w.near(func() { set, err = guarded(newSet) })
		return set, err
	})
}

// near does work on the worker's processor, if it has one.
func (w *worker) near(work func()) {
	if !w.pin || w.pinned != nil {
		work() // the worker may run anywhere
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()  // and never unlocks it: the thread ends with this
		_ = affinity.Pin(w.cpu) // it could be pinned before; elsewhere memory is only farther
		work()
	}()
	<-done
}

// do runs the task. A panic in the shard is its error.
func (t *task) do() error {
	_, err := guarded(func() (struct{}, error) {
		t.run()
		return struct{}{}, nil
	})
	return err
}

func (t *task) run() {
	switch t.op {
	case opProcess:
		t.shard.Process(t.batch)
		t.journal = t.shard.JournalBytes()
	case opSeal:
		t.shard.Seal()
	case opCommit:
		t.shard.Commit()
	case opRollback:
		t.shard.Rollback()
	case opSweep:
		t.shard.Sweep()
	case opCopy:
		t.buf = t.shard.copyBody(t.buf, t.from, t.to)
	case opCopySample:
		t.buf, t.to = t.shard.sample.appendFrom(t.buf, t.from)
	}
}

func (w *worker) stop() {
	w.in.put(task{op: opQuit})
	<-w.ended
}

// startWorkers starts n workers, on the last of the processors that the process
// may use: the first ones tend to serve interrupts.
func startWorkers(n int, mode PinMode) []*worker {
	cpus := affinity.Allowed()
	pin := mode == PinOn || mode == PinAuto && len(cpus) >= n+sparesForAuto
	workers := make([]*worker, n)
	for i := range workers {
		cpu := 0
		if len(cpus) > 0 {
			cpu = cpus[len(cpus)-1-i%len(cpus)]
		}
		workers[i] = startWorker(pin, cpu)
	}
	return workers
}
