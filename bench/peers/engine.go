package peers

import (
	"fmt"

	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
	"github.com/streamdedup/streamdedup/window"
)

// headroom over the distinct events, for generations that get a little more than
// their share: copies are not spread quite evenly over the stream.
const headroom = 1.03

// cycle is how many batches lie between two commits, about 200 ms of a plain copy.
const cycle = 128

// engine is a shard of streamdedup in this process: it finds the ID in the JSON,
// judges, journals and commits.
type engine struct {
	shard *pipeline.Shard
	bytes uint64
	batch pipeline.Batch
	open  int // batches since the last commit
}

// NewEngine sizes a shard for the stream, peak 1 and skew 1.
func NewEngine(s *Stream, fpr float64) (Judge, error) {
	plan, err := sizing.Solve(sizing.Workload{
		Elements: uint64(headroom * float64(s.Distinct)), Window: Window, FPR: fpr, Peak: 1, Skew: 1, Partitions: 1,
	})
	if err != nil {
		return nil, err
	}
	e := &engine{bytes: plan.Bytes}
	partition := pipeline.Partition{Topic: "peers"}
	e.shard, err = pipeline.NewShard(pipeline.Config{
		Keys: []string{"json:event_id"}, Time: "record", Kind: plan.Workload.Kind.String(),
		Window: window.Config{Span: Window, GenerationCapacity: plan.GenerationCapacity},
		NewSet: plan.NewSet,
	}, partition, false)
	if err != nil {
		return nil, err
	}
	e.batch = pipeline.Batch{
		Partition: partition, Now: start.Add(2 * Window).UnixMilli(),
		Records: make([]keys.Record, 0, batch), Offsets: make([]int64, 0, batch),
	}
	return e, nil
}

// Judge implements [Judge].
func (e *engine) Judge(s *Stream, from, to int, passed []bool) error {
	b := &e.batch
	b.First, b.Next = int64(from), int64(to)
	b.Records, b.Offsets = b.Records[:0], b.Offsets[:0]
	for i := from; i < to; i++ {
		b.Records = append(b.Records, s.Record(i))
		b.Offsets = append(b.Offsets, int64(i))
	}
	e.shard.Process(b)
	if b.Stopped != nil {
		return fmt.Errorf("stopped at record %d: %w", from+len(b.Outcomes), b.Stopped)
	}
	for i := range b.Outcomes {
		passed[from+i] = b.Outcomes[i].Fate == pipeline.Out
	}
	if e.open++; e.open == cycle {
		return e.Settle()
	}
	return nil
}

// Settle implements [Judge].
func (e *engine) Settle() error {
	e.shard.Seal()
	e.shard.Commit()
	e.open = 0
	return nil
}

// Bytes implements [Judge].
func (e *engine) Bytes() (uint64, error) { return e.bytes, nil }
