package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/streamdedup/streamdedup/window"
)

// EngineConfig says how shards are run.
type EngineConfig struct {
	// Rules are how records are judged.
	Rules Config
	// Workers is how many goroutines judge; each owns whole shards. Outcomes do
	// not depend on it.
	Workers int
	// Pin says whether workers stay on processors of their own.
	Pin PinMode
	// CommitInterval is how long a cycle lasts: the latency that records see, and
	// what a crash makes the next process read again.
	CommitInterval time.Duration
	// Checkpoints take a copy of each shard's memory every CheckpointInterval, as
	// long as it changes. Nil is for none.
	Checkpoints        Checkpoints
	CheckpointInterval time.Duration
	// Logger gets what an operator must know. It is required.
	Logger *slog.Logger
	// Events are told what happened, from the engine's goroutine.
	Events Events
}

// Validate reports every fault at once, each with the name of its field.
func (c EngineConfig) Validate() error {
	faults := []error{c.Rules.Validate()}
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("pipeline.EngineConfig."+format, args...))
	}
	if c.Workers < 1 {
		fault("Workers is %d: at least one must judge", c.Workers)
	}
	if c.Pin > PinOff {
		fault("Pin is %d: want PinAuto, PinOn or PinOff", c.Pin)
	}
	if c.CommitInterval <= 0 {
		fault("CommitInterval is %v: a cycle must end", c.CommitInterval)
	}
	if c.Checkpoints != nil && c.CheckpointInterval <= 0 {
		fault("CheckpointInterval is %v: checkpoints need a pause between them", c.CheckpointInterval)
	}
	if c.Logger == nil {
		fault("Logger is nil")
	}
	return errors.Join(faults...)
}

// Events are callbacks of an engine; any may be nil. They run on the engine's
// goroutine and hold it up.
type Events struct {
	// Settled: a transaction ended. Took is how long the commit, or the abort and
	// the asking, took; oldest is the reading time of its first record in ms.
	Settled func(how Settlement, took time.Duration, counts *Counts, oldest int64)
	// Restored: a partition has its memory and is read from now on.
	Restored func(p Partition, took time.Duration)
	// Checkpointed: a checkpoint of so many bytes is durable, or there is none.
	Checkpointed func(p Partition, took time.Duration, bytes uint64, err error)
	// Unlearned: records of a partition were committed that its full generation
	// does not remember.
	Unlearned func(p Partition, records uint64)
}

// Engine runs cycles on a session: poll, judge, deliver, commit. Only its
// Snapshot may be called while Run runs.
type Engine struct {
	cfg      EngineConfig
	session  Session
	restorer Restorer
	workers  []*worker
	parts    map[Partition]*part
	totals   Counts
	settled  [Lost + 1]uint64
	restores beside[restore]
	open     cycle
	flying   []flight      // batches that are not delivered yet, in the order of reading
	away     int           // how many of them, the last ones, workers still have
	broken   error         // a worker's panic
	idle     time.Time     // when the last sweep of an idle engine was
	copying  *copying      // nil while no checkpoint is being made
	left     []*bodyWriter // that nobody waits for before the end
	freed    chan struct{} // closed when all memory is given back that was to be so far
	snapshot atomic.Pointer[Snapshot]
}

// part is what the engine knows of an assigned partition.
type part struct {
	name       Partition
	assignment uint64 // the epoch it was assigned under
	epoch      uint64 // the one its batches have now
	shard      *Shard // nil while it is restored
	worker     *worker
	halted     *Stop
	waits      error  // there was no memory for its filter
	moved      bool   // judged something in the open cycle
	counts     Counts // of the open cycle
	journal    uint64
	bytes      uint64
	slabs      int                // as last said
	cancel     context.CancelFunc // of the restore
	let        chan struct{}      // closed when the restore has no memory any more
	logged     int64              // where its changelog ends
	// checkpointed is when the last checkpoint began, checkpointNext where the
	// partition was at its end.
	checkpointed   time.Time
	checkpointNext int64
}

// cycle is what lies between two commits.
type cycle struct {
	begun   bool
	records int   // delivered, whatever their fate
	memory  int64 // that they take, as far as the source says
	oldest  int64 // reading time of the first batch, ms
	failed  error // why it must be aborted
}

// NewEngine makes an engine; nothing runs before Run.
func NewEngine(cfg EngineConfig, s Session, r Restorer) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("make engine: %w", err)
	}
	e := &Engine{cfg: cfg, session: s, restorer: r, parts: map[Partition]*part{}, freed: make(chan struct{})}
	close(e.freed)
	e.publish()
	return e, nil
}

// Run cycles until ctx ends, and then finishes the open cycle and leaves. It
// returns nil only after such a clean stop with no partition halted; otherwise
// why it cannot go on, or what halted.
func (e *Engine) Run(ctx context.Context) (err error) {
	e.workers = startWorkers(e.cfg.Workers, e.cfg.Pin)
	for _, w := range e.workers {
		if w.pinned != nil {
			e.cfg.Logger.Warn("a worker is not pinned", "error", w.pinned)
		}
	}
	e.restores = newBeside[restore]()
	defer func() {
		e.discard()
		for p := range e.parts {
			e.drop(p)
		}
		e.restores.wait(func(made restore) {
			if made.Shard != nil {
				_ = made.Shard.Close() // nobody is left to tell: the process ends
				close(made.let)
			}
		})
		<-e.freed
		e.awaitDisk()
		for _, w := range e.workers {
			w.stop()
		}
	}()
	for err == nil && ctx.Err() == nil {
		err = e.cycle(ctx)
	}
	e.publish()
	// A clean stop and a failure of ours let others take over at once. Whoever was
	// fenced has nothing to leave: the place is another's.
	leave := !errors.Is(err, ErrFenced)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return errors.Join(err, e.halted(), e.session.Close(closing, leave))
}

// closeTimeout bounds the goodbye: a broker, or a disk, that does not answer must not
// keep the process.
const closeTimeout = 10 * time.Second

// awaitDisk waits for the checkpoints that are on their way to the disk, unless that
// hangs: what they would be a restart does without.
func (e *Engine) awaitDisk() {
	patience := time.NewTimer(closeTimeout)
	defer patience.Stop()
	for _, w := range e.left {
		select {
		case <-w.done:
		case <-patience.C:
			e.cfg.Logger.Warn("the disk of the checkpoints does not answer: going without the last ones", "after", closeTimeout)
			return
		}
	}
}

// cycle is one cycle. Read this first: everything else is a verb of it.
func (e *Engine) cycle(ctx context.Context) error {
	end := time.Now().Add(e.cfg.CommitInterval)
	for {
		polled, err := e.session.Poll(ctx, e.patience(end))
		if err != nil && ctx.Err() == nil {
			return errors.Join(err, e.abort(ctx, err))
		}
		e.assign(ctx, polled)
		if err := e.adopt(ctx); err != nil {
			return errors.Join(err, e.end(ctx))
		}
		e.process(ctx, polled.Batches)
		if ctx.Err() != nil || e.open.failed != nil || !time.Now().Before(end) || e.full() {
			break
		}
	}
	if err := e.end(ctx); err != nil {
		return err
	}
	e.sweep()
	e.checkpoint()
	e.publish()
	e.session.Release()
	return e.allHalted()
}

// restorePatience is how long a poll may take while a partition is restored:
// its first record should not wait for the others' silence.
const restorePatience = 10 * time.Millisecond

// patience is how long the next poll of a cycle may wait.
func (e *Engine) patience(end time.Time) time.Duration {
	if len(e.flying) > 0 {
		return 0 // they wait to be delivered
	}
	left := max(0, time.Until(end))
	if e.restores.pending > 0 {
		return min(left, restorePatience)
	}
	return left
}

// flight is a batch that was given to a worker.
type flight struct {
	part  *part
	batch *Batch
}

// process hands new batches to the workers of their shards, and delivers those
// of the poll before while they work. When the poll brought nothing there is no
// next one to wait for, and all are delivered.
func (e *Engine) process(ctx context.Context, batches []*Batch) {
	before := len(e.flying)
	for _, b := range batches {
		for e.away == ringSize {
			e.land(ctx, 1)
			before--
		}
		e.launch(b)
	}
	if len(batches) == 0 {
		before = len(e.flying)
	}
	e.land(ctx, before)
}

// launch gives a batch to the worker of its shard, unless it was read under an
// assignment or a position that is no more.
func (e *Engine) launch(b *Batch) {
	p := e.parts[b.Partition]
	if e.open.failed != nil || p == nil || p.shard == nil || p.halted != nil || b.Epoch != p.epoch {
		return
	}
	p.worker.in.put(task{op: opProcess, shard: p.shard, batch: b})
	e.flying = append(e.flying, flight{p, b})
	e.away++
}

// land takes the first n batches back from their workers, in the order in which
// they were read, and delivers them.
func (e *Engine) land(ctx context.Context, n int) {
	n = max(0, n)
	e.takeBack(n)
	for _, f := range e.flying[:n] {
		if e.open.failed == nil && e.parts[f.part.name] == f.part {
			e.deliver(ctx, f.part, f.batch)
		}
	}
	e.flying = slices.Delete(e.flying, 0, n)
}

// takeBack waits until the workers are done with the first n batches.
func (e *Engine) takeBack(n int) {
	for back := len(e.flying) - e.away; back < n; back++ {
		p := e.flying[back].part
		t := p.worker.out.take()
		e.result(t)
		p.journal = t.journal
		e.away--
	}
}

// discard takes all batches back and delivers none: what was judged is about to be
// undone, or forgotten.
func (e *Engine) discard() {
	e.takeBack(len(e.flying))
	e.flying = slices.Delete(e.flying, 0, len(e.flying))
}

// deliver sends a judged batch on and counts it for the cycle.
func (e *Engine) deliver(ctx context.Context, p *part, b *Batch) {
	if !e.open.begun {
		e.open = cycle{begun: true, oldest: b.Now}
	}
	p.moved = true
	if err := e.session.Deliver(ctx, b); err != nil {
		e.open.failed = fmt.Errorf("deliver %s: %w", b.Partition, err)
		return
	}
	p.counts.Plus(&b.Counts)
	e.open.delivered(b)
	if b.Stopped != nil && p.halted == nil {
		e.halt(p, b.Stopped)
	}
}

// minJournal keeps small filters from committing all the time: it is what half a million
// new IDs a second write in 200 ms. A journal is no larger than what the cycle learned.
const minJournal = 8 << 20

// maxRecords and maxMemory are how many records a cycle may hold, and in how many
// bytes: a source keeps them all until it ends, and neither a long commit interval nor
// large records must cost memory without bound.
const (
	maxRecords = 1 << 20
	maxMemory  = 128 << 20
)

// delivered notes that a batch is in the cycle.
func (c *cycle) delivered(b *Batch) {
	c.records += len(b.Records)
	c.memory += b.Memory
}

// holdsEnough is whether no more must be taken into the cycle.
func (c *cycle) holdsEnough() bool { return c.records >= maxRecords || c.memory >= maxMemory }

// full is whether the cycle must end early: undoing it would need more than an
// eighth of a filter, or it holds enough records. Outcomes do not depend on where
// a cycle ends.
func (e *Engine) full() bool {
	if e.open.holdsEnough() {
		return true
	}
	for _, p := range e.parts {
		if p.journal > max(minJournal, p.bytes/8) {
			return true
		}
	}
	return false
}

// sweepInterval is how often an engine with nothing to read pays a step of the
// cleaning that rotations owe.
const sweepInterval = 100 * time.Millisecond

// sweep lets idle shards clean. What it does belongs to the next cycle.
func (e *Engine) sweep() {
	if e.open.begun || len(e.flying) > 0 || time.Since(e.idle) < sweepInterval {
		return
	}
	e.idle = time.Now()
	for _, p := range e.parts {
		if p.shard != nil && !p.moved {
			e.do(p, opSweep)
		}
	}
}

// do runs one operation on a shard and waits for it. Whatever its worker had before
// is done first.
func (e *Engine) do(p *part, op operation) {
	e.takeBack(len(e.flying))
	p.worker.in.put(task{op: op, shard: p.shard})
	e.result(p.worker.out.take())
}

// result takes note when a worker could not do its task: a retry would not heal it.
func (e *Engine) result(t task) {
	if t.err == nil {
		return
	}
	if bug := (*panicError)(nil); errors.As(t.err, &bug) {
		bug.log(e.cfg.Logger, t.shard.partition)
	}
	e.broken = fmt.Errorf("shard of %s: %w", t.shard.partition, t.err)
	e.open.failed = e.broken
}

// halt stops a partition before a record; the others go on.
func (e *Engine) halt(p *part, s *Stop) {
	p.halted = s
	e.session.Halt(p.name)
	args := []any{"partition", p.name.String(), "offset", s.Offset}
	if s.Reason != NoReason {
		args = append(args, "reason", s.Reason.words())
	}
	if s.Err != nil {
		args = append(args, "error", s.Err)
	}
	e.cfg.Logger.Error("partition stopped, the others go on", args...)
}

// halted is what stopped, as one error, in the order of the partitions.
func (e *Engine) halted() error {
	var stops []error
	for _, p := range slices.SortedFunc(maps.Keys(e.parts), Partition.compare) {
		if s := e.parts[p].halted; s != nil {
			stops = append(stops, s)
		}
	}
	return errors.Join(stops...)
}

// allHalted is an error when nothing is left to go on with.
func (e *Engine) allHalted() error {
	if len(e.parts) == 0 {
		return nil
	}
	for _, p := range e.parts {
		if p.halted == nil {
			return nil
		}
	}
	return errors.New("every partition has stopped")
}

// stats is read between cycles only, when no worker has the shard.
func (p *part) stats() window.Stats { return p.shard.Stats() }
