package bench

import (
	"context"
	"errors"
	"math"

	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/workload"
	"github.com/streamdedup/streamdedup/pipeline"
)

// The names of the ways from topic to topic, in results.
const (
	PlainCopy = "plain copy"
	// DefaultGC is the plain copy as anybody writes it, who lets Go collect garbage as it
	// does by itself; all others have the heap that the product gives itself.
	DefaultGC     = "plain copy, default GC"
	Transactional = "copy in transactions"
	AtLeastOnce   = "at-least-once dedup"
	ExactlyOnce   = "exactly-once dedup"
	ScopeTopic    = "exactly-once, scope topic"
	Unlogged      = "exactly-once, no changelog"
)

// way is one of the ways to get from topic to topic.
type way struct {
	name string
	// drain brings the records that are in the input over, and checks them.
	drain func(ctx context.Context, j copyJob) error
	// follow brings over what comes until ctx ends.
	follow func(ctx context.Context, j copyJob) error
}

// ways are those to measure: the usual ones, or all.
func (c KafkaConfig) ways(all bool) []way {
	plain := copying(PlainCopy, copyJob.plain)
	dedups := []way{
		c.dedup(AtLeastOnce, DedupJob{Delivery: kafkaio.AtLeastOnce}),
		c.dedup(ExactlyOnce, DedupJob{}),
	}
	if !all {
		return append([]way{plain}, dedups...)
	}
	ways := append([]way{plain, copying(DefaultGC, copyJob.untuned), copying(Transactional, copyJob.transactional)}, dedups...)
	return append(ways, c.dedup(ScopeTopic, DedupJob{Scope: pipeline.ScopeTopic}), c.dedup(Unlogged, DedupJob{Unlogged: true}))
}

func copying(name string, run func(copyJob, context.Context) error) way {
	return way{
		name:  name,
		drain: func(ctx context.Context, j copyJob) error { return run(j, ctx) },
		follow: func(ctx context.Context, j copyJob) error {
			j.records = math.MaxInt
			if err := run(j, ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		},
	}
}

// dedup is the product.
func (c KafkaConfig) dedup(name string, as DedupJob) way {
	return way{
		name: name,
		drain: func(ctx context.Context, j copyJob) error {
			return c.drain(ctx, as, j)
		},
		follow: func(ctx context.Context, j copyJob) error { return c.Dedup(ctx, as.of(j)) },
	}
}

// of is the product's run for j.
func (as DedupJob) of(j copyJob) DedupJob {
	as.Brokers, as.In, as.Out, as.Group = j.brokers, j.in, j.out, j.group
	as.Keys, as.CommitInterval = workload.Clicks.KeySpecs(), j.interval
	return as
}

// errEnded is why a wait ends when the product does.
var errEnded = errors.New("the deduplication ended by itself")

// drain runs the product until it has read all of the input, and counts what
// came out.
func (c KafkaConfig) drain(ctx context.Context, as DedupJob, j copyJob) error {
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, 1)
	go func() {
		err := c.Dedup(running, as.of(j))
		ended <- err
		stop(errors.Join(err, errEnded))
	}()
	first := j.group
	if as.Scope == pipeline.ScopeTopic {
		first = kafkaio.RepartitionGroup(j.group)
	}
	err := c.Broker.AwaitBegin(running, first, j.in)
	if err == nil {
		j.begin()
		err = c.Broker.AwaitEnd(running, first, j.in, nil)
	}
	if err == nil && as.Scope == pipeline.ScopeTopic {
		err = c.Broker.AwaitEnd(running, j.group, kafkaio.RepartitionTopic(j.group, j.in), nil)
	}
	j.done()
	stop(nil)
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	return c.count(ctx, j.out, j.partitions, j.records-j.records/kafkaCopies)
}
