package window

import (
	"fmt"
	"math"
	"strings"

	"github.com/streamdedup/streamdedup/filter"
)

// NoTime stands for the time of a record that has none.
const NoTime = math.MinInt64

// maxTime is the largest time that is one. Half the range of an int64 leaves
// room for every sum below; it lies 146 million years ahead.
const maxTime = 1 << 62

// Marks is a set of remarks on one record. They stand beside its verdict.
type Marks uint8

const (
	// MarkLate: the time is more than the span below the stream time.
	MarkLate Marks = 1 << iota
	// MarkAhead: the time is too far above the wall clock to be believed.
	MarkAhead
	// MarkNoTime: the time is missing or no time at all.
	MarkNoTime
	// MarkJump: the record moved the stream time by more than one generation.
	MarkJump
	// MarkUnlearned: the generation was full, repeats of the record will pass; those of a
	// duplicate that was to be refreshed, when its first copy is forgotten.
	MarkUnlearned
)

// String names the marks in the order of their definition, joined by "+", and is
// "none" for the empty set.
func (m Marks) String() string {
	if m == 0 {
		return "none"
	}
	var names []string
	for i, name := range [...]string{"late", "ahead", "no_time", "jump", "unlearned"} {
		if m&(1<<i) != 0 {
			names = append(names, name)
			m &^= 1 << i
		}
	}
	if m != 0 {
		names = append(names, fmt.Sprintf("Marks(%#x)", uint8(m)))
	}
	return strings.Join(names, "+")
}

// Stop is why [Window.Observe] ended before the end of a batch.
type Stop uint8

const (
	// StopNone: it did not.
	StopNone Stop = iota
	// StopLate: the next record is late and [Config.StopAtLate] is set.
	StopLate
	// StopFull: the next record would be learned, the generation is full, and
	// [Config.OnFull] is [FailWhenFull].
	StopFull
)

// String is "none", "late" or "full".
func (s Stop) String() string {
	switch s {
	case StopNone:
		return "none"
	case StopLate:
		return "late"
	case StopFull:
		return "full"
	}
	return fmt.Sprintf("Stop(%d)", uint8(s))
}

// Batch is records of one partition in offset order, as arrays side by side:
// element i of each belongs to record i. All have the same length, except that HasID
// and NoLearn may be nil. The caller owns the memory and may use it again.
type Batch struct {
	// Offsets are the records' offsets, ascending.
	Offsets []int64
	// Times are the records' times in milliseconds, or NoTime.
	Times []int64
	// Hashes are the digests of the records' IDs; where HasID is false, anything.
	Hashes []filter.Hash
	// HasID is false for a record without a usable ID. It is neither looked up nor
	// learned, but its time counts like any other. Nil means that all have one.
	HasID []bool
	// NoLearn is true for a record that must not teach, because the caller knows
	// that it will not go to the output. Nil means that there is none.
	NoLearn []bool
	// Now is the wall clock at which the records were read, in milliseconds.
	Now int64

	// Learn is an output: the hash of record i was added to the filling generation.
	// The record was new, or, with [Config.Refresh], a duplicate of one that an older
	// generation has: Ages tells. What was there before does not matter.
	Learn []bool
	// Ages is an output: the ages of the generations that held the hash when the
	// record's turn came (see [filter.Set]), zero if none did or HasID is false.
	Ages []uint8
	// Marks is an output.
	Marks []Marks
	// Runs is an output that is appended to its own memory: the stretches of the
	// batch between two rotations, in order. It may have empty ones.
	Runs []Run
}

// Run is a stretch of a batch whose new hashes are in the same generation.
type Run struct {
	// To is the index of the first record after it.
	To int
	// Rotation was the window's, see [State].
	Rotation uint64
	// Until is the stream time at its end, NoTime while that was the wall clock's.
	Until int64
}

// check panics when the caller has mixed up the arrays: going on would judge
// records by the hashes of others.
func (b *Batch) check() {
	n := len(b.Offsets)
	if len(b.Times) != n || len(b.Hashes) != n || len(b.Learn) != n || len(b.Ages) != n || len(b.Marks) != n ||
		(b.HasID != nil && len(b.HasID) != n) || (b.NoLearn != nil && len(b.NoLearn) != n) {
		panic(fmt.Sprintf("BUG: window: the arrays of a batch of %d records differ in length", n))
	}
	if b.Now < -maxTime || b.Now > maxTime {
		panic(fmt.Sprintf("BUG: window: the clock of a batch says %d ms, which no clock shows", b.Now))
	}
}
