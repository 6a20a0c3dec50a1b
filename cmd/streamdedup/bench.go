package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/streamdedup/streamdedup/bench"
	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/sizing"
)

func newBenchCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure events per second, against references in the same run",
	}
	group(cmd, newBenchEngineCmd(a), newBenchKafkaCmd(a))
	return cmd
}

// all as a choice of filter or layout.
const all = "all"

func newBenchEngineCmd(a *app) *cobra.Command {
	c := bench.EngineConfig{Memory: []uint64{1 << 30}, FPR: 0.01, Duration: 10 * time.Second}
	layout, kind, workload, rotations := all, all, bench.Duplicates.String(), uint64(3)
	output, svg, s := "", "", seed{1, true}
	cmd := &cobra.Command{
		Use:   "engine",
		Short: "Measure the engine on one core: hash, window, filter, journal, commits",
		Long: `Measure the engine on one core: hash, window, filter, journal, commits.

Each filter is as large as --memory and full before the clock starts; nine of ten
IDs are new. Beside the sliced filter stand a ring of classic Bloom filters of the
same memory, a Go map (of fewer IDs where it would take more than twice the
memory), and the time to change a random line of memory.

What is measured is one generation, from its rotation on: less does not have the
share of cleaning that belongs to it. --duration bounds it; the column generations
says how much of one it was. Then the whole shard of the product runs on the same
filter, with verdicts, policies, counts and audit: across --rotations, and with a
checkpoint being copied, to find the longest that its thread is away. Where
--duration ends generations early, rotations follow each other faster than they
would, and each has more to clean at once. A sliced filter of a third of the memory
then gets three times the IDs it is planned for, which makes it grow meanwhile. Use
an idle machine.

Of several --memory sizes one filter at a time is in memory.`,
		Example: `  streamdedup bench engine --memory 1GiB --fpr 0.01 --layout fast -o json
  streamdedup bench engine --memory 512KiB,32MiB,1GiB,8GiB --plot engine.svg`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := chooseSubjects(&c, layout, kind, workload); err != nil {
				return err
			}
			c.Rotations = int(min(rotations, math.MaxInt32))
			c.Seed, c.Command = s.n, commandLine(cmd)
			if err := c.Validate(); err != nil {
				return &usageError{err}
			}
			status := a.status()
			defer status.clear()
			c.Progress = func(name string) { status.show("measuring: %s", name) }
			report, err := bench.RunEngine(cmd.Context(), c)
			if err != nil {
				return err
			}
			status.clear()
			return a.reportAndPlot(report, output, svg)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	sizeFlag.addList(fs, &c.Memory, "memory", "of each filter; of several, one after the other")
	shareFlag.add(fs, &c.FPR, "fpr", "false-positive rate that the filters hold when full")
	var workloads []string
	for _, w := range bench.Workloads() {
		workloads = append(workloads, w.String())
	}
	workloads = append(workloads, all)
	choiceFlag("WORKLOAD", workloads...).add(fs, &workload, "workload", "stream to measure by: "+oneOf(workloads))
	choiceFlag("LAYOUT", filter.Compact.String(), filter.Fast.String(), all).
		add(fs, &layout, "layout", "of the sliced filter: compact, fast or all")
	choiceFlag("KIND", sizing.Sliced.String(), sizing.Classic.String(), "exact", all).
		add(fs, &kind, "filter", "what to measure: sliced, classic, exact (a Go map) or all")
	numberFlag("events").add(fs, &c.Events, "events", "how many to measure of each (default one generation)")
	durationFlag.add(fs, &c.Duration, "duration", "at most this long each, engine and shard")
	numberFlag("rotations").add(fs, &rotations, "rotations", "how many the shard is watched across")
	seedFlag.add(fs, &s, "seed", "of the IDs")
	plotFlag.add(fs, &svg, "plot", "draw the times per event into this file")
	bindOutput(fs, &output)
	return cmd
}

// drawnReport is a result that can be read and drawn.
type drawnReport interface {
	textReport
	drawing
}

// reportAndPlot prints a result to stdout, and draws it into a file if there is one.
func (a *app) reportAndPlot(r drawnReport, format, file string) error {
	err := a.report(r, format)
	if file != "" {
		err = errors.Join(err, a.plot(file, r))
	}
	return err
}

func chooseSubjects(c *bench.EngineConfig, layout, kind, workload string) error {
	c.Workloads = bench.Workloads()
	if workload != all {
		w, err := bench.ParseWorkload(workload)
		if err != nil {
			return &usageError{err}
		}
		c.Workloads = []bench.Workload{w}
	}
	c.Layouts = []filter.Layout{filter.Compact, filter.Fast}
	if layout != all {
		l, err := filter.ParseLayout(layout)
		if err != nil {
			return &usageError{err}
		}
		c.Layouts = []filter.Layout{l}
	}
	c.Sliced = kind == all || kind == sizing.Sliced.String()
	c.Growing = c.Sliced
	c.Classic = kind == all || kind == sizing.Classic.String()
	c.Exact = kind == all || kind == "exact"
	return nil
}

// benchKafkaSettings is the configuration of bench kafka.
type benchKafkaSettings struct {
	connection
	bench.KafkaConfig
	partitions, valueBytes []uint64
	records, pairs         uint64
	capacity               uint64
	seed                   seed
	plot, output           string
}

func newBenchKafkaCmd(a *app) *cobra.Command {
	s := &benchKafkaSettings{
		KafkaConfig: bench.KafkaConfig{CommitIntervals: []time.Duration{defaultCommitInterval}, Codecs: []string{"none"}},
		partitions:  []uint64{4}, valueBytes: []uint64{230}, records: 1_000_000, pairs: 5, capacity: defaultCapacity, seed: seed{1, true},
	}
	cmd := &cobra.Command{
		Use:   "kafka",
		Short: "Measure from topic to topic: plain copy, copy in transactions, at-least-once and exactly-once dedup",
		Long: `Measure from topic to topic: plain copy, copy in transactions, at-least-once and
exactly-once dedup.

The exactly-once dedup also runs with scope topic, and without its changelog. All
run in turn on the same input, with the same settings of the client and of the
garbage collector, but for one plain copy that has Go's default for the latter; what
counts is the CPU time of this process for each event. Without --brokers it starts a
broker inside this process, whose CPU is then counted too, for each way alike. Topics
and groups that it makes are deleted at the end.

Where --compression, --value-bytes, --partitions or --commit-interval have several
values, every combination is measured: of each the plain copy and the two dedups.

With --latency, or several values of --commit-interval, the latency is measured too:
from when a record is due to be produced to a read_committed reader of the output,
under a steady load, and how much that is more than the plain copy takes.`,
		Example: `  streamdedup bench kafka --brokers localhost:9092 --records 2M
  streamdedup bench kafka --brokers localhost:9092 --commit-interval 10ms,100ms,1s --plot latency.svg`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.settle(); err != nil {
				return err
			}
			s.Command = commandLine(cmd)
			report, err := a.benchKafka(cmd.Context(), s)
			if err != nil {
				return err
			}
			return a.reportAndPlot(report, s.output, s.plot)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	s.bind(fs)
	return cmd
}

// bind defines the flags; the defaults are what s holds.
func (s *benchKafkaSettings) bind(fs *pflag.FlagSet) {
	fs.StringSliceVar(&s.brokers, "brokers", nil, "brokers to ask first, each `HOST:PORT` (default a broker in this process)")
	numberFlag("records").add(fs, &s.records, "records", "of the input; a tenth are duplicates")
	numberFlag("partitions").addList(fs, &s.partitions, "partitions", "of the topics")
	numberFlag("bytes").addList(fs, &s.valueBytes, "value-bytes", "least length of a value")
	numberFlag("measurements").add(fs, &s.pairs, "pairs", "how often each way is measured")
	countFlag.add(fs, &s.capacity, "capacity", "new IDs in a window that the filters are for")
	durationFlag.addList(fs, &s.CommitIntervals, "commit-interval", "time between commits")
	choiceFlag("CODEC", "none", "gzip", "snappy", "lz4", "zstd").addList(fs, &s.Codecs, "compression", "of input and output")
	durationFlag.add(fs, &s.Latency, "latency", "measure the latency of each way, for this long (default "+
		sizing.FormatDuration(latencyTime)+" where --commit-interval has several values, else not)")
	rateFlag.add(fs, &s.Rate, "rate", "records a second to measure the latency under (default a third of the exactly-once dedup's)")
	seedFlag.add(fs, &s.seed, "seed", "of the records")
	plotFlag.add(fs, &s.plot, "plot", "draw the ratios, or the latency over the commit intervals, into this file")
	bindOutput(fs, &s.output)
	s.bindSecurity(fs)
}

// settle turns what the flags hold into the benchmark's configuration.
func (s *benchKafkaSettings) settle() error {
	for _, n := range []struct {
		flag   string
		values []uint64
	}{{"records", []uint64{s.records}}, {"partitions", s.partitions}, {"value-bytes", s.valueBytes}, {"pairs", []uint64{s.pairs}}} {
		if most := slices.Max(n.values); most > 1<<30 {
			return usagef("--%s %d: want at most %d", n.flag, most, 1<<30)
		}
	}
	s.Records, s.Pairs, s.Seed = int(s.records), int(s.pairs), s.seed.n
	for _, n := range s.partitions {
		s.Partitions = append(s.Partitions, int32(n))
	}
	for _, n := range s.valueBytes {
		s.ValueBytes = append(s.ValueBytes, int(n))
	}
	if s.Latency == 0 && len(s.CommitIntervals) > 1 {
		s.Latency = latencyTime
	}
	return nil
}

// latencyTime is for how long the latency is measured of each way unless it is said.
const latencyTime = 5 * time.Second

// benchKafka runs the benchmark on a broker that there is or on one of its own.
func (a *app) benchKafka(ctx context.Context, s *benchKafkaSettings) (report bench.KafkaReport, err error) {
	c := s.KafkaConfig
	connect, err := s.options()
	if err != nil {
		return report, err
	}
	if len(s.brokers) > 0 {
		c.Broker, err = bench.ConnectBroker(s.brokers, connect...)
	} else {
		c.Broker, err = bench.EmbeddedBroker()
	}
	if err != nil {
		return report, err
	}
	defer c.Broker.Close()
	c.Dedup = func(ctx context.Context, job bench.DedupJob) error {
		run := defaultRun()
		run.connection = s.connection
		run.brokers, run.in, run.out, run.group, run.instance = job.Brokers, []string{job.In}, job.Out, job.Group, "bench"
		run.keys, run.capacity, run.scope, run.commitInterval = job.Keys, s.capacity, job.Scope, job.CommitInterval
		run.delivery, run.unlogged = job.Delivery, job.Unlogged
		_, err := quietly(ctx, run)
		return err
	}
	if err := c.Validate(); err != nil {
		return report, &usageError{err}
	}
	// The copies get the heap that the product gives itself, but for one of them: what they
	// are the measure of is the work, not who makes more garbage before it is collected.
	run := defaultRun()
	run.capacity = s.capacity
	plan, err := run.plan(int(slices.Max(c.Partitions)))
	if err != nil {
		return report, err
	}
	heap := newHeapKeeper()
	heap.plan, heap.most = int64(processNeed(plan, false).heap), math.MaxInt64
	defer heap.keep()()
	status := a.status()
	defer status.clear()
	c.Progress = func(what string) { status.show("measuring: %s", what) }
	return bench.RunKafka(ctx, c)
}

// commandLine is how to run cmd again.
func commandLine(cmd *cobra.Command) string {
	line := []string{cmd.CommandPath()}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		line = append(line, "--"+f.Name, value)
	})
	return strings.Join(line, " ")
}
