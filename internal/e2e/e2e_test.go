//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/bench"
	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/internal/workload"
	"github.com/streamdedup/streamdedup/pipeline"
)

// long says whether tests run at their full size: STREAMDEDUP_LONG=1.
func long() bool { return os.Getenv("STREAMDEDUP_LONG") == "1" }

// seed is that of the test's randomness; STREAMDEDUP_SEED repeats a run.
func seed(t *testing.T) uint64 {
	t.Helper()
	n := rand.Uint64()
	if text := os.Getenv("STREAMDEDUP_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("STREAMDEDUP_SEED: %v", err)
		}
	}
	t.Logf("STREAMDEDUP_SEED=%d", n)
	return n
}

// program is its path, built once for all tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "streamdedup-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "streamdedup")
	out, err := exec.Command("go", "build", "-o", path, "../../cmd/streamdedup").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path)) // a leftover in the temporary folder harms nobody
	}
	os.Exit(code)
}

// process is a running streamdedup.
type process struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr lockedBuffer
	done   chan struct{} // closed when the process has ended
	end    error         // how, once it has
	asked  bool          // we have ended it ourselves
	counts bool          // it is a run, and counts
}

// start starts the program; it ends with the test at the latest.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.Dir = t.TempDir()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.end = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it says so when it has ended already
		<-p.done
		if t.Failed() {
			t.Logf("stderr of %v:\n%s", args, &p.stderr)
		}
	})
	return p
}

// kill ends the process as a crash does.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.asked = true
	if stderr := p.stderr.String(); p.counts && servedAt.MatchString(stderr) {
		_, page := get(t, stderr, "/metrics")
		readAccounts(t, page).check(t, anyMark)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatalf("kill: %v", err)
	}
	<-p.done
}

// stop ends the process by a first SIGINT, and expects success.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.asked = true
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatalf("interrupt: %v", err)
	}
	if err := p.wait(); err != nil {
		t.Fatalf("after an interrupt: %v", err)
	}
	if p.counts {
		sum := readSummary(t, p.stderr.String())
		sum.check(t, anyMark)
	}
}

// wait waits until the process has ended by itself.
func (p *process) wait() error {
	<-p.done
	return p.end
}

// stream is a workload in a topic, and where its survivors go.
type stream struct {
	broker         *bench.Broker
	workload       workload.Config
	generator      *workload.Generator
	in, out, group string
	state          string // folder for checkpoints
	processes      []*process
}

// newStream makes the topics of a stream in the tests' Kafka.
func newStream(t *testing.T, w workload.Config) *stream {
	t.Helper()
	brokers := kafkatest.Brokers(t)
	broker, err := bench.ConnectBroker(brokers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	// Some clocks of a workload are years ahead.
	any := "9223372036854775807"
	settings := map[string]*string{"message.timestamp.after.max.ms": &any, "message.timestamp.before.max.ms": &any}
	generator, err := workload.New(w)
	if err != nil {
		t.Fatal(err)
	}
	s := &stream{
		broker: broker, workload: w, generator: generator, state: t.TempDir(),
		in:  kafkatest.Topic(t, brokers, w.Partitions, settings),
		out: kafkatest.Topic(t, brokers, w.Partitions, settings),
	}
	s.group = s.out
	return s
}

// feed writes the next records of the workload, at most so many.
func (s *stream) feed(t *testing.T, most int) {
	t.Helper()
	if err := s.broker.Produce(t.Context(), s.in, s.generator, most, nil); err != nil {
		t.Fatal(err)
	}
}

// run starts a processor of the stream under a name.
func (s *stream) run(t *testing.T, instance string, more ...string) *process {
	t.Helper()
	args := []string{"run", "--brokers", s.brokers(), "--in", s.in, "--out", s.out, "--group", s.group, "--instance", instance,
		"--window", s.workload.Window.String(), "--metrics-addr", "127.0.0.1:0", "--summary", "json",
		"--state-dir", s.state, "--checkpoint-interval", "300ms"}
	for _, spec := range s.workload.Kind.KeySpecs() {
		args = append(args, "--key", spec)
	}
	p := start(t, append(args, more...)...)
	p.counts = true
	s.processes = append(s.processes, p)
	return p
}

// checkAlive fails the test when a process has ended that nobody has ended.
func (s *stream) checkAlive(t *testing.T) {
	t.Helper()
	for _, p := range s.processes {
		select {
		case <-p.done:
			if !p.asked {
				t.Fatalf("the process ended by itself: %v", p.end) // its stderr is shown with the failure
			}
		default:
		}
	}
}

func (s *stream) brokers() string { return strings.Join(s.broker.Addresses(), ",") }

// awaitLag waits until the group has at most so many offsets to read. It fails
// the test when a process ends first, or when the group has stood still.
func (s *stream) awaitLag(t *testing.T, most int64) {
	t.Helper()
	last, since := int64(-1), time.Now()
	for {
		lag, begun, err := s.broker.Lag(t.Context(), s.group, s.in)
		if err != nil {
			t.Fatal(err)
		}
		if begun && lag <= most {
			return
		}
		s.checkAlive(t)
		if lag != last {
			last, since = lag, time.Now()
		} else if time.Since(since) > limit {
			t.Fatalf("the group stands still, %d offsets behind", lag)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// awaitShared waits until so many members of the group have partitions. It fails
// the test when a process ends first.
func (s *stream) awaitShared(t *testing.T, members int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.broker.Addresses()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for since := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		groups, err := kadm.NewClient(client).DescribeGroups(t.Context(), s.group)
		if err != nil {
			t.Fatal(err)
		}
		group, have := groups[s.group], 0
		for _, m := range group.Members {
			if owned, ok := m.Assigned.AsConsumer(); ok && len(owned.Topics) > 0 {
				have++
			}
		}
		if group.State == "Stable" && have == members {
			return
		}
		s.checkAlive(t)
		if time.Since(since) > limit {
			t.Fatalf("group %s is %s, %d members have partitions, want %d", s.group, group.State, have, members)
		}
	}
}

// report is what these tests need of `verify -o json`.
type report struct {
	In       uint64  `json:"in"`
	Out      uint64  `json:"out"`
	Unique   uint64  `json:"unique"`
	Budget   float64 `json:"budget"`
	Withheld struct {
		Count uint64 `json:"count"`
	} `json:"withheld"`
	OK bool `json:"ok"`
}

// verify audits the output with the program's own command: bytes, order, and
// every verdict.
func (s *stream) verify(t *testing.T, fpr float64) report {
	t.Helper()
	args := []string{"verify", "--brokers", s.brokers(), "--in", s.in, "--out", s.out,
		"--window", s.workload.Window.String(), "--fpr", strconv.FormatFloat(fpr, 'g', -1, 64), "-o", "json"}
	for _, spec := range s.workload.Kind.KeySpecs() {
		args = append(args, "--key", spec)
	}
	p := start(t, args...)
	if err := p.wait(); err != nil {
		t.Fatalf("verify: %v\n%s%s", err, &p.stdout, &p.stderr)
	}
	var r report
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatalf("verify printed %q: %v", &p.stdout, err)
	}
	if want := uint64(s.workload.Records()); r.In != want || !r.OK {
		t.Fatalf("verify read %d records and says ok: %t, want %d and true", r.In, r.OK, want)
	}
	return r
}

// ids reads the output as a reader of committed records does, and counts each
// event's ID. It knows nothing of audits and filters.
func (s *stream) ids(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	s.read(t, s.out, func(r *pipeline.Record) { counts[eventID(r.Value)]++ })
	return counts
}

// read gives each committed record of a topic to see; it is good until that returns.
func (s *stream) read(t *testing.T, name string, see func(r *pipeline.Record)) {
	t.Helper()
	topic, err := kafkaio.OpenTopic(t.Context(), name, kgo.SeedBrokers(s.broker.Addresses()...))
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Close()
	for p := range topic.Partitions() {
		end, err := topic.Written(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		err = topic.Read(t.Context(), p, 0, end, func(_ int64, r *pipeline.Record) error {
			see(r)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// truth is the ID of each event of the stream.
func (s *stream) truth(t *testing.T) map[string]bool {
	t.Helper()
	g, err := workload.New(s.workload)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for r, ok := g.Next(); ok; r, ok = g.Next() {
		ids[eventID(r.Value)] = true
	}
	return ids
}

// eventID is the text of a click's ID, found without a JSON parser.
func eventID(value []byte) string {
	const before, length = `{"event_id":"`, 36
	return string(value[len(before) : len(before)+length])
}

// checkOnce fails unless each event is in the output once, except for at most so
// many that are absent, and nothing else is.
func (s *stream) checkOnce(t *testing.T, absent uint64) {
	t.Helper()
	truth, got := s.truth(t), s.ids(t)
	missing := uint64(0)
	for id := range truth {
		switch n := got[id]; {
		case n == 0:
			missing++
		case n > 1:
			t.Errorf("event %s came out %d times", id, n)
		}
	}
	for id := range got {
		if !truth[id] {
			t.Errorf("%s came out and is no event", id)
		}
	}
	if missing > absent {
		t.Errorf("%d events are absent, at most %d may be", missing, absent)
	}
}
