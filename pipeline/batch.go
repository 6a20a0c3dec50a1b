package pipeline

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/streamdedup/streamdedup/internal/keys"
)

// Record is a view of one record: key, value and headers stay where the source
// holds them. A nil key or value is null, an empty one is empty.
type Record = keys.Record

// Header is a view of one record header.
type Header = keys.Header

// Partition names one partition of an input topic.
type Partition struct {
	Topic  string
	Number int32
}

func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Number) }

// Batch is a run of records of one partition in offset order, and beside them
// the outcome of each once a shard has judged it. The source owns the memory
// until it hands the batch over, and gets it back with [Session.Deliver].
type Batch struct {
	Partition Partition
	// Epoch is the assignment, and the count of aborts and seeks in it, that the
	// batch was read under. The engine throws batches of another epoch away.
	Epoch uint64
	// Now is the wall clock when the batch was read, in milliseconds.
	Now int64
	// First is the position before the batch and Next the one after it. Next may
	// lie past the last record: control records and gaps count as read.
	First, Next int64

	Records []Record
	Offsets []int64
	// Memory is about what the batch takes as long as the source keeps it, in bytes;
	// zero where the source does not say.
	Memory int64
	// Oversize marks records that the output is known to refuse for their size.
	// It is nil when there are none.
	Oversize []bool
	// SizeLimit is the limit of the output by which Oversize was judged, in the
	// source's own measure; zero where there is none.
	SizeLimit int64
	// Stable is the last stable offset when the batch was read, zero where the
	// source does not say.
	Stable int64

	// IDs is what an [Identifier] found in the records. It is nil where the shard looks
	// itself.
	IDs *IDs

	// Route is, behind a [Router], the partition that each record goes to.
	Route []int32

	// Outcomes is filled by the shard, one for each record it judged. It is
	// shorter than Records only when Stopped says why.
	Outcomes []Outcome
	// Slice is how long a generation of the shard is in milliseconds, see [Batch.Age].
	Slice int64
	// Counts sums the outcomes up.
	Counts Counts
	// Stopped is the reason why the partition cannot go past the record at
	// Outcomes' end, nil when the whole batch was judged.
	Stopped *Stop

	// Source is the source's own, untouched by the pipeline.
	Source any
}

// Verdict says what a record is.
type Verdict uint8

// The four verdicts: in = unique + duplicate + missing + invalid.
const (
	Unique Verdict = iota
	Duplicate
	Missing
	Invalid
	verdicts
)

func (v Verdict) String() string {
	return [...]string{"unique", "duplicate", "missing", "invalid"}[v]
}

// Fate says where a record goes.
type Fate uint8

// The three fates: in = out + diverted + dropped.
const (
	Out Fate = iota
	Diverted
	Dropped
	fates
)

func (f Fate) String() string { return [...]string{"out", "diverted", "dropped"}[f] }

// Reason says which policy sent a record aside, or tagged it. It names the reason in
// the headers of a diverted record.
type Reason uint8

// Why a record was diverted, dropped or tagged, or stopped its partition.
const (
	NoReason Reason = iota
	ReasonDuplicate
	ReasonMissing
	ReasonInvalid
	ReasonLate
	ReasonTooLarge
	ReasonFull
)

func (r Reason) String() string {
	return [...]string{"", "duplicate", "missing", "invalid", "late", "too_large", "full"}[r]
}

// words are the reason as a sentence of ours has it, for what stopped a partition.
func (r Reason) words() string {
	return [...]string{"", "duplicate", "record without an ID", "record malformed before its ID", "late record",
		"record too large for the output", "the filter is full"}[r]
}

// Marks stand beside the verdict and are in neither sum.
type Marks uint8

// The marks of a record.
const (
	Late Marks = 1 << iota
	Ahead
	NoTime
	Jump
	Unlearned
	Retimed
)

// Outcome is what became of one record.
type Outcome struct {
	Verdict Verdict
	Fate    Fate
	Reason  Reason
	Marks   Marks
	// Age is the mask of ages of the generations that held a duplicate's ID.
	Age uint8
}

// Age is how much earlier than record i, a duplicate, its first copy was read, in
// stream time and exact to one generation. Where repeats extend the window it is that of
// the last copy that was learned, and where a false positive has added a generation to
// those that hold the ID it may be less. For all but duplicates it is 0.
func (b *Batch) Age(i int) time.Duration {
	ages := b.Outcomes[i].Age
	if ages == 0 {
		return 0
	}
	return time.Duration(b.Slice) * time.Millisecond * time.Duration(bits.TrailingZeros8(ages))
}

// Retime marks record i of b, whose time the output would refuse and which the
// sink therefore moves to one that it accepts.
func (b *Batch) Retime(i int) {
	b.Outcomes[i].Marks |= Retimed
	b.Counts.mark(Retimed)
}

// Stop says where and why a partition cannot go on.
type Stop struct {
	Partition Partition
	Offset    int64
	Reason    Reason
	// Err is the source's or the output's own error, if there was one.
	Err error
}

func (s *Stop) Error() string {
	text := fmt.Sprintf("partition %s stopped before offset %d", s.Partition, s.Offset)
	if s.Reason != NoReason {
		text += ": " + s.Reason.words()
	}
	if s.Err != nil {
		text += ": " + s.Err.Error()
	}
	return text
}

func (s *Stop) Unwrap() error { return s.Err }
