package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// compare orders partitions by topic, then number.
func (p Partition) compare(q Partition) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.Number, q.Number))
}

// assign follows a change of assignment. A partition that is named starts from
// nothing, also when it was ours before: another may have written meanwhile.
func (e *Engine) assign(ctx context.Context, polled Polled) {
	for _, p := range polled.Lost {
		e.lose(ctx, p)
	}
	for _, a := range polled.Assigned {
		e.lose(ctx, a.Partition)
		p := &part{name: a.Partition, assignment: a.Epoch, epoch: a.Epoch, worker: e.leastLoaded()}
		e.parts[a.Partition] = p
		p.cancel = e.restores.start(ctx, e.restorer, a, e.cfg.Rules)
	}
	for _, s := range polled.Stopped {
		if p := e.parts[s.Partition]; p != nil && p.halted == nil {
			e.halt(p, s)
		}
	}
}

// leastLoaded is the worker with the fewest partitions.
func (e *Engine) leastLoaded() *worker {
	load := make(map[*worker]int, len(e.workers))
	for _, p := range e.parts {
		load[p.worker]++
	}
	best := e.workers[0]
	for _, w := range e.workers {
		if load[w] < load[best] {
			best = w
		}
	}
	return best
}

// lose drops a partition that another may have from now on. What the open cycle
// has of it must not come out: the other reads it again.
func (e *Engine) lose(ctx context.Context, name Partition) {
	p := e.parts[name]
	if p == nil {
		return
	}
	if p.moved && e.open.failed == nil {
		e.open.failed = fmt.Errorf("partition %s was lost in the middle of a cycle", name)
	}
	delete(e.parts, name) // so that what its worker has is not delivered
	for slices.ContainsFunc(e.flying, func(f flight) bool { return f.part == p }) {
		e.land(ctx, 1)
	}
	e.free(p)
	e.cfg.Logger.Info("partition lost", "partition", name.String())
}

// drop forgets a partition, of which no worker has anything, and what it
// remembered.
func (e *Engine) drop(name Partition) {
	p := e.parts[name]
	if p == nil {
		return
	}
	delete(e.parts, name)
	e.free(p)
}

// free ends p's restore, or gives back the memory of its shard.
func (e *Engine) free(p *part) {
	p.cancel()
	e.forgetCopy(p)
	if p.shard != nil {
		e.close(p.name, p.shard)
	}
}

func (e *Engine) close(name Partition, s *Shard) {
	if err := s.Close(); err != nil {
		e.cfg.Logger.Warn("cannot give back the memory of a shard", "partition", name.String(), "error", err)
	}
}

// adopt takes over the shards whose restore has ended.
func (e *Engine) adopt(ctx context.Context) error {
	for {
		r, ok := e.restores.next()
		if !ok {
			return nil
		}
		p := e.parts[r.assigned.Partition]
		if p == nil || p.assignment != r.assigned.Epoch || p.shard != nil {
			// Lost meanwhile. What it would have been is another's to know.
			if r.err == nil {
				e.close(r.assigned.Partition, r.restored.Shard)
			}
			continue
		}
		if r.err != nil && ctx.Err() != nil {
			continue // the engine is stopping, and the restore gave up
		}
		if errors.Is(r.err, ErrNotOurs) {
			continue // the session will say so, too
		}
		if r.err != nil {
			return e.restoreFailed(p.name, r.err)
		}
		p.shard = r.restored.Shard
		p.shard.Begin(r.restored.Next)
		stats, ids := p.stats(), uint64(0)
		for _, load := range stats.Loads {
			ids += load
		}
		p.bytes = stats.Bytes
		p.logged = r.restored.LogEnd
		p.checkpointed, p.checkpointNext = time.Now(), r.restored.Next
		p.epoch = e.session.Resume(p.name, r.restored.Next)
		if e.cfg.Events.Restored != nil {
			e.cfg.Events.Restored(p.name, r.took)
		}
		e.cfg.Logger.Info("partition restored", "partition", p.name.String(),
			"took", r.took.Round(time.Microsecond), "from", r.restored.From, "ids", ids, "next", r.restored.Next)
	}
}

// restoreFailed is the error that a failed restore ends the engine with: a
// restorer's own says which partition it is about.
func (e *Engine) restoreFailed(p Partition, err error) error {
	if bug := (*panicError)(nil); errors.As(err, &bug) {
		bug.log(e.cfg.Logger, p)
		return fmt.Errorf("restore %s: %w", p, err)
	}
	return err
}

// restore is the end of one restore.
type restore struct {
	assigned Assigned
	restored Restored
	err      error
	took     time.Duration
}

// restores runs restores beside the engine: a partition that is being restored
// holds nobody up.
type restores struct {
	results chan restore
	group   *sync.WaitGroup
	pending int
}

// maxRestores bounds how many results wait to be taken; more restores wait.
const maxRestores = 64

func newRestores() restores {
	return restores{results: make(chan restore, maxRestores), group: &sync.WaitGroup{}}
}

// start restores a partition. The returned function gives up.
func (r *restores) start(ctx context.Context, from Restorer, a Assigned, rules Config) context.CancelFunc {
	ctx, cancel := context.WithCancel(ctx)
	r.pending++
	r.group.Add(1)
	go func() {
		defer r.group.Done()
		began := time.Now()
		restored, err := guarded(func() (Restored, error) {
			return from.Restore(ctx, a.Partition, builder{rules, a.Partition})
		})
		r.results <- restore{assigned: a, restored: restored, err: err, took: time.Since(began)}
	}()
	return cancel
}

func (r *restores) running() int { return r.pending }

// next is a restore that has ended, if there is one.
func (r *restores) next() (restore, bool) {
	select {
	case done := <-r.results:
		r.pending--
		return done, true
	default:
		return restore{}, false
	}
}

// wait waits for restores that were all told to give up, and gives back what they
// made.
func (r *restores) wait() {
	go func() {
		r.group.Wait()
		close(r.results)
	}()
	for done := range r.results {
		if done.restored.Shard != nil {
			// Nobody is left to tell: the process ends.
			_ = done.restored.Shard.Close()
		}
	}
}

// builder is the Builder of one partition.
type builder struct {
	rules     Config
	partition Partition
}

func (b builder) Fresh(cold bool) (*Shard, error) { return NewShard(b.rules, b.partition, cold) }

func (b builder) Rebuild(state State) (*Rebuild, error) {
	return NewRebuild(b.rules, b.partition, state)
}
