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

// A change is what a cycle taught a shard, as one record of the changelog or several.
func ExampleChange() {
	change := &pipeline.Change{
		Begin: 1_000, Next: 101_000,
		State: pipeline.State{
			Fingerprint: "00000000deadbeef",
			Window: window.State{
				StreamTime: 1_767_225_600_000, Believed: true, Slice: 3_600_000,
				Generations: []window.Generation{{Number: 490_896, FirstOffset: 17}},
			},
		},
		Learned: []pipeline.Learned{{Until: 1_767_225_600_000, Hashes: make([]filter.Hash, 100_000)}},
	}
	for _, record := range change.AppendRecords(nil) {
		part, last, err := pipeline.ParseRecord(record)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%d bytes: %d hashes of rotation %d\n", len(record), len(part.Learned[0].Hashes), part.Learned[0].Rotation)
		if last { // only it says what the change is about
			fmt.Printf("from offset %d to %d, %d generation\n", part.Begin, part.Next, len(part.State.Window.Generations))
		}
	}
	// Output:
	// 520021 bytes: 65000 hashes of rotation 0
	// 280048 bytes: 35000 hashes of rotation 0
	// from offset 1000 to 101000, 1 generation
}
