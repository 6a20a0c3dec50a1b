package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// end ends the open cycle: by a commit when all went well, else by an abort.
func (e *Engine) end(ctx context.Context) error {
	e.land(ctx, len(e.flying))
	if e.open.failed != nil {
		return e.abort(ctx, e.open.failed)
	}
	if !e.open.begun {
		return nil
	}
	return e.commit(ctx)
}

// commit makes the cycle durable. It goes on when ctx has ended: a stop finishes
// the cycle.
func (e *Engine) commit(ctx context.Context) error {
	began := time.Now()
	var positions []Position
	for _, p := range e.parts {
		if p.moved {
			e.do(p, opSeal)
			positions = append(positions, p.shard.Position())
		}
	}
	if e.broken != nil {
		return e.abort(ctx, e.broken)
	}
	slices.SortFunc(positions, func(a, b Position) int { return a.Partition.compare(b.Partition) })
	if err := e.readAhead(ctx, e.session.Finish(positions)); err != nil {
		return errors.Join(err, e.abort(ctx, err))
	}
	if e.open.failed != nil {
		return e.abort(ctx, e.open.failed)
	}
	result, err := e.session.Commit(context.WithoutCancel(ctx), positions)
	if err != nil {
		e.discard()
		e.rollback(nil)
		return fmt.Errorf("commit: %w", err)
	}
	return e.settle(result, began)
}

// abort takes the open cycle back.
func (e *Engine) abort(ctx context.Context, cause error) error {
	began := time.Now()
	e.open.failed = cause
	e.discard()
	e.cfg.Logger.Warn("cycle aborted", "cause", cause)
	result, err := e.session.Abort(context.WithoutCancel(ctx))
	if err != nil {
		e.rollback(nil)
		return errors.Join(e.broken, fmt.Errorf("abort: %w", err))
	}
	return e.settle(result, began)
}

// settle brings the shards to what the transaction's end made true.
func (e *Engine) settle(r CommitResult, began time.Time) error {
	var counts Counts
	oldest := e.open.oldest
	e.takeBack(len(e.flying)) // a failure among them is one of now
	if r.Settlement != Committed {
		e.discard()
	}
	switch r.Settlement {
	case Committed:
		for _, p := range e.parts {
			if p.moved {
				e.do(p, opCommit)
				p.logged = max(p.logged, r.Logged[p.name])
				counts.Plus(&p.counts)
				if n := p.counts.Marked(Unlearned); n > 0 && e.cfg.Events.Unlearned != nil {
					e.cfg.Events.Unlearned(p.name, n)
				}
			}
			p.settled()
		}
	case Aborted:
		if r.Cause != nil {
			e.cfg.Logger.Warn("transaction aborted, its records are read again", "cause", r.Cause)
		}
		e.rollback(r.Epochs)
		e.refuse(r.Refused)
	case Lost:
		e.cfg.Logger.Warn("session lost, every partition is restored", "cause", r.Cause)
		for p := range e.parts {
			e.drop(p)
		}
	}
	for _, p := range r.Gone {
		if e.parts[p] != nil {
			e.cfg.Logger.Info("partition left to other instances", "partition", p.String())
		}
		e.drop(p)
	}
	e.open = cycle{}
	e.settled[r.Settlement]++
	e.totals.Plus(&counts)
	if e.cfg.Events.Settled != nil {
		e.cfg.Events.Settled(r.Settlement, time.Since(began), &counts, oldest)
	}
	return errors.Join(e.broken, e.totals.Check())
}

// rollback undoes the open cycle in every shard that took part.
func (e *Engine) rollback(epochs map[Partition]uint64) {
	for name, p := range e.parts {
		if p.shard != nil {
			e.do(p, opRollback)
		}
		if epoch, ok := epochs[name]; ok {
			p.epoch = epoch
		}
		if p.readAgain() {
			p.halted = nil
			p.epoch = e.session.Resume(name, p.shard.Next())
		}
		p.settled()
	}
}

// readAgain is whether a halted partition, rolled back, comes to its halt anew: it
// was halted by what the cycle delivered of it, or has records left before the halt.
func (p *part) readAgain() bool {
	return p.halted != nil && p.shard != nil && (p.moved || p.shard.Next() < p.halted.Offset)
}

// settled ends the open cycle for a partition.
func (p *part) settled() {
	p.moved = false
	p.counts = Counts{}
	p.journal = 0
}

// refuse tells the shards which records cannot be written.
func (e *Engine) refuse(refusals []Refusal) {
	for _, r := range refusals {
		if p := e.parts[r.Partition]; p != nil && p.shard != nil {
			p.shard.Refuse(r)
		}
	}
}
