package pipeline

import (
	"errors"
	"fmt"
	"io"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/window"
)

// Rebuild makes a shard again from its state and what it had learned: a
// checkpoint, the changelog, and the input where those have gaps. It judges nothing,
// emits nothing and counts nothing. In doubt it does not learn, so that a record
// passes: from the input it leaves out what a policy may have kept from the output.
//
// Use: [Builder.Rebuild]; Load, if there is a checkpoint; Learn and LearnChange in
// any order; then Done. It has one owner.
type Rebuild struct {
	shard  *Shard
	window *window.Rebuilder
	learn  [chunk]bool
	// unsampled: it learned what the sample does not know of.
	unsampled bool
}

// NewRebuild prepares to make the shard of p with that state. Its errors do not
// name p: who asked does.
func NewRebuild(cfg Config, p Partition, state State) (*Rebuild, error) {
	s, err := newShard(cfg, p)
	if err != nil {
		return nil, err
	}
	if err := state.check(s.print); err != nil {
		return nil, errors.Join(err, s.set.Close())
	}
	rebuilder, err := window.Rebuild(s.rules.window(), s.set, state.Window)
	if err != nil {
		return nil, errors.Join(err, s.set.Close())
	}
	s.limit = state.Limit
	return &Rebuild{shard: s, window: rebuilder}, nil
}

// Load takes the memory that a checkpoint holds. After an error the Rebuild is of
// no use any more: close it.
func (r *Rebuild) Load(head *CheckpointHead, body io.Reader) error {
	s := r.shard
	if err := head.State.check(s.print); err != nil {
		return err
	}
	size, loads := filter.Loads(s.set, head.Geometry)
	if !loads {
		return fmt.Errorf("the filter was %s, now it is %s: %w", head.Geometry, s.set.Geometry(), ErrForeignState)
	}
	if err := s.set.Load(head.SetHead, io.LimitReader(body, int64(size))); err != nil {
		return err
	}
	stored, err := s.sample.load(body)
	if err != nil {
		return err
	}
	r.unsampled = r.unsampled || !stored
	return r.window.Loaded(head.State.Window.Rotation, head.Added)
}

// From is the first offset of the input that matters, -1 when none does.
func (r *Rebuild) From() int64 { return r.window.From() }

// Learn takes records of the input, in offset order. Of b it reads the
// records, their offsets, and which are too large for the output.
func (r *Rebuild) Learn(b *Batch) {
	r.unsampled = true
	for from := 0; from < len(b.Records); from += chunk {
		r.chunk(b, from, min(from+chunk, len(b.Records)))
	}
}

func (r *Rebuild) chunk(b *Batch, from, to int) {
	ids := &r.shard.scratch.found
	// Under --time arrival the time of the first reading is gone, and none stands for
	// it. The record was not late then: that clock is the stream's own.
	r.shard.find(b.Records[from:to], window.NoTime, ids)
	learn := r.learn[:to-from]
	for i, found := range ids.found {
		// Which copy of an allowed ID was let through the input does not say.
		learn[i] = found == keys.Found && (b.Oversize == nil || !b.Oversize[from+i]) && !r.shard.allow.has(ids.hashes[i])
	}
	r.window.Learn(b.Offsets[from:to], ids.times, ids.hashes, learn)
}

// LearnChange takes a change, or a part of one. It fails with [ErrForeignState]
// for one of another configuration.
func (r *Rebuild) LearnChange(c *Change) error {
	if err := c.State.check(r.shard.print); err != nil {
		return err
	}
	for _, learned := range c.Learned {
		run := window.Run{Rotation: learned.Rotation, Until: learned.Until}
		r.window.LearnRun(run, learned.Hashes)
		if rotation, live := r.window.RotationOf(run); live {
			r.shard.sample.refill(rotation, learned.Hashes)
		}
	}
	return nil
}

// Gap says that the input was learned from where the changelog should have had it and
// has not: the shard's first change will say so.
func (r *Rebuild) Gap() { r.shard.gap = true }

// Done is the shard, which goes on at next. FirstKnown is the first offset whose
// teaching is known: where it lies after From, a part of what the shard should know
// is lost, and its coverage of the window is below 1.
func (r *Rebuild) Done(firstKnown, next int64) *Shard {
	s := r.shard
	s.window = r.window.Done(firstKnown)
	s.sample.refilled(s.window.State().Rotation, !r.unsampled)
	s.Begin(next)
	return s
}

// SizeLimit is the least limit of the output's record size that counted for what
// is learned, in the source's own measure, zero where none is known. What is larger
// than that, or than today's limit, must be marked as oversize: it may never have
// come out.
func (r *Rebuild) SizeLimit() int64 { return r.shard.limit.least() }

// Unlearned is how many hashes found their generation full: repeats of them pass.
func (r *Rebuild) Unlearned() uint64 { return r.window.Unlearned() }

// Close gives the memory back when the rebuild is given up.
func (r *Rebuild) Close() error { return r.shard.Close() }

// Rewind is s for a stream whose reading goes on at an earlier offset on purpose.
func (s State) Rewind(next int64) State {
	s.Window = s.Window.Rewind(next)
	return s
}

// Forward is s for a stream whose reading goes on at a later offset on purpose.
func (s State) Forward(next int64) State {
	s.Window = s.Window.Forward(next)
	return s
}

// checkpointHead is the head of a checkpoint whose body was copied by now, but for
// what the caller knows of its beginning, and of the changelog.
func (s *Shard) checkpointHead() CheckpointHead {
	return CheckpointHead{
		Partition: s.partition,
		State:     s.State(),
		Next:      s.next,
		Geometry:  s.set.Geometry(),
		SetHead:   s.set.AppendHead(nil),
		BodyBytes: s.set.BodyBytes(),
	}
}

// copyBody appends a part of the body.
func (s *Shard) copyBody(b []byte, from, to uint64) []byte { return s.set.AppendBody(b, from, to) }
