package pipeline

import (
	"slices"

	"github.com/streamdedup/streamdedup/window"
)

// Snapshot is what an engine was after its last cycle. It does not change.
type Snapshot struct {
	// Counts are of confirmed commits only: a rollback never lowers one.
	Counts Counts
	// Settled is how many transactions ended how, by [Settlement].
	Settled [Lost + 1]uint64
	// Partitions are the assigned ones, in order.
	Partitions []PartitionSnapshot
}

// PartitionSnapshot is one assigned partition.
type PartitionSnapshot struct {
	Partition Partition
	// Restored: it has its memory and gives verdicts.
	Restored bool
	// Stopped is why it goes no further, nil if it does.
	Stopped *Stop
	// Waits is why there is no memory for its filter yet, nil if there is, or if nobody
	// has asked.
	Waits error
	// Next is the next offset to read, as committed.
	Next int64
	// Window is the memory in figures; zero before it is restored.
	Window window.Stats
	// Hot is the ID with the largest share of the traffic, if it is a large one.
	Hot Hot
	// Sample is what the audit knows.
	Sample SampleStats
}

// Ready is whether every partition that is ours has its memory.
func (s *Snapshot) Ready() bool {
	for i := range s.Partitions {
		if !s.Partitions[i].Restored {
			return false
		}
	}
	return true
}

// sayGrowth logs that the memory of a partition has grown, or is what it was planned for
// again.
func (e *Engine) sayGrowth(p *part, w *window.Stats) {
	p.bytes = w.Bytes
	switch {
	case w.Slabs > p.slabs:
		e.cfg.Logger.Warn("a generation has more new IDs than planned: the filter has grown",
			"partition", p.name.String(), "slabs", w.Slabs, "bytes", w.Bytes)
	case w.Slabs < p.slabs:
		e.cfg.Logger.Info("the filter needs less than it had grown to", "partition", p.name.String(), "slabs", w.Slabs, "bytes", w.Bytes)
	}
	p.slabs = w.Slabs
}

// Snapshot is the state after the last cycle. It may be called at any time, from
// any goroutine.
func (e *Engine) Snapshot() *Snapshot { return e.snapshot.Load() }

// publish makes a new snapshot. It runs between cycles, when no worker has a
// shard.
func (e *Engine) publish() {
	s := &Snapshot{Counts: e.totals, Settled: e.settled}
	for _, p := range e.parts {
		ps := PartitionSnapshot{Partition: p.name, Stopped: p.halted, Waits: p.waits}
		if p.shard != nil {
			ps.Restored, ps.Next, ps.Window = true, p.shard.start, p.stats()
			e.sayGrowth(p, &ps.Window)
			ps.Hot, ps.Sample = p.shard.Hot(), p.shard.SampleStats()
		}
		s.Partitions = append(s.Partitions, ps)
	}
	slices.SortFunc(s.Partitions, func(a, b PartitionSnapshot) int { return a.Partition.compare(b.Partition) })
	e.snapshot.Store(s)
}
