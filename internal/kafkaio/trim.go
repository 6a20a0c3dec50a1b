package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/streamdedup/streamdedup/pipeline"
)

// logTrimmer deletes from the changelog what the window has forgotten. Nothing else
// does: the topic keeps everything, for as long as the stream stands still. Only the
// owner of a partition trims it, by the stream time that it has committed.
type logTrimmer struct {
	session *Session
	cancel  context.CancelFunc
	done    chan struct{}

	mu    sync.Mutex
	parts map[pipeline.Partition]*trimmed
}

// trimmed is how far a partition is: the rotation that is committed, and the one by
// which it was trimmed last.
type trimmed struct {
	committed, last uint64
	tried           bool
}

// logTrimInterval is how often it is looked what can be deleted. A generation lasts a
// seventh of the window, so mostly nothing.
const logTrimInterval = 10 * time.Second

func (s *Session) trimLogs() *logTrimmer {
	ctx, cancel := context.WithCancel(context.Background())
	t := &logTrimmer{session: s, cancel: cancel, done: make(chan struct{}), parts: map[pipeline.Partition]*trimmed{}}
	go func() {
		defer close(t.done)
		for pause(ctx, logTrimInterval) == nil {
			t.round(ctx)
		}
	}()
	return t
}

func (t *logTrimmer) close() {
	t.cancel()
	<-t.done
}

// committed notes a change that is committed.
func (t *logTrimmer) committed(p pipeline.Partition, c *pipeline.Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.parts[p]
	if at == nil {
		at = &trimmed{}
		t.parts[p] = at
	}
	at.committed = c.State.Window.Rotation
}

func (t *logTrimmer) forget(p pipeline.Partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.parts, p)
}

// round trims the partitions that have begun a generation since they were.
func (t *logTrimmer) round(ctx context.Context) {
	t.mu.Lock()
	due := map[pipeline.Partition]uint64{}
	for p, at := range t.parts {
		if !at.tried || at.last != at.committed {
			at.tried, at.last = true, at.committed
			due[p] = at.committed
		}
	}
	t.mu.Unlock()
	for p, rotation := range due {
		if err := t.session.trimLog(ctx, p, rotation); err != nil && ctx.Err() == nil {
			t.session.warn.warn("cannot trim the changelog: it grows until that is possible", "partition", p.String(), "error", err)
		}
	}
}

// trimLog deletes the changes before the first one that a window at that rotation
// still knows something of.
func (s *Session) trimLog(ctx context.Context, p pipeline.Partition, rotation uint64) error {
	ctx, cancel := context.WithTimeout(ctx, trimTimeout)
	defer cancel()
	bounds, err := s.logBounds(ctx, p)
	if err != nil {
		return err
	}
	dead, err := s.halve(ctx, p, bounds, rotation)
	if errors.Is(err, errUnordered) {
		dead, err = s.deadBefore(ctx, p, bounds, rotation)
	}
	if err != nil {
		return err
	}
	if dead == bounds.start {
		return nil
	}
	log := s.found.changelogs[p.Topic].name
	var before kadm.Offsets
	before.Add(kadm.Offset{Topic: log, Partition: p.Number, At: dead})
	answers, err := kadm.NewClient(s.admin).DeleteRecords(ctx, before)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		return fmt.Errorf("delete records of %s/%d before offset %d: %w", log, p.Number, dead, err)
	}
	s.log.Debug("changelog trimmed", "partition", p.String(), "from", bounds.start, "to", dead-1)
	return nil
}

// errUnordered is the error of a search in changes that need not be in the order of
// their rotations.
var errUnordered = errors.New("changes out of order")

// halve finds the end of what is forgotten: no record of which change lies where has
// to be kept. In transactions of the owner the changes are in the order of their
// rotations. Where they were acknowledged, a process that had lost the partition may
// have written between those of its owner.
func (s *Session) halve(ctx context.Context, p pipeline.Partition, bounds logBounds, rotation uint64) (dead int64, err error) {
	dead, live := bounds.start, bounds.stable
	for dead < live {
		middle := dead + (live-dead)/2
		change, next, err := s.changeAt(ctx, p, middle, live)
		switch {
		case err != nil:
			return 0, err
		case change != nil && change.Acknowledged:
			return 0, errUnordered
		case change != nil && change.State.Window.Forgotten(rotation):
			dead = next
		default:
			live = middle
		}
	}
	return dead, nil
}

// deadBefore reads until the first change that is not forgotten.
func (s *Session) deadBefore(ctx context.Context, p pipeline.Partition, bounds logBounds, rotation uint64) (dead int64, err error) {
	dead = bounds.start
	for r := s.readLog(p, bounds.start); r.next < bounds.stable; {
		changes, err := r.changes(ctx, bounds.stable)
		if err != nil {
			return 0, err
		}
		for _, c := range changes {
			switch {
			case !c.last:
			case !c.State.Window.Forgotten(rotation):
				return dead, nil
			default:
				dead = c.offset + 1
			}
		}
	}
	return dead, nil
}

// trimTimeout is enough for some dozens of questions, or for reading a slice's changes.
const trimTimeout = time.Minute

// changeAt is the first change that ends at an offset or after it, and before end,
// and the offset after it, nil if there is none.
func (s *Session) changeAt(ctx context.Context, p pipeline.Partition, offset, end int64) (c *pipeline.Change, next int64, err error) {
	r := s.readLog(p, offset)
	r.bytes = peekBytes
	for r.next < end {
		changes, err := r.changes(ctx, end)
		if err != nil {
			return nil, 0, err
		}
		for i := range changes {
			if changes[i].last {
				return &changes[i].Change, changes[i].offset + 1, nil
			}
		}
	}
	return nil, end, nil
}
