package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/files"
	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/internal/survey"
)

// sizedFrom is what the tests read of size's JSON for a stream that was measured.
type sizedFrom struct {
	Partitions int
	Survey     struct {
		Records     uint64
		IDs         uint64  `json:"ids"`
		Duplicates  float64 `json:"duplicate_share"`
		Elsewhere   float64 `json:"elsewhere_share"`
		Skew        float64
		Oldest      float64 `json:"oldest_duplicate_seconds"`
		SpanSeconds float64 `json:"span_seconds"`
		Partial     string
		Command     string
		RecordBytes float64 `json:"record_bytes"`
		WithoutID   uint64  `json:"without_id"`
		Proposal    struct {
			Window string
			Rate   float64 `json:"ids_per_second"`
		} `json:"proposal"`
	}
}

// sizeOfTopic runs size on a topic.
func sizeOfTopic(t *testing.T, brokers []string, topic string, args ...string) sizedFrom {
	t.Helper()
	code, stdout, stderr := exec("", append([]string{"size", "--from-topic", topic, "--brokers", strings.Join(brokers, ","),
		"--key", "json:id", "-o", "json"}, args...)...)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var s sizedFrom
	if err := json.Unmarshal([]byte(stdout), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// A topic is read to its committed end, and the line that comes out is one of run.
func TestSizeFromTopic(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.Fake(t).ListenAddrs()
	topic := kafkatest.Topic(t, brokers, 3, nil)
	base := time.Now().Add(-5 * time.Hour)
	cl := client(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var records []*kgo.Record
	put := func(partition int32, id string, at time.Duration) {
		records = append(records, &kgo.Record{
			Topic: topic, Partition: partition, Value: fmt.Appendf(nil, `{"id":%q}`, id), Timestamp: base.Add(at),
		})
	}
	// 300 IDs in the first partition, 100 in the second and none in the third, each a
	// second after the other; each third comes again after 20 minutes, and one in both.
	for i := range 400 {
		partition := int32(i % 4 / 3)
		put(partition, fmt.Sprint(i), time.Duration(i)*time.Second)
	}
	for i := 0; i < 400; i += 3 {
		put(int32(i%4/3), fmt.Sprint(i), time.Duration(i)*time.Second+20*time.Minute)
	}
	put(1, "0", 2*time.Hour)
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	open(t, brokers, topic, `{"id":"aborted"}`)(kgo.TryAbort) // in the first partition

	s := sizeOfTopic(t, brokers, topic)
	got := s.Survey
	if s.Partitions != 3 || got.Records != 535 || got.IDs != 401 || got.Partial != "" || got.WithoutID != 0 {
		t.Errorf("got %+v, want 535 records of 401 IDs in 3 partitions", s)
	}
	if got.Duplicates != 134./535 || got.Elsewhere != 1./535 || math.Abs(got.Skew-900./401) > 0.01 || got.SpanSeconds != 7200 {
		t.Errorf("got %+v, want 134 duplicates, one ID in two partitions and skew 2.24 in 2 hours", got)
	}
	// A copy behind a later one comes when the stream is there.
	if got.Oldest < 1200 || got.Oldest > 1600 || got.Proposal.Window != "30m" && got.Proposal.Window != "1h" {
		t.Errorf("the oldest duplicate is %g s, the window %s", got.Oldest, got.Proposal.Window)
	}

	r, fs := defaultRun(), pflag.NewFlagSet("run", pflag.ContinueOnError)
	r.bind(fs)
	line, ok := strings.CutPrefix(got.Command, "streamdedup run ")
	if err := fs.Parse(strings.Fields(line)); err != nil || !ok {
		t.Fatalf("%s: %v", got.Command, err)
	}
	if err := r.check(); err != nil || len(fs.Args()) > 0 || r.in[0] != topic || r.keys[0] != "json:id" || !r.createTopics {
		t.Errorf("%s: %v", got.Command, err)
	}
	plan, err := r.plan(3)
	if err != nil || math.Abs(plan.RatePerSecond()-got.Proposal.Rate) > 1 {
		t.Errorf("%s plans %g IDs a second, measured were %g: %v", got.Command, plan.RatePerSecond(), got.Proposal.Rate, err)
	}
}

// Of a topic that is too long the newest records are measured, of each partition the
// same share. What an open transaction holds up is not waited for.
func TestSizeFromTopicBounds(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.Fake(t).ListenAddrs()
	topic := kafkatest.Topic(t, brokers, 2, nil)
	cl := client(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	base := time.Now().Add(-time.Hour)
	for i := range 400 {
		r := &kgo.Record{Topic: topic, Partition: int32(i % 4 / 3), Value: fmt.Appendf(nil, `{"id":%d}`, i), Timestamp: base.Add(time.Duration(i) * time.Second)}
		cl.Produce(t.Context(), r, nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer open(t, brokers, topic, `{"id":"not yet"}`)(kgo.TryAbort)
	s := sizeOfTopic(t, brokers, topic, "--records", "100").Survey
	if s.Records != 100 || s.IDs != 100 || math.Abs(s.Skew-1.5) > 0.01 || !strings.Contains(s.Partial, "the newest") {
		t.Errorf("got %+v, want 100 of 400, of the one partition 75", s)
	}
	if s.SpanSeconds < 95 || s.SpanSeconds > 105 {
		t.Errorf("the newest quarter of 400 seconds spans %g", s.SpanSeconds)
	}

	code, _, stderr := exec("", "size", "--from-topic", topic, "--brokers", strings.Join(brokers, ","), "--key", "json:nosuch", "--instances", "3")
	if code != exitUsage || !strings.HasPrefix(stderr, "error: 3 instances for 2 partitions: ") || strings.Contains(stderr, "--partitions") {
		t.Errorf("more instances than partitions, before no record has an ID: exit code %d: %s", code, stderr)
	}
	code, _, stderr = exec("", "size", "--from-topic", topic+"-nosuch", "--brokers", strings.Join(brokers, ","), "--key", "key")
	if code != exitFailed || !strings.Contains(stderr, "does not exist") || !strings.Contains(stderr, "hint: ") {
		t.Errorf("no such topic: exit code %d: %s", code, stderr)
	}
}

// TestSizeSpeaksOfNoFlagItHasNot: size reads files as filter does, and has not its flags.
func TestSizeSpeaksOfNoFlagItHasNot(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		files.ErrLineTooLong, files.ErrDamaged, files.ErrHeader,
		&files.CompressedError{Input: "a.ndjson", Format: "gzip", Suffix: ".gz"},
	} {
		var h hinter
		if !errors.As(surveyError(fmt.Errorf("read a: %w", err)), &h) {
			t.Errorf("%v: no hint", err)
			continue
		}
		if hint := h.Hint(); strings.Contains(hint, "filter") || strings.Contains(hint, "--max-line") {
			t.Errorf("%v: the hint is filter's: %s", err, hint)
		}
	}
}

// Files that are named in the wrong order are no stream to plan from.
func TestSizeWarnsOfFilesInTheWrongOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base := time.Now().Add(-50 * time.Hour).Truncate(time.Second)
	var names []string
	for f := range 2 {
		var text strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&text, `{"id":"%d-%d","at":%d}`+"\n", f, i, base.Add(time.Duration(f)*24*time.Hour+time.Duration(i)*time.Second).Unix())
		}
		names = append(names, filepath.Join(dir, fmt.Sprint(f)))
		if err := os.WriteFile(names[f], []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, wrong := range []bool{false, true} {
		code, stdout, stderr := exec("", "size", "--from-file", names[0], names[1], "--key", "json:id", "--time", "json:at", "--time-format", "unix", "--window", "1h")
		if code != exitOK {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		if got := strings.Contains(stderr, "50% of the records are more than 1h behind the newest before them"); got != wrong {
			t.Errorf("in the wrong order: %v; a warning: %v\n%s", wrong, got, stderr)
		}
		if got := strings.Contains(stdout, "50% of the records are further than that behind"); got != wrong {
			t.Errorf("in the wrong order: %v; a line of the report: %v\n%s", wrong, got, stdout)
		}
		slices.Reverse(names)
	}
}

// A warning comes with a stream of too few records, or too short a one, and with no other.
func TestSizeWarnsOfTooFewRecords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		records uint64
		span    time.Duration
		want    string
	}{
		{3, 101 * time.Millisecond, "too few records to plan from: 3 within 101ms show"},
		{999, time.Hour, "too few records to plan from: 999 within 1h show"},
		{1_000_000, time.Minute - 1, "too few records to plan from: 1,000,000 within "},
		{1000, time.Minute, ""},
	} {
		err := tooFew(&survey.Report{Counts: survey.Counts{Records: c.records}, Span: survey.Seconds(c.span)})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%d records in %v: got %v, want %q", c.records, c.span, err, c.want)
		}
	}
}
