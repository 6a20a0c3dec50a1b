package bench

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/streamdedup/streamdedup/sizing"
)

// KafkaReport is the result of [RunKafka].
type KafkaReport struct {
	Environment
	// Embedded says that the broker ran in this process and is part of its CPU
	// time, of every way's alike.
	Embedded         bool    `json:"embedded_broker"`
	Records          int     `json:"records"`
	Partitions       int32   `json:"partitions"`
	ValueBytes       int     `json:"value_bytes"`
	CommitIntervalMS float64 `json:"commit_interval_ms"`
	Compression      string  `json:"compression"`
	Pairs            int     `json:"pairs"`
	// Ratios are the dedup's over each copy's, of events per second and of CPU per
	// event: the median of the ratios within each round.
	SpeedOverPlain         float64 `json:"events_per_second_ratio_to_plain_copy"`
	SpeedOverTransactional float64 `json:"events_per_second_ratio_to_copy_in_transactions"`
	CPUOverPlain           float64 `json:"cpu_ratio_to_plain_copy"`
	CPUOverTransactional   float64 `json:"cpu_ratio_to_copy_in_transactions"`
	// TopicOverPartition is what is left of the dedup's events per second when it
	// looks across the partitions of the topic.
	TopicOverPartition float64 `json:"events_per_second_ratio_of_scope_topic_to_partition"`
	// LoggedOverUnlogged is what the changelog leaves of the events per second.
	LoggedOverUnlogged float64     `json:"events_per_second_ratio_with_changelog_to_without"`
	Results            []WayResult `json:"results"`
}

// WayResult is what was measured of one way: medians, and each run in order.
type WayResult struct {
	Name                  string    `json:"name"`
	MedianEventsPerSecond float64   `json:"median_events_per_second"`
	MedianCPUNSPerEvent   float64   `json:"median_cpu_ns_per_event"`
	EventsPerSecond       []float64 `json:"events_per_second"`
	CPUNSPerEvent         []float64 `json:"cpu_ns_per_event"`
}

// newKafkaReport sums up; ways are plain, transactional, dedup, dedup across
// partitions, and dedup without a changelog.
func newKafkaReport(c KafkaConfig, ways []way, measured []WayResult) KafkaReport {
	for i := range measured {
		m := &measured[i]
		m.Name = ways[i].name
		m.MedianEventsPerSecond = median(slices.Clone(m.EventsPerSecond))
		m.MedianCPUNSPerEvent = median(slices.Clone(m.CPUNSPerEvent))
	}
	plain, transactional, dedup, topic, unlogged := measured[0], measured[1], measured[2], measured[3], measured[4]
	return KafkaReport{
		Environment: NewEnvironment(c.Command, c.Seed), Embedded: c.Broker.Embedded(),
		Records: c.Records, Partitions: c.Partitions, ValueBytes: c.ValueBytes, Pairs: c.Pairs,
		CommitIntervalMS: float64(c.CommitInterval.Milliseconds()), Compression: c.Codec,
		SpeedOverPlain:         medianRatio(dedup.EventsPerSecond, plain.EventsPerSecond),
		SpeedOverTransactional: medianRatio(dedup.EventsPerSecond, transactional.EventsPerSecond),
		CPUOverPlain:           medianRatio(dedup.CPUNSPerEvent, plain.CPUNSPerEvent),
		CPUOverTransactional:   medianRatio(dedup.CPUNSPerEvent, transactional.CPUNSPerEvent),
		TopicOverPartition:     medianRatio(topic.EventsPerSecond, dedup.EventsPerSecond),
		LoggedOverUnlogged:     medianRatio(dedup.EventsPerSecond, unlogged.EventsPerSecond),
		Results:                measured,
	}
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
	fmt.Fprintf(w, "events/s:      exactly-once dedup reaches %.2f of a plain copy, %.2f of a copy in transactions.\n",
		r.SpeedOverPlain, r.SpeedOverTransactional)
	fmt.Fprintf(w, "CPU per event: exactly-once dedup takes %.2f of a plain copy, %.2f of a copy in transactions.\n",
		r.CPUOverPlain, r.CPUOverTransactional)
	fmt.Fprintf(w, "events/s:      with scope topic it reaches %.2f of that with scope partition.\n", r.TopicOverPartition)
	fmt.Fprintf(w, "events/s:      with its changelog it reaches %.2f of that without.\n", r.LoggedOverUnlogged)
	if r.Pairs == 1 {
		fmt.Fprint(w, "Each is the ratio of one round.\n\n")
	} else {
		fmt.Fprintf(w, "Each is the median of %d rounds' own ratios.\n\n", r.Pairs)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tmedian events/s\tlowest\thighest\tmedian CPU ns/event\tlowest\thighest")
	for _, x := range r.Results {
		count := func(f float64) string { return sizing.FormatCount(uint64(f)) }
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\n", x.Name, count(x.MedianEventsPerSecond),
			count(slices.Min(x.EventsPerSecond)), count(slices.Max(x.EventsPerSecond)), x.MedianCPUNSPerEvent,
			slices.Min(x.CPUNSPerEvent), slices.Max(x.CPUNSPerEvent))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	where := "a broker outside of this process"
	if r.Embedded {
		where = "a broker inside this process, whose CPU is counted too"
	}
	fmt.Fprintf(w, "\n%s records of %d bytes, a tenth duplicates, %s, compression %s, commits every %g ms, %s, %s.\n",
		sizing.FormatCount(uint64(r.Records)), r.ValueBytes, plural(int(r.Partitions), "partition"), r.Compression,
		r.CommitIntervalMS, plural(r.Pairs, "round"), where)
	return r.Environment.writeText(w)
}

// plural is "1 round", "2 rounds".
func plural(n int, of string) string {
	if n != 1 {
		of += "s"
	}
	return fmt.Sprintf("%d %s", n, of)
}
