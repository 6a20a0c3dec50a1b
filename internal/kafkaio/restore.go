package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamdedup/streamdedup/pipeline"
)

// InputRestorer gives a partition its memory back by reading the input again:
// what the group's committed offset says was judged is learned, and nothing of it
// is emitted. It implements [pipeline.Restorer]; several partitions are restored
// at once.
type InputRestorer struct {
	session *Session
	// out is the output as it was at the start. Where it takes larger records by
	// now, some are not learned, and their repeats pass.
	out output

	// known are the topics' histories.
	mu    sync.Mutex
	known map[string]*history
}

var _ pipeline.Restorer = (*InputRestorer)(nil)

// history is what the group has had of a topic, as far as this process knows. It
// tells a partition that is new from a group that is.
type history struct {
	// began says that the group has had an offset of the topic that we did not
	// begin with. Then a partition that
	// has none is taken for new, and read from its beginning: of two instances that
	// start for the first time in the same moment, the second may read more than
	// --start latest asks for, but a new partition's records are not passed over.
	began bool
	// own are the partitions whose start is ours.
	own map[pipeline.Partition]bool
	// partitions is how many there were at the start.
	partitions int32
	// seen are partitions that the group has had an offset for.
	seen map[pipeline.Partition]bool
}

// NewInputRestorer makes the restorer of a session.
func NewInputRestorer(s *Session) *InputRestorer {
	return &InputRestorer{session: s, out: *s.found.outputs.out, known: map[string]*history{}}
}

// Restore implements [pipeline.Restorer].
func (r *InputRestorer) Restore(ctx context.Context, p pipeline.Partition, b pipeline.Builder) (pipeline.Restored, error) {
	at, begins, err := r.position(ctx, p)
	if err != nil {
		return pipeline.Restored{}, err
	}
	if begins {
		return r.begin(ctx, p, b, at.next)
	}
	ends, err := r.check(ctx, p, at)
	if err != nil {
		return pipeline.Restored{}, err
	}
	state, err := pipeline.ParseMetadata(at.metadata)
	if err != nil {
		return r.without(p, b, at, err)
	}
	rebuild, err := b.Rebuild(state)
	if err != nil {
		return r.without(p, b, at, err)
	}
	shard, err := r.rebuild(ctx, p, rebuild, at.next, ends)
	if err != nil {
		return pipeline.Restored{}, errors.Join(err, rebuild.Close())
	}
	return pipeline.Restored{Shard: shard, Next: at.next}, nil
}

// begin commits where p begins, with the metadata of a state that has seen
// nothing, before its first record is read: from then on the start is settled,
// and a state without metadata is one that was lost.
func (r *InputRestorer) begin(ctx context.Context, p pipeline.Partition, b pipeline.Builder, start int64) (pipeline.Restored, error) {
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
	return pipeline.Restored{Shard: shard, Next: start}, nil
}

// without goes on without a state where that is allowed.
func (r *InputRestorer) without(p pipeline.Partition, b pipeline.Builder, at committed, cause error) (pipeline.Restored, error) {
	s := r.session
	switch {
	case errors.Is(cause, pipeline.ErrForeignState):
		return pipeline.Restored{}, hinted("use the settings it was made with, or a new --group",
			"restore %s at offset %d: %w", p, at.next, cause)
	case !errors.Is(cause, pipeline.ErrNoState):
		return pipeline.Restored{}, fmt.Errorf("restore %s: %w", p, cause)
	case !s.cfg.AllowColdStart:
		return pipeline.Restored{}, hinted("if duplicates may pass until the window is full again, add --allow-cold-start",
			"restore %s: group %q is at offset %d and its state is missing: %w", p, s.cfg.Group, at.next, cause)
	}
	shard, err := b.Fresh(true)
	if err != nil {
		return pipeline.Restored{}, fmt.Errorf("restore %s: %w", p, err)
	}
	s.log.Warn("cold start: duplicates of earlier records pass", "partition", p.String(), "offset", at.next)
	return pipeline.Restored{Shard: shard, Next: at.next}, nil
}

// ends are the first and the last stable offset of a partition.
type ends struct{ start, stable int64 }

// check refuses a position that the partition does not have any more: going on
// from another would skip or repeat records without a word.
func (r *InputRestorer) check(ctx context.Context, p pipeline.Partition, at committed) (ends, error) {
	adm := kadm.NewClient(r.session.admin)
	start, err := lookUp(ctx, adm.ListStartOffsets, p)
	if err != nil {
		return ends{}, fmt.Errorf("look for the start of %s: %w", p, err)
	}
	end, err := lookUp(ctx, adm.ListEndOffsets, p)
	if err != nil {
		return ends{}, fmt.Errorf("look for the end of %s: %w", p, err)
	}
	const move = "to go on without them, move the group with kafka-consumer-groups --reset-offsets and add --allow-cold-start"
	if at.next < start {
		return ends{}, hinted(move,
			"restore %s: records from offset %d to %d were deleted before they were read", p, at.next, start-1)
	}
	if at.next > end {
		return ends{}, hinted(move,
			"restore %s: group %q is at offset %d, but the partition ends at %d: it was made anew, or a broker lost records",
			p, r.session.cfg.Group, at.next, end)
	}
	return ends{start, end}, nil
}

// rebuild reads what the state must know.
func (r *InputRestorer) rebuild(ctx context.Context, p pipeline.Partition, rebuild *pipeline.Rebuild, next int64, e ends) (*pipeline.Shard, error) {
	s := r.session
	from := rebuild.From()
	if from < 0 || from >= next {
		return rebuild.Done(from, next), nil // there is nothing to learn
	}
	first := max(from, e.start)
	if first > from {
		if first == next && !s.cfg.AllowColdStart {
			return nil, hinted("if duplicates may pass until the window is full again, add --allow-cold-start",
				"restore %s: nothing is left of the records that its state needs, offsets %d to %d", p, from, next-1)
		}
		s.log.Warn("the input has lost a part of what the window must know: duplicates of it pass",
			"partition", p.String(), "from", from, "to", first-1)
	}
	// What was too large when it was read has not come out, whatever fits by now.
	out := r.out
	if limit := rebuild.SizeLimit(); limit > 0 {
		out.maxBytes = int32(min(limit, int64(out.maxBytes)))
	}
	read := newReader(s.admin, s.found.inputs[p.Topic].id, p, first)
	src := &source{}
	for read.next < next {
		records, err := read.read(ctx)
		if errors.Is(err, kerr.OffsetOutOfRange) {
			// Retention is faster than we are.
			if first, err = lookUp(ctx, kadm.NewClient(s.admin).ListStartOffsets, p); err == nil && first > read.next && first <= next {
				s.log.Warn("the input loses records while they are restored: duplicates of them pass",
					"partition", p.String(), "from", read.next, "to", first-1)
				read.next = first
				continue
			}
			err = errors.Join(err, fmt.Errorf("offset %d is not in the partition any more", read.next))
		}
		if err != nil {
			return nil, fmt.Errorf("restore %s from the input: %w", p, err)
		}
		for len(records) > 0 && records[len(records)-1].Offset >= next {
			records = records[:len(records)-1]
		}
		rebuild.Learn(src.views(records, s.cfg.Headers, &out))
	}
	if n := rebuild.Unlearned(); n > 0 {
		s.log.Warn("records found their generation full while it was restored: repeats of them pass",
			"partition", p.String(), "records", n)
	}
	return rebuild.Done(first, next), nil
}

// position is where p goes on, or, with begins, where it begins.
func (r *InputRestorer) position(ctx context.Context, p pipeline.Partition) (at committed, begins bool, err error) {
	for try := 0; ; try++ {
		got, err := r.session.committed(ctx)
		if err != nil {
			return committed{}, false, err
		}
		h := r.look(p, got)
		if at := got.of(p); at.next >= 0 {
			return at, false, nil
		}
		// No offset can be the answer of a coordinator that is not ready; of one that
		// we know to exist it is.
		seen := r.wasSeen(p)
		if seen {
			r.session.warn.warn("the group has no offset for a partition that it had one for, asking again", "partition", p.String())
		}
		if seen || try == 0 {
			if err := pause(ctx, none); err != nil {
				return committed{}, false, err
			}
			continue
		}
		start := r.session.cfg.Start
		if h.began || p.Number >= h.partitions {
			start = Start{}
		}
		next, err := start.offset(ctx, kadm.NewClient(r.session.admin), p)
		return committed{next: next}, true, err
	}
}

func (r *InputRestorer) wasSeen(p pipeline.Partition) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[p.Topic].seen[p]
}

// look notes what the group has of p's topic.
func (r *InputRestorer) look(p pipeline.Partition, got offsets) history {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.known[p.Topic]
	if h == nil {
		h = &history{
			own:        map[pipeline.Partition]bool{},
			partitions: r.session.found.inputs[p.Topic].partitions,
			seen:       map[pipeline.Partition]bool{},
		}
		r.known[p.Topic] = h
	}
	for q, at := range got {
		if q.Topic == p.Topic && at.next >= 0 {
			h.seen[q] = true
			h.began = h.began || !h.own[q]
		}
	}
	return *h
}

// owns notes that p's start is ours.
func (r *InputRestorer) owns(p pipeline.Partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[p.Topic].own[p] = true
}
