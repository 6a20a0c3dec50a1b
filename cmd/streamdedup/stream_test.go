package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// process is a running streamdedup.
type process struct {
	stderr lockedBuffer
	stop   context.CancelFunc
	code   chan int
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs a command in this process until stop, or the test, ends it.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &process{stop: cancel, code: make(chan int, 1)}
	go func() { p.code <- run(ctx, args, strings.NewReader(""), io.Discard, &p.stderr) }()
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			t.Logf("stderr of %v:\n%s", args, p.stderr.String())
		}
	})
	return p
}

// end stops the process as a first signal does and returns its exit code.
func (p *process) end() int {
	p.stop()
	return <-p.code
}

// line waits for a line of stderr and returns what the pattern's group matched.
func (p *process) line(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for {
		if m := re.FindStringSubmatch(p.stderr.String()); m != nil {
			return m[1]
		}
		select {
		case code := <-p.code:
			t.Fatalf("exit code %d before a line like %s", code, pattern)
		case <-t.Context().Done():
			t.Fatalf("no line like %s", pattern)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func client(t *testing.T, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(brokers...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// produce writes values, each to the partition of its number.
func produce(t *testing.T, brokers []string, topic string, partitions int, values ...string) {
	t.Helper()
	cl := client(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	at := time.Now() // of all, so that no generation of the window ends between two of them
	for i, v := range values {
		r := &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: []byte(v), Timestamp: at}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// consume reads n records as a reader of committed ones.
func consume(t *testing.T, brokers []string, topic string, n int) []string {
	t.Helper()
	cl := client(t, brokers, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	var values []string
	for len(values) < n {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

func runArgs(brokers []string, in, out string, more ...string) []string {
	return append([]string{
		"run", "--brokers", strings.Join(brokers, ","), "--in", in, "--out", out, "--create-topics",
		"--group", "g-" + out, "--instance", "a", "--key", "json:id", "--capacity", "10k",
		"--metrics-addr", "127.0.0.1:0", "--summary", "json", "--state-dir", "off",
	}, more...)
}

// get asks a running process.
func get(t *testing.T, address, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// awaitReady returns once all partitions have their memory. Pages show a cycle
// when it has ended, which may be after its output is there.
func awaitReady(t *testing.T, address string) {
	t.Helper()
	for t.Context().Err() == nil {
		if code, _ := get(t, address, "/readyz"); code == http.StatusOK {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Run deduplicates, says so in metrics and summary, ends cleanly at the first
// signal, and goes on where it was when it is started again.
func TestRunDeduplicatesAndRemembersOverARestart(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 2, nil)
	event := func(id, n int) string { return fmt.Sprintf(`{"id":%d,"n":%d}`, id, n) }
	// Partition 0 has 1 1 2, partition 1 has 1 3 and one without an ID.
	produce(t, brokers, in, 2, event(1, 0), event(1, 1), event(1, 2), event(3, 3), event(2, 4), `{"n":5}`)

	first := start(t, runArgs(brokers, in, in+"-out")...)
	address := first.line(t, `serving metrics.* address=(\S+)`)
	if got := consume(t, brokers, in+"-out", 5); len(got) != 5 {
		t.Fatalf("%d records out, want 5: %q", len(got), got)
	}
	if code, body := get(t, address, "/healthz"); code != http.StatusOK || !strings.HasPrefix(body, "alive\ngroup g-") {
		t.Errorf("/healthz: %d %q", code, body)
	}
	if code := first.end(); code != exitOK {
		t.Fatalf("exit code %d after a stop, want 0", code)
	}
	sum := lastSummary(t, first)
	if sum.In != 6 || sum.Unique != 4 || sum.Duplicate != 1 || sum.Missing != 1 || sum.Out != 5 || sum.Dropped != 1 || sum.MemoryBytes == 0 {
		t.Errorf("summary %+v, want 6 in, 4 unique, 1 duplicate, 1 missing, 5 out, 1 dropped", sum)
	}

	produce(t, brokers, in, 2, event(1, 6), event(3, 7), event(4, 8), event(5, 9))
	second := start(t, runArgs(brokers, in, in+"-out")...)
	address = second.line(t, `serving metrics.* address=(\S+)`)
	got := consume(t, brokers, in+"-out", 7)
	for _, v := range got {
		if strings.Contains(v, `"n":6`) || strings.Contains(v, `"n":7`) {
			t.Errorf("%s came out: its first copy was before the restart", v)
		}
	}
	awaitReady(t, address)
	_, metrics := get(t, address, "/metrics")
	for _, want := range []string{
		`streamdedup_window_coverage_ratio{partition="0",topic="` + in + `"} 1`,
		`streamdedup_filter_fill_ratio{generation="0",partition="1",topic="` + in + `"} `,
		"streamdedup_filter_bytes ", "streamdedup_latency_seconds_count ", "go_goroutines ",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	if code := second.end(); code != exitOK {
		t.Fatalf("exit code %d after a stop, want 0", code)
	}
	if sum := lastSummary(t, second); sum.In != 4 || sum.Unique != 2 || sum.Duplicate != 2 {
		t.Errorf("summary %+v, want 4 in, 2 unique, 2 duplicate", sum)
	}
}

// lastSummary is the summary that a process printed at its end.
func lastSummary(t *testing.T, p *process) summary {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	var sum summary
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil {
		t.Fatalf("the last line of stderr is no summary: %v", err)
	}
	return sum
}

func TestRunNamesWhatIsWrongWithTheBrokers(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 1, nil)
	f := func(want string, args []string) {
		t.Helper()
		code, _, stderr := exec("", args...)
		if code != exitFailed || !strings.Contains(stderr, "error: "+want) || !strings.Contains(stderr, "\nhint: ") {
			t.Errorf("exit code %d, stderr:\n%swant 1, %q and a hint", code, stderr, want)
		}
	}
	f(`input topic "nosuch" does not exist`, runArgs(brokers, "nosuch", "out"))
	f(`output topic "out" does not exist`, runArgs(brokers, in, "out", "--create-topics=false"))

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	f("serve metrics on "+taken.Addr().String(), runArgs(brokers, in, "out", "--metrics-addr", taken.Addr().String()))
}

// Who restarts with other settings is told once, and not that nothing was done.
func TestAFailedStartIsSaidOnceAndSumsUpNothing(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 1, nil)
	produce(t, brokers, in, 1, `{"id":1}`)
	first := start(t, runArgs(brokers, in, in+"-out")...)
	consume(t, brokers, in+"-out", 1)
	if code := first.end(); code != exitOK {
		t.Fatalf("exit code %d after a stop, want 0", code)
	}
	code, _, stderr := exec("", runArgs(brokers, in, in+"-out", "--hash-seed", "1")...)
	if code != exitFailed || strings.Contains(stderr, `"in":`) {
		t.Errorf("exit code %d, stderr:\n%swant 1 and no summary", code, stderr)
	}
	_, after, ok := strings.Cut(stderr, "error: ")
	line, hint, _ := strings.Cut(after, "\n")
	if !ok || !strings.HasPrefix(line, "restore "+in+"/0: key spec, seed, scope or filter kind have changed") || strings.Count(line, "restore") != 1 ||
		!strings.HasPrefix(hint, "hint: ") {
		t.Errorf("the error is not said once:\n%s", stderr)
	}
}
