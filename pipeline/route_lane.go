package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/streamdedup/streamdedup/internal/keys"
)

// lane is what a router knows of an assigned source partition.
type lane struct {
	name       Partition
	assignment uint64 // the epoch it was assigned under
	epoch      uint64 // the one its batches have now
	located    bool
	cancel     context.CancelFunc // of the question where it goes on
	queue      []cargo            // read and not routed
	paused     bool
	stable     int64 // the last stable offset, as last heard, or unheard
	start, now routed
	told       string // the state that the group has of it
	moved      bool   // delivered something in the open cycle
	records    uint64 // so many
	halted     *Stop
	ending     *Stop // halted once the queue is empty
	refused    *Refusal
}

// unheard is the last stable offset of a lane before there is an answer: there may be
// any number of records to read, and the others wait until it is known.
const unheard = math.MaxInt64

// hear takes over a last stable offset. It never falls, an answer may come late.
func (l *lane) hear(stable int64) {
	if l.stable == unheard || stable > l.stable {
		l.stable = stable
	}
}

// routed is how far a lane is.
type routed struct {
	next  int64
	state RouteState
}

// cargo is a batch on its way, with the believed time of each record, zero where it
// has none. The batch's route is full already.
type cargo struct {
	batch *Batch
	times []int64
}

// held is whether records wait for other partitions.
func (l *lane) held() bool { return len(l.queue) > 0 }

// toCommit is whether the group must hear of l: it moved, or the others must know
// what it waits with, or that it waits for nothing more.
func (l *lane) toCommit() bool {
	return l.moved || l.located && (l.held() || l.halted != nil) && l.now.state.String() != l.told
}

// settled ends the open cycle for l.
func (l *lane) settled() { l.moved, l.records = false, 0 }

// assign follows a change of assignment.
func (r *Router) assign(ctx context.Context, polled Polled) {
	for _, p := range polled.Lost {
		r.lose(p)
	}
	for _, a := range polled.Assigned {
		r.lose(a.Partition)
		l := &lane{name: a.Partition, assignment: a.Epoch, epoch: a.Epoch, stable: unheard}
		r.lanes[a.Partition] = l
		r.order = append(r.order, l)
		slices.SortFunc(r.order, func(a, b *lane) int { return a.name.compare(b.name) })
		fresh := RouteState{Partitions: r.cfg.Partitions, Unread: true}
		l.cancel = r.locates.start(ctx, a, func(ctx context.Context) (Position, error) {
			return r.session.Locate(ctx, a.Partition, fresh.String())
		})
	}
	for _, s := range polled.Stopped {
		switch l := r.lanes[s.Partition]; {
		case l == nil || l.halted != nil:
		case l.held():
			l.ending = s // what lies before it is still to do
		default:
			r.halt(l, s)
		}
	}
}

// lose drops a partition that another may have from now on. What the open cycle has
// of it must not come out: the other reads it again.
func (r *Router) lose(p Partition) {
	l := r.lanes[p]
	if l == nil {
		return
	}
	if l.moved && r.open.failed == nil {
		r.open.failed = fmt.Errorf("partition %s was lost in the middle of a cycle", p)
	}
	r.drop(p)
	r.cfg.Logger.Info("partition lost by the router", "partition", p.String())
}

func (r *Router) drop(p Partition) {
	l := r.lanes[p]
	if l == nil {
		return
	}
	l.cancel()
	delete(r.lanes, p)
	r.order = slices.DeleteFunc(r.order, func(other *lane) bool { return other == l })
}

// adopt takes over the partitions of which is known where they go on.
func (r *Router) adopt(ctx context.Context) error {
	for {
		answer, ok := r.locates.next()
		if !ok {
			return nil
		}
		l := r.lanes[answer.assigned.Partition]
		if l == nil || l.assignment != answer.assigned.Epoch || l.located ||
			errors.Is(answer.err, ErrNotOurs) || answer.err != nil && ctx.Err() != nil {
			continue // lost meanwhile, or the router is stopping
		}
		if answer.err != nil {
			return failed("locate", l.name, answer.err, r.cfg.Logger)
		}
		state, err := r.state(answer.is)
		if err != nil {
			return err
		}
		l.now = routed{answer.is.Next, state}
		l.start, l.told, l.located = l.now, answer.is.Metadata, true
		l.epoch = r.session.Resume(l.name, l.now.next)
		r.cfg.Logger.Info("partition located", "partition", l.name.String(), "next", l.now.next)
	}
}

// state is how far a partition was when at was committed.
func (r *Router) state(at Position) (RouteState, error) {
	s, err := ParseRouteState(at.Metadata)
	switch {
	case errors.Is(err, ErrNoState):
		// Someone moved the group. Its records are in no doubt, its time is.
		r.cfg.Logger.Warn("the stream time of a partition is not known: the others wait for its first record",
			"partition", at.Partition.String(), "offset", at.Next)
		return RouteState{Partitions: r.cfg.Partitions, Unread: true}, nil
	case err != nil:
		return s, fmt.Errorf("locate %s: %w", at.Partition, err)
	case s.Partitions != r.cfg.Partitions:
		return s, fmt.Errorf("locate %s: IDs were shared out to %d partitions, now there are %d: those that move to another would pass once more: %w",
			at.Partition, s.Partitions, r.cfg.Partitions, ErrOtherTargets)
	}
	s.Stopped, s.Next = false, 0
	return s, nil
}

// load finds the way of each record of new batches.
func (r *Router) load(batches []*Batch) {
	for _, b := range batches {
		l := r.lanes[b.Partition]
		if r.open.failed != nil || l == nil || !l.located || l.halted != nil || b.Epoch != l.epoch {
			continue // read under an assignment or a position that is no more
		}
		c := cargo{batch: b, times: make([]int64, len(b.Records))}
		b.Route = make([]int32, len(b.Records))
		for i := range b.Records {
			record := &b.Records[i]
			b.Route[i] = b.Partition.Number % r.cfg.Partitions // so records without an ID keep their order
			if hash, found := r.extractor.Hash(record); found == keys.Found {
				b.Route[i] = int32(uint64(hash) % uint64(r.cfg.Partitions))
			}
			if t, ok := r.clock.Time(record, b.Now); ok && r.cfg.Rules.Window.Believes(t, b.Now) {
				c.times[i] = t
			}
		}
		l.queue = append(l.queue, c)
		l.hear(b.Stable)
	}
}

// upTo is how many records of its first batch l may send while its stream time must
// not pass limit, and why it can go no further after them, if it cannot.
func (l *lane) upTo(limit int64) (n int, stop *Stop) {
	c := &l.queue[0]
	limit = max(limit, l.now.state.Time)
	for i, t := range c.times {
		offset := c.batch.Offsets[i]
		refused := l.refused != nil && l.refused.Offset == offset
		if refused || c.batch.Oversize != nil && c.batch.Oversize[i] {
			stop := &Stop{Partition: l.name, Offset: offset, Reason: ReasonTooLarge}
			if refused {
				stop.Err = l.refused.Err
			}
			return i, stop
		}
		if t > limit {
			return i, nil
		}
	}
	return len(c.times), nil
}

// send delivers the first n records of l's first batch; what is left stays in the
// queue, unless the partition must stop there.
func (r *Router) send(ctx context.Context, l *lane, n int, stop *Stop) {
	c := l.queue[0]
	b := c.batch
	switch {
	case n == len(c.times):
		l.queue = l.queue[1:]
	case n > 0:
		rest := r.session.Split(b, n)
		rest.Route, b.Route = b.Route[n:], b.Route[:n]
		l.queue[0] = cargo{rest, c.times[n:]}
	}
	if n > 0 || len(c.times) == 0 {
		r.deliver(ctx, l, b)
		for _, t := range c.times[:n] {
			l.now.state.Time = max(l.now.state.Time, t)
		}
		l.now.state.Unread = l.now.state.Unread && n == 0
		l.now.next = b.Next
	}
	if stop == nil && !l.held() {
		stop = l.ending
	}
	if stop != nil {
		r.halt(l, stop)
	}
}

func (r *Router) deliver(ctx context.Context, l *lane, b *Batch) {
	if !r.open.begun {
		r.open = cycle{begun: true, oldest: b.Now}
	}
	l.moved = true
	if err := r.session.Deliver(ctx, b); err != nil {
		r.open.failed = fmt.Errorf("route %s: %w", b.Partition, err)
	}
	r.open.delivered(b)
	l.records += uint64(len(b.Records))
}

// halt stops a partition before a record; the others go on, and wait for it no more.
func (r *Router) halt(l *lane, s *Stop) {
	l.halted, l.ending = s, nil
	l.queue = nil
	l.now.state.Stopped, l.now.state.Next = true, 0
	r.session.Halt(l.name)
	r.cfg.Logger.Error("partition stopped before it was routed, the others go on",
		"partition", l.name.String(), "offset", s.Offset, "error", s)
}

// halted is what stopped, as one error.
func (r *Router) halted() error {
	var stops []error
	for _, l := range r.order {
		if l.halted != nil {
			stops = append(stops, l.halted)
		}
	}
	return errors.Join(stops...)
}

// allHalted is an error when nothing is left to go on with.
func (r *Router) allHalted() error {
	for _, l := range r.order {
		if l.halted == nil {
			return nil
		}
	}
	if len(r.order) == 0 {
		return nil
	}
	return errors.New("every partition has stopped")
}
