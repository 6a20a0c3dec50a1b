package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/pipeline"
)

// Restorer gives a partition its memory back before its first verdict: from the
// newest good checkpoint and the changelog after it, and from the input where
// neither says what it has taught. Nothing of it is emitted. It implements
// [pipeline.Restorer]; several partitions are restored at once.
type Restorer struct {
	session     *Session
	checkpoints pipeline.Checkpoints // nil for none
	// out is the output as it was at the start. Where it takes larger records by
	// now, some are not learned, and their repeats pass.
	out output
	// turns bounds how many read at once: each holds some megabytes of records.
	turns chan struct{}
	// patience is how long a transaction on the changelog may take to end.
	patience time.Duration
	progress progress
	histories
}

var _ pipeline.Restorer = (*Restorer)(nil)

// NewRestorer makes the restorer of a session. Without checkpoints a restore reads
// the whole changelog.
func NewRestorer(s *Session, checkpoints pipeline.Checkpoints) *Restorer {
	return &Restorer{
		session: s, checkpoints: checkpoints, out: *s.found.outputs.out,
		turns: make(chan struct{}, max(2, runtime.GOMAXPROCS(0))), histories: newHistories(s),
		patience: max(openPatience, 2*s.cfg.TxnTimeout),
	}
}

// Restore implements [pipeline.Restorer].
func (r *Restorer) Restore(ctx context.Context, p pipeline.Partition, b pipeline.Builder) (pipeline.Restored, error) {
	ctx = r.session.aloud(ctx, p)
	past, err := r.past(ctx, p)
	if err != nil {
		return pipeline.Restored{}, r.refusal(p, err)
	}
	if past.begins {
		return r.begin(ctx, p, b, past.at.next)
	}
	course, err := past.course()
	if err != nil {
		return r.without(p, b, past.at, err)
	}
	r.tell(p, past, course)
	ends, err := r.check(ctx, p, course.next)
	if err != nil {
		return pipeline.Restored{}, err
	}
	// Only now: who waits for a transaction must not hold up who can read.
	select {
	case r.turns <- struct{}{}:
		defer func() { <-r.turns }()
	case <-ctx.Done():
		return pipeline.Restored{}, ctx.Err()
	}
	m := &memory{restorer: r, partition: p, builder: b, past: past, course: course, ends: ends}
	shard, err := m.restore(ctx)
	if err != nil {
		return pipeline.Restored{}, r.refusal(p, err)
	}
	r.tellWindow(p, course.state.Window.Slice, shard.State().Window.Slice)
	if course.why == notCommitted || course.why == offsetsExpired {
		// Now: where nothing more is written to the input there is no next commit, and
		// the group would look behind for as long.
		at := committed{next: course.next, metadata: shard.Position().Metadata}
		if err := r.session.commitStart(ctx, p, at); err != nil {
			return pipeline.Restored{}, errors.Join(err, shard.Close())
		}
	}
	return pipeline.Restored{Shard: shard, Next: course.next, LogEnd: past.log.stable, From: m.sources()}, nil
}

// aloud is a context for the questions about p that it cannot be read without.
func (s *Session) aloud(ctx context.Context, p pipeline.Partition) context.Context {
	return s.warn.aloud(ctx, "a partition cannot be read yet: the brokers do not answer for what it needs, trying again", "partition", p.String())
}

// fromNothing is the source of a memory that has seen nothing.
const fromNothing = "nothing"

// sources says where the memory came from.
func (m *memory) sources() string {
	var all []string
	if m.first < 0 {
		all = append(all, "checkpoint")
	}
	if m.past.last != nil && m.from < m.past.log.stable {
		all = append(all, "changelog")
	}
	if m.inputRead {
		all = append(all, "input")
	}
	if len(all) == 0 {
		return fromNothing
	}
	return strings.Join(all, "+")
}

// refusal is the error of a restore, with the way out where there is one.
func (r *Restorer) refusal(p pipeline.Partition, err error) error {
	anew := "use another --group, or begin anew with `streamdedup state reset`"
	if r.session.cfg.source != "" {
		anew = "use another --group" // reset knows one stage only
	}
	switch {
	case errors.Is(err, pipeline.ErrForeignState):
		return hinted("use the settings it was made with; to change them, "+anew, "restore %s: %w", p, err)
	case errors.Is(err, errOtherInput), errors.Is(err, errDamagedLog):
		return hinted(anew, "restore %s: %w", p, err)
	}
	var said *Error
	if errors.As(err, &said) || errors.Is(err, pipeline.ErrNotOurs) {
		return err
	}
	return fmt.Errorf("restore %s: %w", p, err)
}

// begin commits where p begins, with the metadata of a state that has seen
// nothing, before its first record is read: from then on the start is settled,
// and a state without metadata is one that was lost.
func (r *Restorer) begin(ctx context.Context, p pipeline.Partition, b pipeline.Builder, start int64) (pipeline.Restored, error) {
	shard, err := b.Fresh(false)
	if err != nil {
		return pipeline.Restored{}, err
	}
	shard.Begin(start)
	r.owns(p)
	err = r.session.commitStart(ctx, p, committed{next: start, metadata: shard.Position().Metadata})
	if err != nil {
		return pipeline.Restored{}, errors.Join(err, shard.Close())
	}
	r.session.log.Info("partition begins", "partition", p.String(), "offset", start)
	return pipeline.Restored{Shard: shard, Next: start, From: fromNothing}, nil
}

// without goes on without a state where that is allowed.
func (r *Restorer) without(p pipeline.Partition, b pipeline.Builder, at committed, cause error) (pipeline.Restored, error) {
	s := r.session
	switch {
	case !errors.Is(cause, pipeline.ErrNoState):
		return pipeline.Restored{}, r.refusal(p, cause)
	case !s.cfg.AllowColdStart:
		return pipeline.Restored{}, hinted("if duplicates may pass until the window is full again, add --allow-cold-start",
			"restore %s: group %q is at offset %d and its state is missing: %w", p, s.cfg.Group, at.next, cause)
	}
	shard, err := b.Fresh(true)
	if err != nil {
		return pipeline.Restored{}, fmt.Errorf("restore %s: %w", p, err)
	}
	s.log.Warn("cold start: duplicates of earlier records pass", "partition", p.String(), "offset", at.next)
	return pipeline.Restored{Shard: shard, Next: at.next, From: fromNothing}, nil
}

// ends are the first offset of a partition and the one after its last.
type ends struct{ start, end int64 }

// check refuses a position that the partition does not have any more: going on
// from another would skip or repeat records without a word.
func (r *Restorer) check(ctx context.Context, p pipeline.Partition, next int64) (ends, error) {
	adm := kadm.NewClient(r.session.admin)
	start, err := lookUp(ctx, adm.ListStartOffsets, p)
	if err != nil {
		return ends{}, fmt.Errorf("look for the start of %s: %w", p, err)
	}
	end, err := lookUp(ctx, adm.ListEndOffsets, p)
	if err != nil {
		return ends{}, fmt.Errorf("look for the end of %s: %w", p, err)
	}
	const move = "to go on without them, move the group with kafka-consumer-groups --reset-offsets"
	if next < start {
		return ends{}, hinted(move,
			"restore %s: records from offset %d to %d were deleted before they were read", p, next, start-1)
	}
	if next > end {
		return ends{}, hinted(move,
			"restore %s: group %q is at offset %d, but the partition ends at %d: it was made anew, or a broker lost records",
			p, r.session.cfg.Group, next, end)
	}
	return ends{start, end}, nil
}

// tell says what an operator must know of the way that a restore takes.
func (r *Restorer) tell(p pipeline.Partition, past past, c course) {
	log := r.session.log.With("partition", p.String(), "next", c.next)
	switch c.why {
	case offsetsExpired:
		log.Warn("the group has no offset, and the changelog has: the offsets expired, or were deleted; going on where the changelog ends")
	case movedForward:
		log.Warn("the group was moved forward: the records between were never judged, and teach nothing",
			"from", past.last.Next, "to", c.next-1)
	case movedBack:
		log.Warn("the group was moved back: what is known stays known, so records that are read again are duplicates; "+
			"`streamdedup state reset --replay` forgets it", "from", c.next, "to", past.last.Next-1)
	case notCommitted:
		log.Info("the output of the last cycle is durable, and its offsets were not committed: going on after it",
			"from", past.at.next)
	case tailLost:
		log.Warn("the changelog has lost its end: the records are learned from the input", "from", past.last.Next, "to", c.next-1)
	}
}

// tellWindow says that the window has another length than the one before. Of that
// only the length of a generation is known, which is some milliseconds longer.
func (r *Restorer) tellWindow(p pipeline.Partition, before, now int64) {
	if before == now {
		return
	}
	length := func(slice int64) time.Duration {
		d := time.Duration(slice*filter.Sealed) * time.Millisecond
		return max(d.Truncate(time.Second), min(d, time.Second))
	}
	r.session.log.Info("the window has another length: what is known is carried over",
		"partition", p.String(), "window_before", length(before), "window", length(now))
}
