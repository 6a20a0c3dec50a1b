package bench

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"
	"time"
)

func kafkaConfig() KafkaConfig {
	return KafkaConfig{
		Broker: &Broker{}, Dedup: func(context.Context, DedupJob) error { return nil },
		Records: 100, Partitions: []int32{1, 4}, ValueBytes: []int{100}, CommitIntervals: []time.Duration{time.Second},
		Codecs: []string{"none", "lz4"}, Pairs: 3,
	}
}

func TestKafkaConfigValidate(t *testing.T) {
	t.Parallel()
	f := func(change func(*KafkaConfig), want string) {
		t.Helper()
		c := kafkaConfig()
		change(&c)
		err := c.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f(func(*KafkaConfig) {}, "")
	f(func(c *KafkaConfig) { c.Dedup = nil }, "Broker and Dedup")
	f(func(c *KafkaConfig) { c.Pairs = 0 }, "Pairs is 0")
	f(func(c *KafkaConfig) { c.Latency = time.Hour }, "Latency is 1h")
	f(func(c *KafkaConfig) { c.Rate = -1 }, "Rate -1")
	f(func(c *KafkaConfig) { c.Codecs = nil }, "nothing is to be measured")
	f(func(c *KafkaConfig) { c.Codecs = append(c.Codecs, "rar") }, `"rar"`)
	f(func(c *KafkaConfig) { c.CommitIntervals = []time.Duration{0} }, "CommitInterval is 0s")
	f(func(c *KafkaConfig) { c.Partitions = []int32{0} }, "Partitions")
}

// Cases with the same input follow each other, so that each is written once.
func TestKafkaCases(t *testing.T) {
	t.Parallel()
	c := kafkaConfig()
	c.CommitIntervals = append(c.CommitIntervals, time.Minute)
	inputs := map[kafkaCase]int{}
	var last kafkaCase
	for i, x := range c.cases() {
		if i == 0 || x.input() != last {
			inputs[x.input()]++
		}
		last = x.input()
	}
	if len(c.cases()) != 8 || len(inputs) != 4 {
		t.Errorf("%d cases of %d inputs, want 8 of 4", len(c.cases()), len(inputs))
	}
	for x, n := range inputs {
		if n != 1 {
			t.Errorf("the input of %s is written %d times", x, n)
		}
	}
}

// A ratio is the median of the rounds' own, which is not the ratio of the medians.
func TestKafkaRatios(t *testing.T) {
	t.Parallel()
	c := newKafkaCase(kafkaCase{"none", 230, 4, 200 * time.Millisecond}, kafkaConfig().ways(true), []WayResult{
		{EventsPerSecond: []float64{100, 200, 400}, CPUNSPerEvent: []float64{10, 10, 10}},
		{EventsPerSecond: []float64{100, 100, 100}, CPUNSPerEvent: []float64{8, 8, 8}},
		{EventsPerSecond: []float64{100, 100, 100}, CPUNSPerEvent: []float64{20, 20, 20}},
		{EventsPerSecond: []float64{100, 100, 100}, CPUNSPerEvent: []float64{11, 11, 11}},
		{EventsPerSecond: []float64{90, 190, 40}, CPUNSPerEvent: []float64{12, 11, 30}},
		{EventsPerSecond: []float64{45, 95, 20}, CPUNSPerEvent: []float64{1, 1, 1}},
		{EventsPerSecond: []float64{100, 200, 50}, CPUNSPerEvent: []float64{1, 1, 1}},
	})
	f := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	f("speed over plain", c.SpeedOverPlain, 0.9)
	f("CPU over plain", c.CPUOverPlain, 1.2)
	f("speed over default GC", c.SpeedOverDefaultGC, 0.9)
	f("CPU over default GC", c.CPUOverDefaultGC, 1.5)
	f("speed over transactional", c.SpeedOverTransactional, 0.9)
	f("CPU over transactional", c.CPUOverTransactional, 0.6)
	f("topic over partition", c.TopicOverPartition, 0.5)
	f("logged over unlogged", c.LoggedOverUnlogged, 0.9)
	f("at-least-once over plain", c.way(AtLeastOnce).SpeedOverPlain, 0.5)
	f("median", c.way(ExactlyOnce).MedianEventsPerSecond, 90)
	f("unknown CPU time", medianRatio([]float64{1}, []float64{0}), 0)
}

func TestKafkaReport(t *testing.T) {
	t.Parallel()
	base := KafkaCase{Partitions: 4, ValueBytes: 230, Compression: "none", CommitIntervalMS: 200, Results: []WayResult{
		{Name: PlainCopy, SpeedOverPlain: 1, EventsPerSecond: []float64{10}, CPUNSPerEvent: []float64{3}},
		{Name: ExactlyOnce, SpeedOverPlain: 0.93, EventsPerSecond: []float64{9}, CPUNSPerEvent: []float64{4}},
	}}
	f := func(words, drawn string, cases ...func(*KafkaCase)) {
		t.Helper()
		r := KafkaReport{Environment: Environment{Command: "a command"}, Records: 1000, Pairs: 1}
		for _, change := range cases {
			c := base
			c.Results = append([]WayResult(nil), base.Results...)
			change(&c)
			r.Cases = append(r.Cases, c)
		}
		var text, svg bytes.Buffer
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if err := r.WriteSVG(&svg); err != nil {
			t.Fatal(err)
		}
		for _, w := range append(strings.Split(words, "|"), "0.93", "a command") {
			if !strings.Contains(text.String(), w) {
				t.Errorf("the text does not say %q:\n%s", w, &text)
			}
		}
		for w := range strings.SplitSeq(drawn, "|") {
			if !strings.Contains(svg.String(), w) {
				t.Errorf("the drawing does not say %q:\n%s", w, &svg)
			}
		}
	}
	none := func(*KafkaCase) {}
	partitions := func(n int32) func(*KafkaCase) { return func(c *KafkaCase) { c.Partitions = n } }
	interval := func(ms float64) func(*KafkaCase) {
		return func(c *KafkaCase) {
			c.CommitIntervalMS, c.LatencyRate = ms, 500
			c.Results[0].Latency = &Latency{P50MS: 2, P99MS: 3}
			c.Results[1].Latency = &Latency{P50MS: ms, P99MS: 2 * ms, AddedP50MS: ms - 2, AddedP99MS: 2*ms - 3}
		}
	}
	f("0.00 of a copy in|compression none, 230 bytes, 4 partitions, commits every 200 ms", "exactly-once dedup", none)
	f("1 partition: exactly-once dedup|64 partitions: plain copy|none, 230 bytes, commits", ">partitions<|>64<|>1<", partitions(1), partitions(64))
	f("commits every 10 ms: exactly|added p99 ms|97.0|197.0", "Latency beside|exactly-once dedup p99|ms between commits", interval(10), interval(100))
	f("compression lz4: plain", "compression lz4: exactly-once dedup", none, func(c *KafkaCase) { c.Compression = "lz4" })
	f("lz4, 1 partition: plain", "lz4, 1 partition: exactly-once dedup", none, func(c *KafkaCase) { c.Compression, c.Partitions = "lz4", 1 })
}

// Of an even number of rounds neither the better nor the worse one counts.
func TestMedian(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 2}, 2}, {[]float64{9, 1, 4, 2}, 3}} {
		if got := median(x.values); got != x.want {
			t.Errorf("the median of %v is %g, want %g", x.values, got, x.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var times []time.Duration
	for i := range 1000 {
		times = append(times, time.Duration(i+1))
	}
	for _, x := range []struct{ p, want float64 }{{0.5, 501}, {0.99, 991}, {0.999, 1000}, {1, 1000}} {
		if got := percentile(times, x.p); got != x.want {
			t.Errorf("of 1 to 1,000 the percentile %g is %g, want %g", x.p, got, x.want)
		}
	}
	if got := percentile(nil, 0.5); got != 0 {
		t.Errorf("of nothing it is %g", got)
	}
	if l := newLatency([]time.Duration{3 * time.Millisecond, time.Millisecond, 2 * time.Millisecond}); l.P50MS != 2 || l.P99MS != 3 || l.Records != 3 {
		t.Errorf("the latency is %+v", l)
	}
}
