package pipeline

import (
	"context"
	"errors"
	"time"
)

// Session is one membership in a stream: it hands over batches and changes of
// assignment, takes what survives, and commits both together. Batches and not
// records cross it, so that a source may hand over records or raw batches.
//
// The engine calls it from one goroutine. Between two calls of
// [Session.Release] no assignment changes: whatever the stream's own protocol
// asks in the meantime waits until then.
type Session interface {
	// Poll waits for records or a change of assignment, at most until wait is
	// over, or what Finish waits for, and returns what there is. Only assigned,
	// resumed partitions give batches. A [*Stop] as error of one partition comes
	// in Polled.Stopped.
	Poll(ctx context.Context, wait time.Duration) (Polled, error)
	// Resume starts reading p at next, also after a Halt, and returns the epoch
	// that its batches have from now on. A newly assigned partition gives no batch
	// before it.
	Resume(p Partition, next int64) (epoch uint64)
	// Halt stops reading p; it stays ours.
	Halt(p Partition)
	// Deliver sends the batch's survivors and diverted records on, each in the
	// order of its partition, without waiting for acknowledgement. It may add
	// the mark Retimed. A transaction begins with the first batch.
	Deliver(ctx context.Context, b *Batch) error
	// Finish ends the deliveries of a cycle and says which positions will be
	// committed. The channel is closed once all output has its answer, so that Commit
	// need not wait for that. Poll may be called meanwhile, and returns when it is.
	Finish(positions []Position) (answered <-chan struct{})
	// Commit makes everything delivered, and the positions, durable at once. It
	// finishes the cycle where Finish was not called; else the positions are the same.
	// Its error is fatal; all that can be settled is in the result.
	Commit(ctx context.Context, positions []Position) (CommitResult, error)
	// Abort takes back what was delivered since the last commit; reading goes
	// on at the committed positions under a new epoch.
	Abort(ctx context.Context) (CommitResult, error)
	// Release lets assignments change until the next Poll returns.
	Release()
	// Close ends the membership: leave says whether others may take over now.
	Close(ctx context.Context, leave bool) error
}

// Polled is what one poll brought. Lost comes before Assigned: a partition in
// both was taken away and given back, and its old memory must not be used.
type Polled struct {
	Lost     []Partition
	Assigned []Assigned
	Batches  []*Batch
	Stopped  []*Stop
}

// Assigned is a partition that is ours from now on, under an epoch.
type Assigned struct {
	Partition Partition
	Epoch     uint64
}

// Position is the next offset of a partition to read, the metadata to keep beside
// it, and what the cycle taught the partition's shard, nil where nobody logs it.
type Position struct {
	Partition Partition
	Next      int64
	Metadata  string
	Change    *Change
}

// Settlement says what became of a transaction, after asking whom one must.
type Settlement uint8

// How a transaction ended.
const (
	// Committed: output and positions are durable.
	Committed Settlement = iota
	// Aborted: none of it is; reading goes on at the cycle's start.
	Aborted
	// Lost: what we hold is no longer known to be true; every partition is lost
	// and comes again by assignment.
	Lost
)

func (s Settlement) String() string { return [...]string{"committed", "aborted", "lost"}[s] }

// CommitResult is the settled end of a transaction.
type CommitResult struct {
	Settlement Settlement
	// Cause is why it did not commit.
	Cause error
	// Refused are the records that the output, or the divert topic, refused for
	// themselves: a retry of the same would fail for ever.
	Refused []Refusal
	// Epochs are the new epochs of the partitions still ours after an abort.
	Epochs map[Partition]uint64
	// Gone are partitions no longer ours.
	Gone []Partition
	// Logged is, after a commit, where the changelog's partitions end.
	Logged map[Partition]int64
}

// Refusal is one record that cannot be written.
type Refusal struct {
	Partition Partition
	Offset    int64
	// Diverted says that it was the divert topic that refused it.
	Diverted bool
	Err      error
}

// Restorer gives a partition's memory back before its first verdict.
type Restorer interface {
	// Restore returns a shard and the offset its state is true for: reading
	// goes on there. It is called in a goroutine of its own, for several
	// partitions at once, and returns early when ctx ends. It builds the shard
	// with b, and gives up with an error that says what to do when state should
	// exist and does not. An error ends the engine, except for [ErrNotOurs], and
	// for [ErrNoRoom], after which it is called again; its text names the partition
	// where it is about one.
	Restore(ctx context.Context, p Partition, b Builder) (Restored, error)
}

// Builder makes shards for a restorer.
type Builder interface {
	// Fresh is a shard that has seen nothing. Cold says that it should have: its
	// coverage of the window starts at zero.
	Fresh(cold bool) (*Shard, error)
	// Rebuild prepares to make the shard with that state. It fails with
	// [ErrForeignState] when that is of another key spec, seed, scope or filter kind.
	Rebuild(state State) (*Rebuild, error)
}

// Restored is a shard with the offset its state is true for.
type Restored struct {
	Shard *Shard
	Next  int64
	// LogEnd is the end of the changelog's partition, whose changes are all in it.
	LogEnd int64
	// From says in a word or two where the memory came from, for the log.
	From string
}

var (
	// ErrNoState is returned where a state should be and is none of this program's.
	ErrNoState = errors.New("no state of ours in the offset metadata")
	// ErrForeignState is returned for state of another key spec, seed, scope or
	// filter kind.
	ErrForeignState = errors.New("state belongs to another configuration")
	// ErrOtherTargets is returned by a [Router] whose IDs were shared out to another
	// number of partitions.
	ErrOtherTargets = errors.New("state belongs to another number of partitions")
	// ErrNotOurs is returned by a [Restorer] for a partition that was taken away
	// while it was restored. The session says the same, in this poll or a later one.
	ErrNotOurs = errors.New("the partition is not ours any more")
	// ErrNoRoom is returned by NewSet of a [Config] where there is no memory for one
	// set more. The partition waits until there is, and the others go on.
	ErrNoRoom = errors.New("no memory for a filter")
	// ErrFenced is returned when another process took over this one's identity.
	ErrFenced = errors.New("fenced by another process")
)
