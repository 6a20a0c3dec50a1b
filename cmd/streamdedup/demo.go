package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/bench"
	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/audit"
	"github.com/streamdedup/streamdedup/internal/workload"
	"github.com/streamdedup/streamdedup/sizing"
)

// demoSettings is the configuration of demo.
type demoSettings struct {
	records    uint64
	workload   workload.Kind
	partitions uint64
	seed       seed
	fpr        float64
	window     time.Duration
	capacity   uint64
	kind       sizing.Kind
	layout     filter.Layout
	output     string
}

var workloadFlag = kindOf[workload.Kind]{"KIND", workload.ParseKind, workload.Kind.String}

func newDemoCmd(a *app) *cobra.Command {
	s := &demoSettings{
		records: 1_000_000, partitions: 4, seed: seed{1, true},
		fpr: defaultFPR, window: defaultWindow, capacity: defaultCapacity,
	}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the main job end to end: an embedded broker, a million clicks, an exact audit",
		Long: `Show the main job end to end, with nothing to install.

Starts a broker that speaks Kafka's protocol inside this process, fills a topic
with a window's worth of events of which a tenth are duplicates (retries, replays,
a hot event; out of order, and some from wrong clocks), runs the stream processor
from topic to topic as ` + "`run`" + ` does, and audits the output exactly. Exits 1 if the
audit fails.`,
		Example: `  streamdedup demo
  streamdedup demo --workload telemetry --fpr 0.01 --capacity 1M`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), s) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	alias(fs, "elements", "capacity")
	workloadFlag.add(fs, &s.workload, "workload", "what to make: clicks or telemetry")
	numberFlag("records").add(fs, &s.records, "records", "how many records to make")
	numberFlag("partitions").add(fs, &s.partitions, "partitions", "of the topics")
	windowFlag.add(fs, &s.window, "window", "how long an ID is remembered; the records spread over as long")
	shareFlag.add(fs, &s.fpr, "fpr", "share of new records that may be taken for seen")
	countFlag.add(fs, &s.capacity, "capacity", "new IDs in a window that the filters are for")
	kindFlag.add(fs, &s.kind, "filter", "what remembers the IDs: sliced or classic")
	layoutFlag.add(fs, &s.layout, "layout", "of the sliced filter: compact or fast")
	seedFlag.add(fs, &s.seed, "seed", "of the records; the same seed makes the same IDs and duplicates")
	bindOutput(fs, &s.output)
	return cmd
}

const (
	demoTopic = "events"
	demoOut   = "events-unique"
	demoGroup = "demo"
	// demoCopies: one record in ten is a duplicate.
	demoCopies = 10
	// maxDemoPartitions is plenty for a broker and a processor on one machine.
	maxDemoPartitions = 1 << 10
)

// stream is what the demo makes.
func (s *demoSettings) stream() workload.Config {
	copies := int(s.records / demoCopies)
	return workload.Config{
		Kind: s.workload, Seed: s.seed.n, Events: int(s.records) - copies, Copies: copies,
		Partitions: int32(s.partitions), Window: s.window,
		Start: time.Now().Add(-s.window), Span: s.window, Skew: true,
	}
}

// run is how run would be called.
func (s *demoSettings) run(brokers []string) *runSettings {
	r := defaultRun()
	r.brokers, r.in, r.out, r.group, r.instance = brokers, []string{demoTopic}, demoOut, demoGroup, "demo"
	r.keys = s.workload.KeySpecs()
	r.window, r.fpr, r.capacity, r.kind, r.layout = s.window, s.fpr, s.capacity, s.kind, s.layout
	return r
}

// demo runs the demo and prints its result.
func (a *app) demo(ctx context.Context, s *demoSettings) error {
	if s.records < 1 || s.records > 1<<30 {
		return usagef("--records %d: want 1 to %d", s.records, 1<<30)
	}
	if s.partitions > maxDemoPartitions {
		return usagef("--partitions %d: want at most %d", s.partitions, maxDemoPartitions)
	}
	w := s.stream()
	generator, err := workload.New(w)
	if err != nil {
		return &usageError{err}
	}
	broker, err := bench.EmbeddedBroker()
	if err != nil {
		return err
	}
	defer broker.Close()
	processor := s.run(broker.Addresses())
	if err := processor.check(); err != nil {
		return err
	}
	status := a.status()
	defer status.clear()
	for _, topic := range []string{demoTopic, demoOut} {
		if err := broker.CreateTopic(ctx, topic, w.Partitions); err != nil {
			return err
		}
	}
	err = broker.Produce(ctx, demoTopic, generator, w.Records(), func(n int) {
		status.show("producing: %s of %s", sizing.FormatCount(uint64(n)), sizing.FormatCount(s.records))
	})
	if err != nil {
		return err
	}
	read := time.Now()
	done, err := processed(ctx, broker, processor, demoTopic, func(lag int64) {
		status.show("deduplicating: %s to go", sizing.FormatCount(uint64(lag)))
	})
	if err != nil {
		return err
	}
	report, err := auditTopics(ctx, topicAudit{
		connect: []kgo.Opt{kgo.SeedBrokers(broker.Addresses()...)}, in: demoTopic, out: demoOut, to: latest(),
		config: audit.Config{
			Keys: processor.keys, Time: processor.time, TimeFormat: processor.timeFormat, Window: s.window,
			FPR: s.fpr, ReadFrom: read, ReadTo: time.Now(), MaxRecords: int(s.records),
		},
		progress: func(partition int32, _ int) { status.show("auditing partition %d", partition) },
		say:      func(format string, args ...any) { status.show(format, args...) },
	})
	if err != nil {
		return err
	}
	status.clear()
	result := newDemoResult(s, done, report)
	if err := a.report(result, s.output); err != nil {
		return err
	}
	return result.err()
}

// outcome is what a stream processor said and took.
type outcome struct {
	summary summary
	took    time.Duration
	cpu     time.Duration
}

// processed runs the stream processor until it has read all of a topic. It is
// measured from the first record to the last commit.
func processed(ctx context.Context, broker *bench.Broker, s *runSettings, topic string, progress func(lag int64)) (outcome, error) {
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var o outcome
	ended := make(chan error, 1)
	go func() {
		var err error
		o.summary, err = quietly(running, s)
		ended <- err
		stop(errors.Join(err, errors.New("the stream processor ended by itself")))
	}()
	err := broker.AwaitBegin(running, s.group, topic)
	began, used := time.Now(), bench.CPUTime()
	if err == nil {
		err = broker.AwaitEnd(running, s.group, topic, progress)
	}
	took, cpu := time.Since(began), bench.CPUTime()-used
	stop(nil)
	if err := errors.Join(err, <-ended); err != nil {
		return outcome{}, fmt.Errorf("run the stream processor: %w", err)
	}
	o.took, o.cpu = took, cpu
	return o, nil
}

// quietly runs the stream processor until ctx ends and returns its summary. It
// says nothing but errors, which are its error's text.
func quietly(ctx context.Context, s *runSettings) (summary, error) {
	var stderr bytes.Buffer
	inner := &app{stdin: bytes.NewReader(nil), stdout: io.Discard, stderr: &stderr}
	s.metricsAddr, s.stateDir, s.summary, s.logLevel = metricsOff, stateDirOff, summaryJSON, "error"
	if err := inner.stream(ctx, s); err != nil {
		return summary{}, fmt.Errorf("%w\n%s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	var sum summary
	if stderr.Len() == 0 {
		return sum, nil // it was stopped before it began
	}
	if err := json.Unmarshal(stderr.Bytes(), &sum); err != nil {
		return summary{}, fmt.Errorf("read the summary %q: %w", stderr.Bytes(), err)
	}
	return sum, nil
}

// demoResult is what the demo shows. Missed, withheld and the rest come from the
// audit, not from the processor's own counts.
type demoResult struct {
	Workload         string       `json:"workload"`
	Seed             uint64       `json:"seed"`
	Partitions       int32        `json:"partitions"`
	In               uint64       `json:"in"`
	Unique           uint64       `json:"unique"`
	Duplicate        uint64       `json:"duplicate"`
	MissedDuplicates uint64       `json:"missed_duplicates"`
	Withheld         uint64       `json:"withheld"`
	WithheldBudget   float64      `json:"withheld_budget"`
	WithheldAllowed  uint64       `json:"withheld_allowed"`
	Lost             uint64       `json:"lost"`
	Seconds          float64      `json:"seconds"`
	EventsPerSecond  float64      `json:"events_per_second"`
	MemoryBytes      uint64       `json:"memory_bytes"`
	CPUNSPerEvent    float64      `json:"cpu_ns_per_event"`
	OK               bool         `json:"ok"`
	Audit            audit.Report `json:"audit"`

	unlearned uint64
	bytesPer  float64
}

func newDemoResult(s *demoSettings, o outcome, r audit.Report) *demoResult {
	d := &demoResult{
		Workload: s.workload.String(), Seed: s.seed.n, Partitions: int32(s.partitions),
		In: r.In, Unique: r.Unique, Duplicate: r.Duplicate, MissedDuplicates: r.Missed.Count,
		Withheld: r.Withheld.Count, WithheldBudget: r.Budget, WithheldAllowed: r.Allowed,
		// Whatever is in the input must be in the output or be dropped on purpose.
		Lost:    max(r.In, r.Out+o.summary.Dropped+o.summary.Diverted) - r.Out - o.summary.Dropped - o.summary.Diverted + r.Lost.Count,
		Seconds: o.took.Seconds(), EventsPerSecond: float64(r.In) / o.took.Seconds(),
		MemoryBytes: o.summary.MemoryBytes, CPUNSPerEvent: float64(o.cpu.Nanoseconds()) / float64(r.In),
		Audit: r, unlearned: o.summary.Unlearned,
		bytesPer: float64(o.summary.MemoryBytes) / float64(s.capacity),
	}
	d.OK = r.OK && d.Lost == 0 && o.summary.In == r.In
	return d
}

func (d *demoResult) err() error {
	switch {
	case d.OK:
		return nil
	case d.MissedDuplicates > 0 && d.unlearned > 0:
		return withHint(d.Audit.Err(), fmt.Sprintf("%d IDs did not fit into the filters: raise --capacity", d.unlearned))
	case d.Audit.Err() != nil:
		return d.Audit.Err()
	}
	return fmt.Errorf("%d records are neither in the output nor counted as dropped", d.Lost)
}

// WriteText prints the table for people.
func (d *demoResult) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(label, figure, note string) { fmt.Fprintf(t, "%s\t%s\t%s\n", label, figure, note) }
	row("in", sizing.FormatCount(d.In), fmt.Sprintf("%s, %s, seed %d", d.Workload, plural(int(d.Partitions), "partition"), d.Seed))
	row("unique", sizing.FormatCount(d.Unique), "came out, byte for byte, once, in order")
	row("duplicate", sizing.FormatCount(d.Duplicate), "dropped")
	row("missed duplicates", sizing.FormatCount(d.MissedDuplicates), "must be 0")
	row("withheld first copies", sizing.FormatCount(d.Withheld), fmt.Sprintf("false positives; budget %.4g, allowed %d", d.WithheldBudget, d.WithheldAllowed))
	row("lost", sizing.FormatCount(d.Lost), "must be 0")
	row("events/s", sizing.FormatCount(uint64(d.EventsPerSecond)), fmt.Sprintf("in %.2f s, exactly once, broker in this process", d.Seconds))
	row("CPU per event", fmt.Sprintf("%.0f ns", d.CPUNSPerEvent), "of processor and broker together")
	row("filter memory", sizing.FormatBytes(d.MemoryBytes), fmt.Sprintf("%.2f bytes for each ID of the capacity, with its reserve", d.bytesPer))
	if err := t.Flush(); err != nil {
		return err
	}
	verdict := "audit: every record checked, all as promised"
	if !d.OK {
		verdict = "audit: FAILED\n" + d.Audit.String()
	}
	_, err := fmt.Fprintln(w, verdict)
	return err
}
