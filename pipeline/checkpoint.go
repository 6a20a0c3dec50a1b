package pipeline

import (
	"io"

	"github.com/streamdedup/streamdedup/filter"
)

// CheckpointHead is what a checkpoint says of the memory that it holds. The
// memory's body, [filter.Set]'s, was copied while the partition went from Begin
// to Next: all that was learned before Begin is in it, of the rest some may be.
// Nothing in it is of a transaction that did not commit.
type CheckpointHead struct {
	Partition Partition
	// State is the shard's at Next.
	State State
	// Begin and Next are offsets of the input.
	Begin, Next int64
	// LogBegin and LogEnd are offsets of the changelog's partition at the same two
	// moments: what was learned from Begin on is logged from LogBegin on.
	LogBegin, LogEnd int64
	// Added is how many hashes each generation was given before Begin, by its age at
	// Next.
	Added [filter.Generations]uint64
	// Geometry is the filter's kind and parameters. A body of another is of no use.
	Geometry string
	// SetHead is what the filter keeps beside its body.
	SetHead []byte
	// BodyBytes is the length of the body: the filter's and, behind it, the audit's
	// sample.
	BodyBytes uint64
}

// Checkpoints are copies of shards' memories that outlive the process. They are
// a cache: without one a restore takes longer. An engine calls Create, a restorer
// List, from goroutines of their own; both may be called at any time.
type Checkpoints interface {
	// Create begins a checkpoint of p.
	Create(p Partition) (CheckpointWriter, error)
	// List is the checkpoints of p, the newest first. One that cannot be used is
	// left out, and said why to whom it concerns.
	List(p Partition) []CheckpointFile
}

// CheckpointWriter takes the body of one checkpoint, in order. It has one owner.
// Either Finish or Abort ends it.
type CheckpointWriter interface {
	io.Writer
	// Finish makes the checkpoint durable, and the newest of its partition.
	Finish(h *CheckpointHead) error
	// Abort leaves nothing behind.
	Abort()
}

// CheckpointFile is one finished checkpoint.
type CheckpointFile interface {
	// Name is for messages.
	Name() string
	// Head was read and found whole.
	Head() *CheckpointHead
	// Open reads the body. A read fails where the body is damaged; nothing that
	// was read before is to be used then.
	Open() (io.ReadCloser, error)
}
