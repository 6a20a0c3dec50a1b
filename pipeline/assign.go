package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// compare orders partitions by topic, then number.
func (p Partition) compare(q Partition) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.Number, q.Number))
}

// assign follows a change of assignment. A partition that is named starts from
// nothing, also when it was ours before: another may have written meanwhile.
func (e *Engine) assign(ctx context.Context, polled Polled) {
	for _, p := range polled.Lost {
		e.lose(p)
	}
	for _, a := range polled.Assigned {
		e.lose(a.Partition)
		p := &part{name: a.Partition, assignment: a.Epoch, epoch: a.Epoch, worker: e.leastLoaded()}
		e.parts[a.Partition] = p
		e.restore(ctx, p, 0)
	}
	for _, s := range polled.Stopped {
		if p := e.parts[s.Partition]; p != nil && p.halted == nil {
			e.halt(p, s)
		}
	}
}

// restore is what the restore of a partition made, unless it failed: let is to be closed
// once that is not the restore's any more.
type restore struct {
	Restored
	let chan struct{}
}

// roomPause is how long a partition waits before it asks again whether there is room for
// its filter: others must end first.
const roomPause = time.Second

// restore begins to restore p, beside the engine, after a pause.
func (e *Engine) restore(ctx context.Context, p *part, pause time.Duration) {
	rules, let := e.cfg.Rules, make(chan struct{})
	rules.NewSet = after(e.freed, p.worker.firstTouch(rules.NewSet))
	p.let = let
	p.cancel = e.restores.start(ctx, Assigned{p.name, p.assignment}, func(ctx context.Context) (restore, error) {
		made := false
		defer func() {
			if !made {
				close(let)
			}
		}()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return restore{}, ctx.Err()
		}
		is, err := e.restorer.Restore(ctx, p.name, builder{rules, p.name})
		made = err == nil
		return restore{is, let}, err
	})
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
func (e *Engine) lose(name Partition) {
	p := e.parts[name]
	if p == nil {
		return
	}
	if p.moved && e.open.failed == nil {
		e.open.failed = fmt.Errorf("partition %s was lost in the middle of a cycle", name)
	}
	delete(e.parts, name) // so that what was read of it is not delivered
	e.takeBack(len(e.flying))
	e.free(p)
	e.cfg.Logger.Info("partition left to other instances", "partition", name.String())
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
	if p.shard == nil {
		e.frees(func() { <-p.let })
		return
	}
	e.frees(func() { e.close(p.name, p.shard) })
}

// frees does what gives memory back in a goroutine of its own: the system takes most of
// a second for 8 GiB, and the other partitions go on meanwhile. It does one after the
// other; e.freed says when it has done the last.
func (e *Engine) frees(giveBack func()) {
	before, done := e.freed, make(chan struct{})
	e.freed = done
	go func() {
		defer close(done)
		<-before
		giveBack()
	}()
}

// close gives the memory of a shard back that nobody uses any more.
func (e *Engine) close(name Partition, s *Shard) {
	if err := s.Close(); err != nil {
		e.cfg.Logger.Warn("cannot give back the memory of a shard", "partition", name.String(), "error", err)
	}
}

// after is newSet once the memory was given back that was on its way when the partition
// came: there may be no room for both.
func after(freed <-chan struct{}, newSet func() (filter.Set, error)) func() (filter.Set, error) {
	return func() (filter.Set, error) {
		<-freed
		return newSet()
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
			// Lost meanwhile. What it would have been is another's to know; e.freed
			// waits for its memory already.
			if r.err == nil {
				go func() {
					defer close(r.is.let)
					e.close(r.assigned.Partition, r.is.Shard)
				}()
			}
			continue
		}
		if r.err != nil && ctx.Err() != nil {
			continue // the engine is stopping, and the restore gave up
		}
		if errors.Is(r.err, ErrNotOurs) {
			continue // the session will say so, too
		}
		if errors.Is(r.err, ErrNoRoom) {
			if p.waits == nil {
				e.cfg.Logger.Error("a partition waits for memory, the others go on: more instances or a smaller plan would help",
					"partition", p.name.String(), "error", r.err)
			}
			p.waits = r.err
			e.restore(ctx, p, roomPause)
			continue
		}
		if r.err != nil {
			return failed("restore", p.name, r.err, e.cfg.Logger)
		}
		p.shard, p.waits = r.is.Shard, nil
		p.shard.Begin(r.is.Next)
		stats, ids := p.stats(), uint64(0)
		for _, load := range stats.Loads {
			ids += load
		}
		p.logged = r.is.LogEnd
		p.checkpointed, p.checkpointNext = time.Now(), r.is.Next
		p.epoch = e.session.Resume(p.name, r.is.Next)
		if e.cfg.Events.Restored != nil {
			e.cfg.Events.Restored(p.name, r.took)
		}
		e.cfg.Logger.Info("partition restored", "partition", p.name.String(),
			"took", r.took.Round(time.Microsecond), "from", r.is.From, "ids", ids, "next", r.is.Next)
		if unknown := time.Duration((1 - stats.Coverage) * float64(e.cfg.Rules.Window.Span)); unknown > 0 {
			e.cfg.Logger.Info("a part of the window is not known: duplicates of what came before it pass until the stream has moved on",
				"partition", p.name.String(), "known", (e.cfg.Rules.Window.Span - unknown).Round(time.Second), "by", unknown.Round(time.Second))
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
