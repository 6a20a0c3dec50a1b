package pipeline_test

import (
	"fmt"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

// A shard judges batches of one partition. What it learned is final with a
// commit and gone with a rollback.
func ExampleShard() {
	params, err := filter.Size(1_000_000, 1e-4, filter.Compact)
	if err != nil {
		panic(err)
	}
	in := pipeline.Partition{Topic: "clicks", Number: 0}
	shard, err := pipeline.NewShard(pipeline.Config{
		Keys:   []string{"json:event_id"},
		Time:   "record",
		Window: window.Config{Span: 24 * time.Hour, GenerationCapacity: 150_000},
		Kind:   "sliced",
		NewSet: func() (filter.Set, error) { return filter.NewSliced(params) },
	}, in, false)
	if err != nil {
		panic(err)
	}
	defer shard.Close()

	batch := &pipeline.Batch{Partition: in, Now: 1_767_225_600_500, First: 0, Next: 3, Offsets: []int64{0, 1, 2}}
	for _, value := range []string{`{"event_id":"a"}`, `{"event_id":"b"}`, `{"event_id":"a"}`} {
		batch.Records = append(batch.Records, pipeline.Record{Value: []byte(value), Time: 1_767_225_600_000})
	}
	for _, settle := range []func(){shard.Rollback, func() { shard.Seal(); shard.Commit() }, shard.Rollback} {
		shard.Process(batch)
		var fates []pipeline.Fate
		for _, o := range batch.Outcomes {
			fates = append(fates, o.Fate)
		}
		fmt.Println(fates)
		settle()
	}
	// Output:
	// [out out dropped]
	// [out out dropped]
	// [dropped dropped dropped]
}
