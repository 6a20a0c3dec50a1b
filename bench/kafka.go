package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/workload"
	"github.com/streamdedup/streamdedup/pipeline"
)

// KafkaConfig describes a benchmark of the whole path from topic to topic.
type KafkaConfig struct {
	Broker         *Broker
	Records        int
	Partitions     int32
	ValueBytes     int
	Seed           uint64
	Pairs          int // how often each way is measured
	CommitInterval time.Duration
	Codec          string
	// Dedup deduplicates as job says until ctx ends, as the product does it.
	Dedup func(ctx context.Context, job DedupJob) error
	// Command is how to repeat the run.
	Command string
	// Progress is told what is measured next; it may be nil.
	Progress func(what string)
}

// DedupJob is one run of the product.
type DedupJob struct {
	Brokers        []string
	In, Out, Group string
	Keys           []string
	Scope          pipeline.Scope
	// Unlogged leaves the changelog out, to see what it costs.
	Unlogged       bool
	CommitInterval time.Duration
}

// Validate reports everything that is wrong with c.
func (c KafkaConfig) Validate() error {
	var errs []error
	if c.Broker == nil || c.Dedup == nil {
		errs = append(errs, errors.New("Broker and Dedup are both needed"))
	}
	if c.Pairs < 1 {
		errs = append(errs, fmt.Errorf("Pairs is %d, want at least 1", c.Pairs))
	}
	if c.CommitInterval <= 0 {
		errs = append(errs, fmt.Errorf("CommitInterval is %s, want more than 0", c.CommitInterval))
	}
	_, err := kafkaio.Moving(c.Codec)
	return errors.Join(append(errs, err, c.workload().Validate())...)
}

// kafkaCopies: one record in ten is a duplicate.
const kafkaCopies = 10

func (c KafkaConfig) workload() workload.Config {
	const span = 24 * time.Hour
	copies := c.Records / kafkaCopies
	return workload.Config{
		Kind: workload.Clicks, Seed: c.Seed, Events: c.Records - copies, Copies: copies, Partitions: c.Partitions,
		ValueBytes: c.ValueBytes, Start: time.Now().Add(-span), Span: span, Window: span,
	}
}

// way is one of the ways to get from topic to topic.
type way struct {
	name string
	run  func(ctx context.Context, j copyJob, begin func()) error
}

// RunKafka measures a plain copy, a copy in transactions and the exactly-once
// deduplication of the same topic, with and without its changelog and across the
// partitions, in turn, so that a machine whose speed changes changes it for all.
func RunKafka(ctx context.Context, cfg KafkaConfig) (_ KafkaReport, err error) {
	if err := cfg.Validate(); err != nil {
		return KafkaReport{}, fmt.Errorf("bench kafka: %w", err)
	}
	w := cfg.workload()
	in := fmt.Sprintf("streamdedup-bench-%x", w.Start.UnixNano())
	cfg.tell("input")
	if err := cfg.fill(ctx, in, w); err != nil {
		return KafkaReport{}, fmt.Errorf("bench kafka: %w", err)
	}
	defer func() { err = errors.Join(err, cfg.Broker.Discard(context.WithoutCancel(ctx), "", in)) }()

	ways := []way{
		{"plain copy", func(ctx context.Context, j copyJob, begin func()) error { return j.plain(ctx, begin) }},
		{"copy in transactions", func(ctx context.Context, j copyJob, begin func()) error { return j.transactional(ctx, begin) }},
		{"exactly-once dedup", cfg.dedup(DedupJob{})},
		{"the same, scope topic", cfg.dedup(DedupJob{Scope: pipeline.ScopeTopic})},
		{"the same, no changelog", cfg.dedup(DedupJob{Unlogged: true})},
	}
	measured := make([]WayResult, len(ways))
	for pair := range cfg.Pairs {
		for i := range ways {
			n := (i + pair) % len(ways) // nobody always goes first
			cfg.tell(fmt.Sprintf("%s, %d of %d", ways[n].name, pair+1, cfg.Pairs))
			if err := cfg.measure(ctx, ways[n], in, fmt.Sprintf("%s-%d-%d", in, n, pair), &measured[n]); err != nil {
				return KafkaReport{}, fmt.Errorf("bench kafka: %w", err)
			}
		}
	}
	return newKafkaReport(cfg, ways, measured), nil
}

func (c KafkaConfig) tell(what string) {
	if c.Progress != nil {
		c.Progress(what)
	}
}

func (c KafkaConfig) fill(ctx context.Context, topic string, w workload.Config) error {
	if err := c.Broker.CreateTopic(ctx, topic, c.Partitions); err != nil {
		return err
	}
	moving, err := kafkaio.Moving(c.Codec)
	if err != nil {
		return err
	}
	generator, err := workload.New(w)
	if err != nil {
		return err
	}
	return c.Broker.Produce(ctx, topic, generator, w.Records(), nil, moving...)
}

// measure runs one way once and adds its figures to r. The clock runs from the
// first record to the last commit.
func (c KafkaConfig) measure(ctx context.Context, w way, in, out string, r *WayResult) (err error) {
	if err := c.Broker.CreateTopic(ctx, out, c.Partitions); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.discard(context.WithoutCancel(ctx), in, out)) }()
	runtime.GC()
	var began time.Time
	var used, took, cpu time.Duration
	j := copyJob{
		brokers: c.Broker.Addresses(), in: in, out: out, group: out,
		records: c.Records, interval: c.CommitInterval, codec: c.Codec,
		done: func() { took, cpu = time.Since(began), CPUTime()-used },
	}
	if err := w.run(ctx, j, func() { began, used = time.Now(), CPUTime() }); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	r.EventsPerSecond = append(r.EventsPerSecond, float64(c.Records)/took.Seconds())
	r.CPUNSPerEvent = append(r.CPUNSPerEvent, float64(cpu.Nanoseconds())/float64(c.Records))
	return nil
}

// discard deletes what a way, whose group is called like its output, has made.
func (c KafkaConfig) discard(ctx context.Context, in, out string) error {
	first, between := kafkaio.RepartitionGroup(out), kafkaio.RepartitionTopic(out, in)
	return errors.Join(
		c.Broker.Discard(ctx, out, out, kafkaio.ChangelogTopic(out, in)),
		c.Broker.Discard(ctx, first, between, kafkaio.ChangelogTopic(out, between)))
}

// dedup runs the product until it has read all of the input, and counts what
// came out.
func (c KafkaConfig) dedup(as DedupJob) func(context.Context, copyJob, func()) error {
	return func(ctx context.Context, j copyJob, begin func()) error { return c.dedupAs(ctx, as, j, begin) }
}

func (c KafkaConfig) dedupAs(ctx context.Context, as DedupJob, j copyJob, begin func()) error {
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, 1)
	w := c.workload()
	go func() {
		err := c.Dedup(running, DedupJob{
			Brokers: j.brokers, In: j.in, Out: j.out, Group: j.group, Keys: w.Kind.KeySpecs(),
			Scope: as.Scope, Unlogged: as.Unlogged, CommitInterval: c.CommitInterval,
		})
		ended <- err
		stop(errors.Join(err, errEnded))
	}()
	first := j.group
	if as.Scope == pipeline.ScopeTopic {
		first = kafkaio.RepartitionGroup(j.group)
	}
	err := c.Broker.AwaitBegin(running, first, j.in)
	if err == nil {
		begin()
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
	return c.count(ctx, j.out, w.Events)
}

// errEnded is why a wait ends when the product does.
var errEnded = errors.New("the deduplication ended by itself")

// count checks that a topic has the records that it must: all first copies but
// a few false positives.
func (c KafkaConfig) count(ctx context.Context, topic string, events int) error {
	t, err := kafkaio.OpenTopic(ctx, topic, kgo.SeedBrokers(c.Broker.Addresses()...))
	if err != nil {
		return err
	}
	defer t.Close()
	n := 0
	for p := range c.Partitions {
		end, err := t.Written(ctx, p)
		if err != nil {
			return err
		}
		if err := t.Read(ctx, p, 0, end, func(int64, *pipeline.Record) error { n++; return nil }); err != nil {
			return err
		}
	}
	if n > events || n < events-events/100 {
		return fmt.Errorf("%d records came out, want %d and at most 1%% less", n, events)
	}
	return nil
}
