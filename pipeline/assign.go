package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
		e.drop(p)
	}
	for _, a := range polled.Assigned {
		e.drop(a.Partition)
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

// drop forgets a partition and what it remembered.
func (e *Engine) drop(name Partition) {
	p := e.parts[name]
	if p == nil {
		return
	}
	delete(e.parts, name)
	if p.cancel != nil {
		p.cancel()
	}
	if p.shard != nil {
		if err := p.shard.Close(); err != nil {
			e.cfg.Logger.Warn("cannot give back the memory of a shard", "partition", name.String(), "error", err)
		}
	}
}

// adopt takes over the shards whose restore has ended.
func (e *Engine) adopt() error {
	for {
		r, ok := e.restores.next()
		if !ok {
			return nil
		}
		p := e.parts[r.assigned.Partition]
		if p == nil || p.assignment != r.assigned.Epoch || p.shard != nil {
			// Lost meanwhile. What it would have been is another's to know.
			if r.err == nil {
				r.err = r.restored.Shard.Close()
			}
			continue
		}
		if errors.Is(r.err, context.Canceled) {
			continue // the engine is stopping
		}
		if r.err != nil {
			return fmt.Errorf("restore %s: %w", p.name, r.err)
		}
		p.shard = r.restored.Shard
		p.shard.Begin(r.restored.Next)
		p.bytes = p.stats().Bytes
		p.epoch = e.session.Resume(p.name, r.restored.Next)
		if e.cfg.Events.Restored != nil {
			e.cfg.Events.Restored(p.name, r.took)
		}
	}
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
	cancels []context.CancelFunc
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
	r.cancels = append(r.cancels, cancel)
	r.group.Add(1)
	go func() {
		defer r.group.Done()
		began := time.Now()
		restored, err := from.Restore(ctx, a.Partition, builder{rules, a.Partition})
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

// wait ends all restores and gives back what they made.
func (r *restores) wait() {
	for _, cancel := range r.cancels {
		cancel()
	}
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

func (b builder) Rebuild(metadata string) (*Rebuild, error) {
	return NewRebuild(b.rules, b.partition, metadata)
}
