package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/streamdedup/streamdedup/internal/keys"
)

// RouteSession is the Session of a stage that shares records out by their IDs. What
// is delivered goes to the partitions in [Batch.Route], whatever its outcomes.
type RouteSession interface {
	Session
	// Locate is where p goes on, with the metadata that was committed beside it,
	// empty where someone else moved the group. It commits fresh beside the start of
	// a partition that begins. It is called in a goroutine of its own.
	Locate(ctx context.Context, p Partition, fresh string) (Position, error)
	// Split cuts b before record i and returns the rest, which follows b.
	Split(b *Batch, i int) *Batch
	// Pause stops fetching p until Continue. What was handed over stays good.
	Pause(p Partition)
	// Continue goes on fetching after a Pause.
	Continue(p Partition)
	// Survey is what was last heard of all partitions of the input, nil before the
	// first answer. It does not change. Hurry says that we wait for others: it should
	// be asked for more often.
	Survey(hurry bool) *Survey
}

// Survey is what the brokers say of an input.
type Survey struct{ Sources []Source }

// Source is one partition of an input as the brokers see it.
type Source struct {
	Partition Partition
	// Next is what the group has committed, or where the log begins, and Metadata
	// what was committed beside it.
	Next     int64
	Metadata string
	// Stable is the last stable offset.
	Stable int64
}

// RouterConfig says how records are shared out.
type RouterConfig struct {
	// Rules are those of the shards that judge what is routed: of them the router
	// takes the ID, the time and the window.
	Rules Config
	// Partitions is how many partitions there are to share out to.
	Partitions int32
	// CommitInterval is how long a cycle lasts.
	CommitInterval time.Duration
	// Logger gets what an operator must know. It is required.
	Logger *slog.Logger
}

// Validate reports every fault at once, each with the name of its field.
func (c RouterConfig) Validate() error {
	faults := []error{c.Rules.Validate()}
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("pipeline.RouterConfig."+format, args...))
	}
	if c.Rules.Time == TimeNone {
		fault("Rules.Time is none: nothing says which partition is behind")
	}
	if c.Partitions < 1 {
		fault("Partitions is %d: at least one must take the records", c.Partitions)
	}
	if c.CommitInterval <= 0 {
		fault("CommitInterval is %v: a cycle must end", c.CommitInterval)
	}
	if c.Logger == nil {
		fault("Logger is nil")
	}
	return errors.Join(faults...)
}

// Router is the first stage of a [ScopeTopic]: it sends all copies of an ID to one
// partition, whichever they were read from, and judges nothing. It holds back a
// source partition whose stream time is more than a slice ahead of the slowest that
// has something left to read: so what the shards behind it take for the stream's
// time suits all partitions alike, however far their consumers lag.
//
// A source partition that is caught up, or behind an open transaction, or stopped,
// or without a believed time holds nobody back. The one with the earliest next
// record is never held, so one always moves.
//
// Only its Snapshot may be called while Run runs.
type Router struct {
	cfg       RouterConfig
	session   RouteSession
	extractor *keys.Extractor
	clock     *keys.Clock
	slice     int64 // how far ahead a partition may be, in ms; zero is any

	lanes    map[Partition]*lane
	order    []*lane // the same, in order
	locates  beside[Position]
	open     cycle
	blocked  bool // all that is read waits for other instances
	survey   *Survey
	foreign  []foreign // of the survey
	routed   uint64
	settled  [Lost + 1]uint64
	snapshot atomic.Pointer[RouteSnapshot]
}

// NewRouter makes a router; nothing runs before Run.
func NewRouter(cfg RouterConfig, s RouteSession) (*Router, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("make router: %w", err)
	}
	r := &Router{cfg: cfg, session: s, lanes: map[Partition]*lane{}}
	var err error
	if r.extractor, err = keys.Parse(cfg.Rules.Keys, cfg.Rules.Seed, cfg.Rules.IDs); err != nil {
		return nil, fmt.Errorf("make router: %w", err)
	}
	if r.clock, err = keys.ParseClock(cfg.Rules.Time, cfg.Rules.TimeFormat, cfg.Rules.IDs.Table); err != nil {
		return nil, fmt.Errorf("make router: %w", err)
	}
	if cfg.Rules.Time != timeArrival { // that clock is the same for all
		r.slice = cfg.Rules.Window.Slice()
	}
	r.publish()
	return r, nil
}

// timeArrival as [Config.Time] is the wall clock.
const timeArrival = "arrival"

// Run cycles until ctx ends, and then finishes the open cycle and leaves. It
// returns nil only after such a clean stop with no partition stopped.
func (r *Router) Run(ctx context.Context) (err error) {
	r.locates = newBeside[Position]()
	defer func() {
		for _, l := range r.order {
			l.cancel()
		}
		r.locates.wait(func(Position) {})
	}()
	for err == nil && ctx.Err() == nil {
		err = r.cycle(ctx)
	}
	r.publish()
	leave := !errors.Is(err, ErrFenced)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return errors.Join(err, r.halted(), r.session.Close(closing, leave))
}

// cycle is one cycle: poll, share out as far as nobody is left behind, commit.
func (r *Router) cycle(ctx context.Context) error {
	end := time.Now().Add(r.cfg.CommitInterval)
	for {
		polled, err := r.session.Poll(ctx, r.patience(end))
		if err != nil && ctx.Err() == nil {
			return errors.Join(err, r.abort(ctx, err))
		}
		r.assign(ctx, polled)
		if err := r.adopt(ctx); err != nil {
			return errors.Join(err, r.end(ctx))
		}
		r.load(polled.Batches)
		sent := r.route(ctx)
		if ctx.Err() != nil || r.open.failed != nil || r.open.holdsEnough() || !time.Now().Before(end) {
			break
		}
		// Others may wait for what we have done as we wait for them.
		if r.blocked && !sent && r.open.begun {
			break
		}
	}
	if err := r.end(ctx); err != nil {
		return err
	}
	r.publish()
	r.session.Release()
	return r.allHalted()
}

// patience is how long the next poll may wait.
func (r *Router) patience(end time.Time) time.Duration {
	left := max(0, time.Until(end))
	if r.blocked || r.locates.pending > 0 {
		return min(left, restorePatience) // no record tells when it is over
	}
	return left
}

// end ends the open cycle: by a commit when all went well, else by an abort.
func (r *Router) end(ctx context.Context) error {
	if r.open.failed != nil {
		return r.abort(ctx, r.open.failed)
	}
	var positions []Position
	for _, l := range r.order {
		if l.toCommit() {
			positions = append(positions, Position{Partition: l.name, Next: l.now.next, Metadata: l.now.state.String()})
		}
	}
	if len(positions) == 0 {
		return nil
	}
	result, err := r.session.Commit(context.WithoutCancel(ctx), positions)
	if err != nil {
		return fmt.Errorf("commit what was routed: %w", err)
	}
	r.settle(result)
	return nil
}

func (r *Router) abort(ctx context.Context, cause error) error {
	r.cfg.Logger.Warn("cycle of the router aborted", "cause", cause)
	result, err := r.session.Abort(context.WithoutCancel(ctx))
	if err != nil {
		return fmt.Errorf("abort what was routed: %w", err)
	}
	r.settle(result)
	return nil
}

// settle brings the lanes to what the transaction's end made true.
func (r *Router) settle(result CommitResult) {
	switch result.Settlement {
	case Committed:
		for _, l := range r.order {
			if l.toCommit() {
				l.told = l.now.state.String()
			}
			r.routed += l.records
			l.settled()
			l.start = l.now
		}
	case Aborted:
		if result.Cause != nil {
			r.cfg.Logger.Warn("transaction of the router aborted, its records are read again", "cause", result.Cause)
		}
		for _, l := range r.order {
			r.rollback(l, result.Epochs)
		}
		for _, refusal := range result.Refused {
			if l := r.lanes[refusal.Partition]; l != nil {
				l.refused = &refusal
			}
		}
	case Lost:
		r.cfg.Logger.Warn("session of the router lost, every partition is located anew", "cause", result.Cause)
		for p := range r.lanes {
			r.drop(p)
		}
	}
	for _, p := range result.Gone {
		r.drop(p)
	}
	r.open = cycle{}
	r.settled[result.Settlement]++
}

// rollback takes l back to where the cycle began.
func (r *Router) rollback(l *lane, epochs map[Partition]uint64) {
	stop := cmp.Or(l.halted, l.ending)
	again := stop != nil && l.located && (l.moved || l.start.next < stop.Offset)
	l.now = l.start
	l.queue = nil
	l.settled()
	if epoch, ok := epochs[l.name]; ok {
		l.epoch = epoch
	}
	if l.paused {
		l.paused = false
		r.session.Continue(l.name)
	}
	if again {
		l.halted, l.ending = nil, nil
		l.epoch = r.session.Resume(l.name, l.now.next)
	}
}

// RouteSnapshot is what a router was after its last cycle. It does not change.
type RouteSnapshot struct {
	// Routed is how many records it committed.
	Routed uint64
	// Settled is how many transactions ended how, by [Settlement].
	Settled [Lost + 1]uint64
	// Partitions are the assigned ones, in order.
	Partitions []RoutedPartition
}

// RoutedPartition is one assigned source partition.
type RoutedPartition struct {
	Partition Partition
	// Located: it is known where it goes on, and it is read.
	Located bool
	// Held: it waits for slower partitions.
	Held bool
	// Stopped is why it goes no further, nil if it does.
	Stopped *Stop
	// Time is its stream time in milliseconds, zero before there is one.
	Time int64
}

// Snapshot is the state after the last cycle. It may be called at any time, from
// any goroutine.
func (r *Router) Snapshot() *RouteSnapshot { return r.snapshot.Load() }

func (r *Router) publish() {
	s := &RouteSnapshot{Routed: r.routed, Settled: r.settled}
	for _, l := range r.order {
		s.Partitions = append(s.Partitions, RoutedPartition{
			Partition: l.name, Located: l.located, Held: len(l.queue) > 0, Stopped: l.halted, Time: l.now.state.Time,
		})
	}
	r.snapshot.Store(s)
}
