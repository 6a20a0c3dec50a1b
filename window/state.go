package window

import (
	"encoding/binary"

	"github.com/streamdedup/streamdedup/filter"
)

// coreBytes is the size of core in AppendState, near enough to that in memory.
const coreBytes = 8*6 + 24*filter.Generations

// Seal ends the current section of the journal.
func (w *Window) Seal() {
	w.set.Seal()
	w.sealed = append(w.sealed, w.core)
}

// Commit makes the oldest sealed section final. Without one it panics.
func (w *Window) Commit() {
	if len(w.sealed) == 0 {
		panic("BUG: window: Commit without a sealed section")
	}
	w.set.Commit()
	w.base = w.sealed[0]
	w.sealed = append(w.sealed[:0], w.sealed[1:]...)
}

// Rollback undoes everything since the last committed section, sealed or not:
// the window is then, byte for byte, what it was at that section's end.
func (w *Window) Rollback() {
	w.set.Rollback()
	w.core = w.base
	w.sealed = w.sealed[:0]
}

// JournalBytes is the size of what Rollback would need now. It is 0 where
// nothing is open.
func (w *Window) JournalBytes() uint64 {
	return w.set.JournalBytes() + uint64(len(w.sealed))*coreBytes
}

// Generation is a slice of stream time and the range of offsets that fell into it.
type Generation struct {
	// Number is floor(stream time / slice). In a window that went by the wall clock
	// before it had a believed time, that of the filling generation may be one more
	// until the stream has moved by a slice.
	Number int64
	// FirstOffset is the offset of the record whose time began it. A generation
	// that was skipped begins, and ends, where the one after it begins.
	FirstOffset int64
	// LateKept: late records may have been kept from the output while it was
	// filling, so a rebuild must not learn them, whatever the policy is by then.
	LateKept bool
}

// State is a window without its hashes, and what it takes to put those back where
// they were: see [Rebuild]. It is small enough to travel with a committed offset. The
// zero value is the state of a window that has seen nothing, but for the slice.
type State struct {
	// StreamTime is M in milliseconds; it means nothing without a generation.
	StreamTime int64
	// Believed: it comes from a record, not from the wall clock.
	Believed bool
	// KnownFrom is the stream time from which on every record is known, for
	// [Window.Coverage]; 0 when nothing came before, NoTime for a window marked
	// cold that has seen nothing yet.
	KnownFrom int64
	// Slice is the length of a generation in milliseconds.
	Slice int64
	// Rotation counts the generations that were begun after the first, in the low
	// half, and in the high half how often the slice was changed since. What was
	// learned in a generation can so be told from what was learned in another,
	// also after their numbers have changed (see [Generation]).
	Rotation uint64
	// Generations are the live ones that have begun, oldest first; the last is the
	// one filling. Their numbers are consecutive.
	Generations []Generation
}

// State is the window's state now, committed or not.
func (w *Window) State() State {
	s := State{
		Believed:    w.believed,
		KnownFrom:   w.knownFrom,
		Slice:       w.slice,
		Rotation:    w.rotation,
		Generations: make([]Generation, w.begun),
	}
	if w.begun > 0 {
		s.StreamTime = w.m
	}
	for i := range s.Generations {
		age := w.begun - 1 - i
		s.Generations[i] = Generation{
			Number: w.number - int64(age), FirstOffset: w.gens[age].firstOffset, LateKept: w.gens[age].lateKept,
		}
	}
	return s
}

// GenerationStats is a generation and its load.
type GenerationStats struct {
	Generation
	// Added is how many hashes were learned in it: unique ones, not records.
	Added uint64
}

// Stats is a window in figures.
type Stats struct {
	// Generations are the live ones that have begun, oldest first.
	Generations []GenerationStats
	// Loads is the same loads by age: Loads[0] is that of the filling generation.
	Loads [filter.Generations]uint64
	// Full: the filling generation has taken its capacity, or, in a set that grows, all
	// that it can.
	Full bool
	// Slabs is how many filters the set has besides the first.
	Slabs int
	// StreamTime is M in milliseconds, NoTime before the first record.
	StreamTime int64
	// Believed: it comes from a record, not from the wall clock.
	Believed bool
	// Coverage: see [Window.Coverage].
	Coverage float64
	// Bytes is the memory of the set, without its journal.
	Bytes uint64
	// FPR is the set's false-positive rate, estimated from the bits that are set. It is
	// renewed with each rotation, and when the filling generation has taken a 64th of its
	// capacity.
	FPR float64
}

// Stats is the window's figures now, committed or not.
func (w *Window) Stats() Stats {
	s := Stats{
		Full:       w.gens[0].added >= w.cfg.GenerationCapacity,
		StreamTime: w.m,
		Believed:   w.believed,
		Coverage:   w.Coverage(),
		Bytes:      w.set.Bytes(),
		FPR:        w.fpr(),
	}
	if w.grows != nil {
		s.Full = w.grows.Full()
		s.Slabs, _ = w.grows.Slabs()
	}
	for _, g := range w.State().Generations {
		age := w.number - g.Number
		s.Loads[age] = w.gens[age].added
		s.Generations = append(s.Generations, GenerationStats{Generation: g, Added: s.Loads[age]})
	}
	return s
}

// estimateSteps is how often a generation that fills has its rate estimated, which takes
// too long to do for each commit. Between two of them the rate of a window moves by
// about 2%, while its generations take no more than they are planned for.
const estimateSteps = 64

// estimate is the rate of a window as it was at some load of a generation.
type estimate struct {
	known    bool
	rotation uint64
	added    uint64
	fpr      float64
}

// fpr is the last estimate, or a new one where that is too old. It is no part of the
// state.
func (w *Window) fpr() float64 {
	e, added := &w.estimate, w.gens[0].added
	moved := max(added, e.added) - min(added, e.added)
	if !e.known || e.rotation != w.rotation || moved > w.cfg.GenerationCapacity/estimateSteps {
		*e = estimate{known: true, rotation: w.rotation, added: added, fpr: w.set.FPREstimate()}
	}
	return e.fpr
}

// Coverage is how much of the span the window knows, from 0 to 1. Below 1 a
// duplicate can pass because its first copy was read before the window began.
func (w *Window) Coverage() float64 { return coverage(w.knownFrom, w.m, w.span) }

func coverage(knownFrom, m, span int64) float64 {
	switch knownFrom {
	case 0:
		return 1
	case NoTime:
		return 0
	}
	return min(1, max(0, float64(m-knownFrom)/float64(span)))
}

// known is the stream time t as a value of knownFrom, where 0 says that nothing
// came before: a millisecond of less coverage avoids the confusion.
func known(t int64) int64 {
	if t == 0 {
		return 1
	}
	return t
}

// AppendState appends the whole state, the set's included, in a fixed byte order:
// equal states give equal bytes. It leaves the journal out.
func (w *Window) AppendState(b []byte) []byte {
	return w.set.AppendState(w.core.appendTo(b))
}

func (c *core) appendTo(b []byte) []byte {
	for _, v := range [...]uint64{uint64(c.m), flag(c.believed), uint64(c.knownFrom), uint64(c.number), c.rotation, uint64(c.begun)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	for _, g := range c.gens {
		b = binary.LittleEndian.AppendUint64(b, uint64(g.firstOffset))
		b = binary.LittleEndian.AppendUint64(b, g.added)
		b = binary.LittleEndian.AppendUint64(b, flag(g.lateKept))
	}
	return b
}

func flag(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}
