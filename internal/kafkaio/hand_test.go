package kafkaio

import (
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/pipeline"
)

// hand drives a session step by step, where a test must stand between two steps
// of an engine. All records pass.
type hand struct {
	t       *testing.T
	session *Session
	rules   pipeline.Config
	shards  map[pipeline.Partition]*pipeline.Shard
	epochs  map[pipeline.Partition]uint64
	lost    int
}

// builder makes shards as an engine does.
type builder struct {
	rules     pipeline.Config
	partition pipeline.Partition
}

func (b builder) Fresh(cold bool) (*pipeline.Shard, error) {
	return pipeline.NewShard(b.rules, b.partition, cold)
}

func (b builder) Rebuild(state pipeline.State) (*pipeline.Rebuild, error) {
	return pipeline.NewRebuild(b.rules, b.partition, state)
}

func (s *scene) byHand() *hand {
	s.t.Helper()
	session, err := Open(ctx(s.t), s.cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	h := &hand{t: s.t, session: session, rules: s.rules,
		shards: map[pipeline.Partition]*pipeline.Shard{}, epochs: map[pipeline.Partition]uint64{}}
	s.t.Cleanup(func() {
		if err := session.Close(ctx(s.t), true); err != nil {
			s.t.Error(err)
		}
		for p := range h.shards {
			h.drop(p)
		}
	})
	return h
}

func (h *hand) drop(p pipeline.Partition) {
	if shard := h.shards[p]; shard != nil {
		if err := shard.Close(); err != nil {
			h.t.Error(err)
		}
	}
	delete(h.shards, p)
	delete(h.epochs, p)
}

// poll polls once, restores what was assigned, and returns what was read.
func (h *hand) poll() []*pipeline.Batch {
	h.t.Helper()
	polled, err := h.session.Poll(ctx(h.t), 100*time.Millisecond)
	if err != nil {
		h.t.Fatalf("poll: %v", err)
	}
	for _, stop := range polled.Stopped {
		h.t.Fatalf("poll: %v", stop)
	}
	for _, p := range polled.Lost {
		h.lost++
		h.drop(p)
	}
	for _, a := range polled.Assigned {
		restored, err := NewRestorer(h.session, nil).Restore(ctx(h.t), a.Partition, builder{h.rules, a.Partition})
		if err != nil {
			h.t.Fatalf("restore: %v", err)
		}
		h.shards[a.Partition] = restored.Shard
		restored.Shard.Begin(restored.Next)
		h.epochs[a.Partition] = h.session.Resume(a.Partition, restored.Next)
	}
	return polled.Batches
}

// cycle polls until n records were delivered, and does not end the transaction.
func (h *hand) cycle(n int) {
	h.t.Helper()
	for deadline := time.Now().Add(limit); n > 0; {
		if time.Now().After(deadline) {
			h.t.Fatalf("%d records did not come", n)
		}
		idle := true
		for _, b := range h.poll() {
			if h.epochs[b.Partition] != b.Epoch {
				h.t.Fatalf("a batch of epoch %d came in epoch %d", b.Epoch, h.epochs[b.Partition])
			}
			h.shards[b.Partition].Process(b)
			if err := h.session.Deliver(ctx(h.t), b); err != nil {
				h.t.Fatalf("deliver: %v", err)
			}
			n -= len(b.Records)
			idle = false
		}
		if idle && !h.session.cycle.open {
			h.session.Release() // what is asked for may be under way
		}
	}
}

// turn polls once, and commits what came.
func (h *hand) turn() {
	h.t.Helper()
	for _, b := range h.poll() {
		h.shards[b.Partition].Process(b)
		if err := h.session.Deliver(ctx(h.t), b); err != nil {
			h.t.Fatalf("deliver: %v", err)
		}
	}
	if !h.session.cycle.open {
		h.session.Release()
		return
	}
	h.commit()
}

// commit ends the transaction and does what an engine does with the answer.
func (h *hand) commit() pipeline.CommitResult {
	h.t.Helper()
	var positions []pipeline.Position
	for _, shard := range h.shards {
		shard.Seal()
		positions = append(positions, shard.Position())
	}
	result, err := h.session.Commit(ctx(h.t), positions)
	if err != nil {
		h.t.Fatalf("commit: %v", err)
	}
	h.settle(result)
	return result
}

func (h *hand) abort() {
	h.t.Helper()
	result, err := h.session.Abort(ctx(h.t))
	if err != nil {
		h.t.Fatalf("abort: %v", err)
	}
	h.settle(result)
}

func (h *hand) settle(result pipeline.CommitResult) {
	for p, shard := range h.shards {
		switch result.Settlement {
		case pipeline.Committed:
			shard.Commit()
		case pipeline.Aborted:
			shard.Rollback()
			h.epochs[p] = result.Epochs[p]
		case pipeline.Lost:
			h.drop(p)
		}
	}
	for _, p := range result.Gone {
		h.drop(p)
	}
	h.session.Release()
}
