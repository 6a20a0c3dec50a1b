package pipeline

import (
	"errors"
	"fmt"

	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/window"
)

// Rebuild makes a shard again from the metadata of a committed offset and the
// input that came before it. It judges nothing, emits nothing and counts
// nothing. In doubt it does not learn, so that a record passes: it leaves out
// what a policy may have kept from the output.
//
// Use: [Builder.Rebuild], then Learn for the records from From up to the
// committed offset, then Done. It has one owner.
type Rebuild struct {
	shard  *Shard
	window *window.Rebuilder
	learn  [chunk]bool
}

// NewRebuild prepares to make the shard of p from metadata. Its errors do not name
// p: who asked does.
func NewRebuild(cfg Config, p Partition, metadata string) (*Rebuild, error) {
	s, err := newShard(cfg, p)
	if err != nil {
		return nil, err
	}
	state, limit, err := parseMetadata(metadata, s.print)
	if err != nil {
		return nil, errors.Join(err, s.set.Close())
	}
	if want := s.rules.window().Slice(); state.Slice != want {
		return nil, errors.Join(fmt.Errorf("the window was changed: generations were %d ms long, now %d ms: %w",
			state.Slice, want, ErrForeignState), s.set.Close())
	}
	rebuilder, err := window.Rebuild(s.rules.window(), s.set, state)
	if err != nil {
		return nil, errors.Join(err, s.set.Close())
	}
	s.limit = limit
	return &Rebuild{shard: s, window: rebuilder}, nil
}

// From is the first offset to learn, -1 when there is nothing to learn.
func (r *Rebuild) From() int64 { return r.window.From() }

// Learn takes the next records of the input, in offset order. Of b it reads the
// records, their offsets, and which are too large for the output.
func (r *Rebuild) Learn(b *Batch) {
	for from := 0; from < len(b.Records); from += chunk {
		r.chunk(b, from, min(from+chunk, len(b.Records)))
	}
}

func (r *Rebuild) chunk(b *Batch, from, to int) {
	x := &r.shard.scratch
	n := to - from
	for i := range n {
		record := &b.Records[from+i]
		hash, found := r.shard.extractor.Hash(record)
		x.offsets[i], x.hashes[i], x.times[i] = b.Offsets[from+i], hash, window.NoTime
		r.learn[i] = found == keys.Found && (b.Oversize == nil || !b.Oversize[from+i])
		if r.shard.clock == nil {
			continue
		}
		// Under --time arrival the time of the first reading is gone. It was not
		// late then: that clock is the stream's own.
		if t, ok := r.shard.clock.Time(record, window.NoTime); ok {
			x.times[i] = t
		}
	}
	r.window.Learn(x.offsets[:n], x.times[:n], x.hashes[:n], r.learn[:n])
}

// Done is the shard, which goes on at next. FirstKnown is the first offset that
// could be read: where it lies after From, retention has deleted a part of what
// the shard should know, and its coverage of the window is below 1.
func (r *Rebuild) Done(firstKnown, next int64) *Shard {
	s := r.shard
	s.window = r.window.Done(firstKnown)
	s.Begin(next)
	return s
}

// SizeLimit is the least limit of the output's record size that counted for what
// is learned, in the source's own measure, zero where none is known. What is larger
// than that, or than today's limit, must be marked as oversize: it may never have
// come out.
func (r *Rebuild) SizeLimit() int64 { return r.shard.limit.least() }

// Unlearned is how many records found their generation full: repeats of them
// pass.
func (r *Rebuild) Unlearned() uint64 { return r.window.Unlearned() }

// Close gives the memory back when the rebuild is given up.
func (r *Rebuild) Close() error { return r.shard.Close() }
