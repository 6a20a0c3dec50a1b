package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/streamdedup/streamdedup/internal/chart"
	"github.com/streamdedup/streamdedup/sizing"
)

// KafkaReport is the result of [RunKafka].
type KafkaReport struct {
	Environment
	// Embedded says that the broker ran in this process and is part of its CPU
	// time, of every way's alike.
	Embedded bool        `json:"embedded_broker"`
	Records  int         `json:"records"`
	Pairs    int         `json:"pairs"`
	Cases    []KafkaCase `json:"cases"`
}

// KafkaCase is what was measured of one combination of settings.
type KafkaCase struct {
	Partitions       int32   `json:"partitions"`
	ValueBytes       int     `json:"value_bytes"`
	CommitIntervalMS float64 `json:"commit_interval_ms"`
	Compression      string  `json:"compression"`
	// Ratios are the exactly-once dedup's over each copy's, of events per second and
	// of CPU per event: the median of the ratios within each round. Those of ways that
	// were not measured are absent.
	SpeedOverPlain         float64 `json:"events_per_second_ratio_to_plain_copy"`
	SpeedOverDefaultGC     float64 `json:"events_per_second_ratio_to_plain_copy_default_gc,omitempty"`
	SpeedOverTransactional float64 `json:"events_per_second_ratio_to_copy_in_transactions,omitempty"`
	CPUOverPlain           float64 `json:"cpu_ratio_to_plain_copy"`
	CPUOverDefaultGC       float64 `json:"cpu_ratio_to_plain_copy_default_gc,omitempty"`
	CPUOverTransactional   float64 `json:"cpu_ratio_to_copy_in_transactions,omitempty"`
	// TopicOverPartition is what is left of the dedup's events per second when it
	// looks across the partitions of the topic.
	TopicOverPartition float64 `json:"events_per_second_ratio_of_scope_topic_to_partition,omitempty"`
	// LoggedOverUnlogged is what the changelog leaves of the events per second.
	LoggedOverUnlogged float64 `json:"events_per_second_ratio_with_changelog_to_without,omitempty"`
	// LatencyRate is how many records a second the latency was measured under.
	LatencyRate float64     `json:"latency_events_per_second,omitempty"`
	Results     []WayResult `json:"results"`
}

// WayResult is what was measured of one way: medians, and each run in order.
type WayResult struct {
	Name string `json:"name"`
	// The medians of the rounds' own ratios to the plain copy.
	SpeedOverPlain        float64   `json:"events_per_second_ratio_to_plain_copy"`
	CPUOverPlain          float64   `json:"cpu_ratio_to_plain_copy"`
	MedianEventsPerSecond float64   `json:"median_events_per_second"`
	MedianCPUNSPerEvent   float64   `json:"median_cpu_ns_per_event"`
	EventsPerSecond       []float64 `json:"events_per_second"`
	CPUNSPerEvent         []float64 `json:"cpu_ns_per_event"`
	Latency               *Latency  `json:"latency,omitempty"`
}

// Latency is the time from when a record was due to be produced to a read_committed
// reader of the output; Added is what is more than the plain copy's.
type Latency struct {
	Records    int     `json:"records"`
	P50MS      float64 `json:"p50_ms"`
	P99MS      float64 `json:"p99_ms"`
	AddedP50MS float64 `json:"added_p50_ms"`
	AddedP99MS float64 `json:"added_p99_ms"`
}

// way is the result of the given name, which must have been measured.
func (c *KafkaCase) way(name string) *WayResult {
	for i := range c.Results {
		if c.Results[i].Name == name {
			return &c.Results[i]
		}
	}
	panic("BUG: bench: " + name + " was not measured")
}

// newKafkaCase sums up.
func newKafkaCase(x kafkaCase, ways []way, measured []WayResult) KafkaCase {
	c := KafkaCase{
		Partitions: x.partitions, ValueBytes: x.valueBytes, Compression: x.codec,
		CommitIntervalMS: float64(x.interval.Microseconds()) / 1e3, Results: measured,
	}
	for i := range measured {
		m := &measured[i]
		m.Name = ways[i].name
		m.MedianEventsPerSecond = median(slices.Clone(m.EventsPerSecond))
		m.MedianCPUNSPerEvent = median(slices.Clone(m.CPUNSPerEvent))
	}
	plain, exactly := c.way(PlainCopy), c.way(ExactlyOnce)
	for i := range measured {
		m := &measured[i]
		m.SpeedOverPlain = medianRatio(m.EventsPerSecond, plain.EventsPerSecond)
		m.CPUOverPlain = medianRatio(m.CPUNSPerEvent, plain.CPUNSPerEvent)
		switch m.Name {
		case DefaultGC:
			c.SpeedOverDefaultGC = medianRatio(exactly.EventsPerSecond, m.EventsPerSecond)
			c.CPUOverDefaultGC = medianRatio(exactly.CPUNSPerEvent, m.CPUNSPerEvent)
		case Transactional:
			c.SpeedOverTransactional = medianRatio(exactly.EventsPerSecond, m.EventsPerSecond)
			c.CPUOverTransactional = medianRatio(exactly.CPUNSPerEvent, m.CPUNSPerEvent)
		case ScopeTopic:
			c.TopicOverPartition = medianRatio(m.EventsPerSecond, exactly.EventsPerSecond)
		case Unlogged:
			c.LoggedOverUnlogged = medianRatio(exactly.EventsPerSecond, m.EventsPerSecond)
		}
	}
	c.SpeedOverPlain, c.CPUOverPlain = exactly.SpeedOverPlain, exactly.CPUOverPlain
	return c
}

// medianRatio is the median of a[i]/b[i], zero where b is not known.
func medianRatio(a, b []float64) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		if b[i] > 0 {
			ratios[i] = a[i] / b[i]
		}
	}
	return median(ratios)
}

// WriteText prints the report for people.
func (r KafkaReport) WriteText(w io.Writer) error {
	for _, c := range r.Cases {
		if len(r.Cases) == 1 {
			c.writeHeadlines(w)
		}
	}
	if r.Pairs == 1 {
		fmt.Fprint(w, "Each ratio is that of one round.\n\n")
	} else {
		fmt.Fprintf(w, "Each ratio is the median of %d rounds' own ratios.\n\n", r.Pairs)
	}
	settings := r.settings()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tof the plain copy:\t\tmedian\t\t\tmedian CPU\t\t")
	fmt.Fprintln(t, "\tevents/s\tCPU\tevents/s\tlowest\thighest\tns/event\tlowest\thighest")
	for i, c := range r.Cases {
		for _, x := range c.Results {
			count := func(f float64) string { return sizing.FormatCount(uint64(f)) }
			fmt.Fprintf(t, "%s%s\t%.2f\t%.2f\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\n", settings[i], x.Name, x.SpeedOverPlain, x.CPUOverPlain,
				count(x.MedianEventsPerSecond), count(slices.Min(x.EventsPerSecond)), count(slices.Max(x.EventsPerSecond)),
				x.MedianCPUNSPerEvent, slices.Min(x.CPUNSPerEvent), slices.Max(x.CPUNSPerEvent))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.hasLatency() {
		if err := r.writeLatency(w, settings); err != nil {
			return err
		}
	}
	where := "a broker outside of this process"
	if r.Embedded {
		where = "a broker inside this process, whose CPU is counted too"
	}
	fmt.Fprintf(w, "\n%s records, a tenth duplicates, %s, %s, %s.\n", sizing.FormatCount(uint64(r.Records)), r.common(),
		plural(r.Pairs, "round"), where)
	return r.writeText(w)
}

// writeHeadlines says the ratios of a case in words.
func (c KafkaCase) writeHeadlines(w io.Writer) {
	fmt.Fprintf(w, "events/s:      exactly-once dedup reaches %.2f of a plain copy, %.2f of one with Go's default GC, %.2f of a copy in transactions.\n",
		c.SpeedOverPlain, c.SpeedOverDefaultGC, c.SpeedOverTransactional)
	fmt.Fprintf(w, "CPU per event: exactly-once dedup takes %.2f of a plain copy, %.2f of one with Go's default GC, %.2f of a copy in transactions.\n",
		c.CPUOverPlain, c.CPUOverDefaultGC, c.CPUOverTransactional)
	fmt.Fprintf(w, "events/s:      with scope topic it reaches %.2f of that with scope partition.\n", c.TopicOverPartition)
	fmt.Fprintf(w, "events/s:      with its changelog it reaches %.2f of that without.\n", c.LoggedOverUnlogged)
}

func (r KafkaReport) hasLatency() bool {
	return slices.ContainsFunc(r.Cases, func(c KafkaCase) bool { return c.LatencyRate > 0 })
}

func (r KafkaReport) writeLatency(w io.Writer, settings []string) error {
	fmt.Fprint(w, "\nLatency, from due to be produced to read_committed by a reader of the output, under a steady load:\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tadded p50 ms\tadded p99 ms\tp50 ms\tp99 ms\trecords/s")
	for i, c := range r.Cases {
		for _, x := range c.Results {
			if l := x.Latency; l != nil {
				fmt.Fprintf(t, "%s%s\t%.1f\t%.1f\t%.1f\t%.1f\t%s\n", settings[i], x.Name, l.AddedP50MS, l.AddedP99MS, l.P50MS, l.P99MS,
					sizing.FormatCount(uint64(c.LatencyRate)))
			}
		}
	}
	return t.Flush()
}

// dimension is a setting that cases may differ in.
type dimension struct {
	of    func(c KafkaCase) float64 // nil for words
	words func(c KafkaCase) string
	label string
}

var dimensions = []dimension{
	{nil, func(c KafkaCase) string { return "compression " + c.Compression }, ""},
	{func(c KafkaCase) float64 { return float64(c.ValueBytes) }, func(c KafkaCase) string { return fmt.Sprintf("%d bytes", c.ValueBytes) }, "bytes of a value"},
	{func(c KafkaCase) float64 { return float64(c.Partitions) }, func(c KafkaCase) string { return plural(int(c.Partitions), "partition") }, "partitions"},
	{func(c KafkaCase) float64 { return c.CommitIntervalMS }, func(c KafkaCase) string { return fmt.Sprintf("commits every %g ms", c.CommitIntervalMS) }, "ms between commits"},
}

// varying are the dimensions that the cases differ in, and common what they share.
func (r KafkaReport) varying() (varying []dimension) {
	for _, d := range dimensions {
		if slices.ContainsFunc(r.Cases, func(c KafkaCase) bool { return d.words(c) != d.words(r.Cases[0]) }) {
			varying = append(varying, d)
		}
	}
	return varying
}

func (r KafkaReport) common() string {
	var words []string
	for _, d := range dimensions {
		if !slices.ContainsFunc(r.Cases, func(c KafkaCase) bool { return d.words(c) != d.words(r.Cases[0]) }) {
			words = append(words, d.words(r.Cases[0]))
		}
	}
	return strings.Join(words, ", ")
}

// settings tell the cases apart: "lz4, 4 partitions: ".
func (r KafkaReport) settings() []string {
	settings := make([]string, len(r.Cases))
	for i, c := range r.Cases {
		var words []string
		for _, d := range r.varying() {
			words = append(words, d.words(c))
		}
		if len(words) > 0 {
			settings[i] = strings.Join(words, ", ") + ": "
		}
	}
	return settings
}

// WriteSVG draws what the cases show: over the one number that they differ in, the
// added latency if that is the commit interval, else events per second beside the
// plain copy's; otherwise that for each case.
func (r KafkaReport) WriteSVG(w io.Writer) error {
	const title = "Events per second beside a plain copy's"
	if varying := r.varying(); len(varying) == 1 && varying[0].of != nil {
		d := varying[0]
		c := chart.Lines{Title: title, Note: r.note(), XLabel: d.label, YLabel: "of the plain copy's events per second", LogX: true}
		for _, x := range r.Cases {
			c.XTicks = append(c.XTicks, chart.Tick{At: d.of(x), Label: fmt.Sprint(d.of(x))})
		}
		slices.SortFunc(c.XTicks, func(a, b chart.Tick) int { return cmp.Compare(a.At, b.At) })
		if r.hasLatency() && d.label == dimensions[len(dimensions)-1].label {
			c.Title, c.YLabel = "Latency beside a plain copy's", "ms more than the plain copy takes"
			c.Series = append(r.lines(d, " p50", func(x WayResult) float64 { return x.Latency.AddedP50MS }),
				r.lines(d, " p99", func(x WayResult) float64 { return x.Latency.AddedP99MS })...)
		} else {
			c.Series = r.lines(d, "", func(x WayResult) float64 { return x.SpeedOverPlain })
		}
		return c.WriteSVG(w)
	}
	b := chart.Bars{Title: title, Note: r.note(), YLabel: "of the plain copy's events per second"}
	for i, s := range r.settings() {
		for _, x := range r.Cases[i].Results {
			b.Names, b.Values = append(b.Names, s+x.Name), append(b.Values, x.SpeedOverPlain)
		}
	}
	return b.WriteSVG(w)
}

// lines are a value of each way but the plain copy over a dimension.
func (r KafkaReport) lines(d dimension, suffix string, value func(WayResult) float64) (series []chart.Series) {
	for n, x := range r.Cases[0].Results {
		if x.Name == PlainCopy {
			continue
		}
		s := chart.Series{Name: x.Name + suffix}
		for _, c := range r.Cases {
			s.X, s.Y = append(s.X, d.of(c)), append(s.Y, value(c.Results[n]))
		}
		series = append(series, s)
	}
	return series
}

// plural is "1 round", "2 rounds".
func plural(n int, of string) string {
	if n != 1 {
		of += "s"
	}
	return fmt.Sprintf("%d %s", n, of)
}
