package admin

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

// Source is where the figures come from. Its functions are called by any number
// of goroutines at once.
type Source struct {
	// Snapshot is the engine's.
	Snapshot func() *pipeline.Snapshot
	// Lag is how many records each assigned partition has left to read. It may be
	// nil, and leave out what it does not know.
	Lag func() map[pipeline.Partition]int64
	// Standstills are the partitions that go no further although nothing has failed.
	// It may be nil.
	Standstills func() []pipeline.Standstill
	// Restoring is how far the restores under way have come, from 0 to 1. It may be nil.
	Restoring func() map[pipeline.Partition]float64
	// Routes is the snapshot of the stage that shares the input out, nil where there
	// is none.
	Routes func() *pipeline.RouteSnapshot
	// NotCopied is how many duplicates the duplicates topic refused. It may be nil.
	NotCopied func() uint64
	// Budget is the rate that a filter may have.
	Budget float64
	// GenerationCapacity is how many IDs fill a generation of a partition, and
	// Slice how much stream time it covers.
	GenerationCapacity uint64
	Slice              time.Duration
	// Info is how the stream is deduplicated.
	Info Info
}

// Info is what is configured, for who looks at a dashboard and asks whether, and by
// what, duplicates are looked for at all.
type Info struct{ Key, Time, Window, Scope, Delivery, OnDuplicate string }

// notCopied is what the source knows of it.
func (s *Source) notCopied() uint64 {
	if s.NotCopied == nil {
		return 0
	}
	return s.NotCopied()
}

// Metrics are the figures of one engine. It is safe for concurrent use.
type Metrics struct {
	start    time.Time
	source   atomic.Pointer[Source]
	recent   recent
	registry *prometheus.Registry
	latency  prometheus.Histogram
	commit   prometheus.Histogram
	restore  prometheus.Histogram
	// checkpoint is how long those took that are durable; failed counts the others.
	checkpoint prometheus.Histogram
	failed     prometheus.Counter
}

// NewMetrics makes metrics in a registry of their own. They are those of an
// engine that has done nothing until there is one to watch.
func NewMetrics() *Metrics {
	m := &Metrics{start: time.Now(), registry: prometheus.NewRegistry()}
	with := promauto.With(m.registry)
	histogram := func(name, help string, from float64) prometheus.Histogram {
		return with.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(from, 2, 16),
		})
	}
	m.latency = histogram("streamdedup_latency_seconds",
		"From reading to commit, of the oldest record of each commit.", 0.002)
	m.commit = histogram("streamdedup_commit_seconds",
		"How long commits took, from asking to knowing.", 0.001)
	m.restore = histogram("streamdedup_restore_seconds",
		"How long a partition took from its assignment to its first verdict.", 0.01)
	m.checkpoint = histogram("streamdedup_checkpoint_seconds",
		"How long a checkpoint took from its beginning until it was durable.", 0.01)
	m.failed = with.NewCounter(prometheus.CounterOpts{
		Name: "streamdedup_checkpoint_failures_total", Help: "Checkpoints that were given up; an older one, or the changelog, serves instead.",
	})
	m.registry.MustRegister(
		&collector{m},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Watch says where the figures come from, from now on.
func (m *Metrics) Watch(s Source) { m.source.Store(&s) }

// snapshot is the watched engine's, nil before there is one.
func (m *Metrics) snapshot() *pipeline.Snapshot {
	s := m.source.Load()
	switch {
	case s == nil:
		return nil
	case s.Routes != nil:
		return withRoutes(s.Snapshot(), s.Routes())
	}
	return s.Snapshot()
}

// restoring is how far restores have come.
func (m *Metrics) restoring() map[pipeline.Partition]float64 {
	if s := m.source.Load(); s != nil && s.Restoring != nil {
		return s.Restoring()
	}
	return nil
}

// Events are the engine's callbacks that feed what snapshots do not have.
func (m *Metrics) Events() pipeline.Events {
	return pipeline.Events{
		Settled: func(how pipeline.Settlement, took time.Duration, counts *pipeline.Counts, oldest int64) {
			if how != pipeline.Committed {
				return
			}
			m.recent.add(time.Now(), counts)
			m.commit.Observe(took.Seconds())
			m.latency.Observe(time.Since(time.UnixMilli(oldest)).Seconds())
		},
		Restored: func(_ pipeline.Partition, took time.Duration) { m.restore.Observe(took.Seconds()) },
		Checkpointed: func(_ pipeline.Partition, took time.Duration, _ uint64, err error) {
			if err != nil {
				m.failed.Inc()
				return
			}
			m.checkpoint.Observe(took.Seconds())
		},
	}
}

// collector turns snapshots into metrics when it is asked.
type collector struct{ metrics *Metrics }

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("streamdedup_"+name, help, labels, nil)
}

var (
	descRecords     = describe("records_total", "Committed records by what they are.", "verdict")
	descFate        = describe("fate_total", "Committed records by where they went.", "fate")
	descMarks       = describe("marks_total", "Committed records by mark; a record may have several.", "mark")
	descUnsupported = describe("unsupported_ids_total",
		"Committed records whose ID is a JSON array or object; they are among the missing.")
	descRepeated = describe("repeated_headers_total",
		"Committed records with several headers of a name that is in the ID; the last one counts.")
	descAge = describe("duplicate_age_seconds",
		"How long before a duplicate its first copy was read, in stream time; the resolution is one generation.")
	descNotCopied = describe("duplicates_not_copied_total",
		"Duplicates that were too large for the duplicates topic; they are dropped, or come out tagged, all the same.")
	descFill = describe("filter_fill_ratio",
		"IDs in a generation by what it is planned for; generation 0 is the one filling, 7 the oldest.", "topic", "partition", "generation")
	descFPR      = describe("filter_fpr_estimate", "Share of new records now taken for seen, from the bits that are set.", "topic", "partition")
	descFull     = describe("generation_full", "1 while the filling generation takes no more IDs.", "topic", "partition")
	descBytes    = describe("filter_bytes", "Memory of the filters, without their undo journals.")
	descSlabs    = describe("filter_slabs", "Filters that a partition has besides the planned one, as generations got more new IDs than planned.", "topic", "partition")
	descTime     = describe("stream_time_seconds", "The stream's time, in seconds since the epoch.", "topic", "partition")
	descCoverage = describe("window_coverage_ratio", "How much of the window the memory knows.", "topic", "partition")
	descRestore  = describe("restore_progress_ratio", "How far the restore of a partition's memory has come.", "topic", "partition")
	descStopped  = describe("partition_stopped", "1 while the partition goes no further until someone acts; /healthz says why.", "topic", "partition")
	descLag      = describe("lag_records", "Offsets not committed yet, up to the last stable one.", "topic", "partition")
	descTxn      = describe("transactions_total", "Transactions by how they ended.", "outcome")
	descInfo     = describe("config_info", "How duplicates are looked for; always 1.", "key", "time", "window", "scope", "delivery", "on_duplicate")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descRecords, descFate, descMarks, descUnsupported, descRepeated, descAge, descFill, descFPR, descFull,
		descBytes, descSlabs, descTime, descCoverage, descRestore, descStopped, descHeld, descLag, descBlocked, descTxn,
		descInfo, descWarning, descMissing, descAhead,
		descMeasured, descAudited, descAuditedNew, descFalsePositives, descClashes, descHot, descNotCopied,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	// Last, so that in a scrape that has the counts of a commit the health is not from
	// before it.
	defer c.metrics.collectHealth(to)
	source := c.metrics.source.Load()
	if source == nil {
		source = &Source{Snapshot: func() *pipeline.Snapshot { return &pipeline.Snapshot{} }}
	} else {
		i := source.Info
		gauge(to, descInfo, 1, i.Key, i.Time, i.Window, i.Scope, i.Delivery, i.OnDuplicate)
	}
	s := source.Snapshot()
	counts(to, &s.Counts)
	collectAudit(to, &s.Counts.Audit)
	counter(to, descNotCopied, source.notCopied())
	to <- ages(&s.Counts, source.Slice)
	for how, n := range s.Settled {
		counter(to, descTxn, n, pipeline.Settlement(how).String())
	}
	var bytes uint64
	for i := range s.Partitions {
		p := &s.Partitions[i]
		bytes += p.Window.Bytes
		gauge(to, descStopped, oneIf(p.Stopped != nil), p.Partition.Topic, number(p.Partition))
		if p.Restored {
			memory(to, p.Partition, &p.Window, source)
			gauge(to, descHot, p.Hot.Share, p.Partition.Topic, number(p.Partition))
		}
	}
	gauge(to, descBytes, float64(bytes))
	if source.Restoring != nil {
		for p, done := range source.Restoring() {
			gauge(to, descRestore, done, p.Topic, number(p))
		}
	}
	if source.Routes != nil {
		collectRoutes(to, source.Routes())
	}
	if source.Lag == nil {
		return
	}
	for p, lag := range source.Lag() {
		gauge(to, descLag, float64(lag), p.Topic, number(p))
	}
	blocked(to, source)
}

// counts are the sums over all partitions.
func counts(to chan<- prometheus.Metric, n *pipeline.Counts) {
	for v, count := range n.Verdicts {
		counter(to, descRecords, count, pipeline.Verdict(v).String())
	}
	for f, count := range n.Fates {
		counter(to, descFate, count, pipeline.Fate(f).String())
	}
	for _, mark := range marks {
		counter(to, descMarks, n.Marked(mark.bit), mark.name)
	}
	counter(to, descUnsupported, n.Unsupported)
	counter(to, descRepeated, n.RepeatedHeaders)
}

var marks = []struct {
	bit  pipeline.Marks
	name string
}{
	{pipeline.Late, "late"}, {pipeline.Ahead, "ahead"}, {pipeline.NoTime, "no_time"},
	{pipeline.Jump, "jump"}, {pipeline.Retimed, "retimed"}, {pipeline.Unlearned, "unlearned"},
}

// ages is the histogram of duplicates' ages. A first copy that was read a
// generations ago is at most a+1 slices old, and a on average.
func ages(n *pipeline.Counts, of time.Duration) prometheus.Metric {
	var count uint64
	var sum float64
	slice := of.Seconds()
	buckets := make(map[float64]uint64, len(n.Ages))
	for a, duplicates := range n.Ages {
		count += duplicates
		sum += float64(duplicates) * max(0.5, float64(a)) * slice
		buckets[float64(a+1)*slice] = count
	}
	return prometheus.MustNewConstHistogram(descAge, count, sum, buckets)
}

// memory is what one partition remembers.
func memory(to chan<- prometheus.Metric, p pipeline.Partition, w *window.Stats, source *Source) {
	for age, load := range w.Loads {
		gauge(to, descFill, float64(load)/float64(source.GenerationCapacity), p.Topic, number(p), strconv.Itoa(age))
	}
	gauge(to, descFPR, w.FPR, p.Topic, number(p))
	gauge(to, descCoverage, w.Coverage, p.Topic, number(p))
	gauge(to, descSlabs, float64(w.Slabs), p.Topic, number(p))
	gauge(to, descFull, oneIf(w.Full), p.Topic, number(p))
	if w.StreamTime != window.NoTime {
		gauge(to, descTime, float64(w.StreamTime)/1000, p.Topic, number(p))
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func number(p pipeline.Partition) string { return strconv.Itoa(int(p.Number)) }

func counter(to chan<- prometheus.Metric, d *prometheus.Desc, n uint64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func gauge(to chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}
