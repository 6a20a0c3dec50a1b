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

// KafkaConfig describes a benchmark of the whole path from topic to topic. It
// measures every combination of Codecs, ValueBytes, Partitions and CommitIntervals.
type KafkaConfig struct {
	Broker          *Broker
	Records         int
	Partitions      []int32
	ValueBytes      []int
	CommitIntervals []time.Duration
	Codecs          []string
	Seed            uint64
	Pairs           int // how often each way is measured
	// Latency is for how long the latency is measured of each way, zero not at all;
	// Rate is with how many records a second, zero a third of what the exactly-once
	// dedup was measured to do.
	Latency time.Duration
	Rate    float64
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
	Delivery       kafkaio.Delivery
	// Unlogged leaves the changelog out, to see what it costs.
	Unlogged       bool
	CommitInterval time.Duration
}

// maxLatency bounds how many times of records are kept.
const maxLatency = 10 * time.Minute

// Validate reports everything that is wrong with c.
func (c KafkaConfig) Validate() error {
	var errs []error
	if c.Broker == nil || c.Dedup == nil {
		errs = append(errs, errors.New("Broker and Dedup are both needed"))
	}
	if c.Pairs < 1 {
		errs = append(errs, fmt.Errorf("Pairs is %d, want at least 1", c.Pairs))
	}
	if c.Latency < 0 || c.Latency > maxLatency || c.Rate < 0 {
		errs = append(errs, fmt.Errorf("Latency is %s and Rate %g, want at most %s and no less than 0", c.Latency, c.Rate, maxLatency))
	}
	cases := c.cases()
	if len(cases) == 0 {
		errs = append(errs, errors.New("nothing is to be measured: Codecs, ValueBytes, Partitions and CommitIntervals are all needed"))
	}
	for _, x := range cases {
		if x.interval <= 0 {
			errs = append(errs, fmt.Errorf("CommitInterval is %s, want more than 0", x.interval))
		}
		_, err := kafkaio.Moving(x.codec)
		errs = append(errs, err, x.workload(c.Records, c.Seed).Validate())
	}
	return errors.Join(errs...)
}

// kafkaCase is one combination.
type kafkaCase struct {
	codec      string
	valueBytes int
	partitions int32
	interval   time.Duration
}

// cases are all combinations. Those with the same input follow each other.
func (c KafkaConfig) cases() (cases []kafkaCase) {
	for _, codec := range c.Codecs {
		for _, valueBytes := range c.ValueBytes {
			for _, partitions := range c.Partitions {
				for _, interval := range c.CommitIntervals {
					cases = append(cases, kafkaCase{codec, valueBytes, partitions, interval})
				}
			}
		}
	}
	return cases
}

// input is what the input of a case depends on.
func (x kafkaCase) input() kafkaCase {
	x.interval = 0
	return x
}

// kafkaCopies: one record in ten is a duplicate.
const kafkaCopies = 10

func (x kafkaCase) workload(records int, seed uint64) workload.Config {
	const span = 24 * time.Hour
	copies := records / kafkaCopies
	return workload.Config{
		Kind: workload.Clicks, Seed: seed, Events: records - copies, Copies: copies, Partitions: x.partitions,
		ValueBytes: x.valueBytes, Start: time.Now().Add(-span), Span: span, Window: span,
	}
}

// RunKafka measures for each case a plain copy and deduplications of the same topic
// in turn, so that a machine whose speed changes changes it for all; of a single
// case more ways than of many.
func RunKafka(ctx context.Context, cfg KafkaConfig) (_ KafkaReport, err error) {
	if err := cfg.Validate(); err != nil {
		return KafkaReport{}, fmt.Errorf("bench kafka: %w", err)
	}
	cases := cfg.cases()
	ways := cfg.ways(len(cases) == 1)
	report := KafkaReport{
		Environment: NewEnvironment(cfg.Command, cfg.Seed), Embedded: cfg.Broker.Embedded(), Records: cfg.Records, Pairs: cfg.Pairs,
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("bench kafka: %w", err)
		}
	}()
	in, prefix := "", fmt.Sprintf("streamdedup-bench-%x", time.Now().UnixNano())
	discard := func() error {
		if in == "" {
			return nil
		}
		return cfg.Broker.Discard(context.WithoutCancel(ctx), "", in)
	}
	defer func() { err = errors.Join(err, discard()) }()
	for n, x := range cases {
		if n == 0 || x.input() != cases[n-1].input() {
			if err := discard(); err != nil {
				return KafkaReport{}, err
			}
			in = fmt.Sprintf("%s-%d", prefix, n)
			if err := cfg.fill(ctx, in, x); err != nil {
				return KafkaReport{}, err
			}
		}
		m := &measurement{KafkaConfig: cfg, kafkaCase: x, in: in, name: fmt.Sprintf("%s-%d", prefix, n)}
		result, err := m.run(ctx, ways)
		if err != nil {
			return KafkaReport{}, err
		}
		report.Cases = append(report.Cases, result)
	}
	return report, nil
}

func (c KafkaConfig) tell(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

func (c KafkaConfig) fill(ctx context.Context, topic string, x kafkaCase) error {
	c.tell("input of %s", x)
	if err := c.Broker.CreateTopic(ctx, topic, x.partitions); err != nil {
		return err
	}
	moving, err := kafkaio.Moving(x.codec)
	if err != nil {
		return err
	}
	w := x.workload(c.Records, c.Seed)
	generator, err := workload.New(w)
	if err != nil {
		return err
	}
	return c.Broker.Produce(ctx, topic, generator, w.Records(), nil, moving...)
}

// String names a case for people.
func (x kafkaCase) String() string {
	return fmt.Sprintf("%s, %d bytes, compression %s, commits every %s", plural(int(x.partitions), "partition"), x.valueBytes, x.codec, x.interval)
}

// measurement is the work on one case.
type measurement struct {
	KafkaConfig
	kafkaCase
	in   string
	name string // what its topics and groups begin with
}

// run measures all ways, round by round, and then their latency.
func (m *measurement) run(ctx context.Context, ways []way) (KafkaCase, error) {
	measured := make([]WayResult, len(ways))
	for pair := range m.Pairs {
		for i := range ways {
			n := (i + pair) % len(ways) // nobody always goes first
			m.tell("%s, %d of %d; %s", ways[n].name, pair+1, m.Pairs, m.kafkaCase)
			if err := m.measure(ctx, ways[n], fmt.Sprintf("%s-%d-%d", m.name, n, pair), &measured[n]); err != nil {
				return KafkaCase{}, err
			}
		}
	}
	result := newKafkaCase(m.kafkaCase, ways, measured)
	if m.Latency > 0 {
		if err := m.latencies(ctx, ways, &result); err != nil {
			return KafkaCase{}, err
		}
	}
	return result, nil
}

// measure runs one way once and adds its figures to r. The clock runs from the
// first record to the last commit.
func (m *measurement) measure(ctx context.Context, w way, out string, r *WayResult) (err error) {
	if err := m.Broker.CreateTopic(ctx, out, m.partitions); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.discard(context.WithoutCancel(ctx), m.in, out)) }()
	runtime.GC()
	var began time.Time
	var used, took, cpu time.Duration
	j := m.job(m.in, out)
	j.records = m.Records
	j.begin = func() { began, used = time.Now(), CPUTime() }
	j.done = func() { took, cpu = time.Since(began), CPUTime()-used }
	if err := w.drain(ctx, j); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	r.EventsPerSecond = append(r.EventsPerSecond, float64(m.Records)/took.Seconds())
	r.CPUNSPerEvent = append(r.CPUNSPerEvent, float64(cpu.Nanoseconds())/float64(m.Records))
	return nil
}

// job is to bring one topic to another, by a group that is called like the output.
func (m *measurement) job(in, out string) copyJob {
	return copyJob{
		brokers: m.Broker.Addresses(), in: in, out: out, group: out, interval: m.interval, codec: m.codec,
		partitions: m.partitions, begin: func() {}, done: func() {},
	}
}

// discard deletes what a way, whose group is called like its output, has made.
func (c KafkaConfig) discard(ctx context.Context, in, out string) error {
	first, between := kafkaio.RepartitionGroup(out), kafkaio.RepartitionTopic(out, in)
	return errors.Join(
		c.Broker.Discard(ctx, out, out, kafkaio.ChangelogTopic(out, in)),
		c.Broker.Discard(ctx, first, between, kafkaio.ChangelogTopic(out, between)))
}

// count checks that a topic has the records that it must: all first copies but
// a few false positives.
func (c KafkaConfig) count(ctx context.Context, topic string, partitions int32, events int) error {
	t, err := kafkaio.OpenTopic(ctx, topic, kgo.SeedBrokers(c.Broker.Addresses()...))
	if err != nil {
		return err
	}
	defer t.Close()
	n := 0
	for p := range partitions {
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
