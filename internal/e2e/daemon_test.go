//go:build unix

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// limit bounds a test's waiting for any one thing. It is far above what the
// thing takes, so that only what never happens reaches it.
const limit = 90 * time.Second

// daemon is a `streamdedup run` that is watched while it runs.
type daemon struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr lockedBuffer
	done   chan struct{} // closed when the process has ended
	asleep bool          // by a signal of ours
	odd    []string      // the marks that its records may have
}

// lockedBuffer can be read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// launch starts the program; it ends with the test at the latest.
func launch(t *testing.T, args ...string) *daemon {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, cmd: exec.Command(path, args...), done: make(chan struct{})}
	d.cmd.Stderr = &d.stderr
	d.cmd.Dir = t.TempDir()
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = d.cmd.Wait() // how it ended is in ProcessState
		close(d.done)
	}()
	t.Cleanup(func() {
		if d.running() {
			_ = d.cmd.Process.Kill() // also when it is stopped
			<-d.done
		}
		if t.Failed() {
			t.Logf("stderr of %v:\n%s", args, &d.stderr)
		}
	})
	return d
}

func (d *daemon) running() bool {
	select {
	case <-d.done:
		return false
	default:
		return true
	}
}

// signal sends a signal; a process that has ended already is a failure. Of one that is
// put to sleep no thread runs any more.
func (d *daemon) signal(s syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Fatalf("send %v: %v", s, err)
	}
	if d.asleep = s == syscall.SIGSTOP; !d.asleep {
		return
	}
	await(d.t, "the process sleeps", func() bool {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(d.cmd.Process.Pid, &status, syscall.WUNTRACED|syscall.WNOHANG, nil)
		return err == nil && pid == d.cmd.Process.Pid && status.Stopped()
	}, d.done)
}

// kill ends the process as a crash does. What it had counted until then adds up.
func (d *daemon) kill() {
	d.t.Helper()
	if !d.asleep && d.running() && servedAt.MatchString(d.stderr.String()) {
		_, page := d.get("/metrics")
		readAccounts(d.t, page).check(d.t, d.odd)
	}
	d.signal(syscall.SIGKILL)
	<-d.done
}

// ends waits for the process to end by itself, with this exit code.
func (d *daemon) ends(code int) {
	d.t.Helper()
	select {
	case <-d.done:
	case <-time.After(limit):
		d.t.Fatal("the process does not end")
	}
	if got := d.cmd.ProcessState.ExitCode(); got != code {
		d.t.Fatalf("exit code %d, want %d", got, code)
	}
}

// stop asks the process to end, and expects it to end well.
func (d *daemon) stop() runSummary {
	d.t.Helper()
	d.signal(syscall.SIGTERM)
	d.ends(0)
	return d.summary()
}

// runSummary is the line that `--summary json` prints.
type runSummary struct {
	In        uint64 `json:"in"`
	Unique    uint64 `json:"unique"`
	Duplicate uint64 `json:"duplicate"`
	Missing   uint64 `json:"missing"`
	Invalid   uint64 `json:"invalid"`
	Out       uint64 `json:"out"`
	Diverted  uint64 `json:"diverted"`
	Dropped   uint64 `json:"dropped"`
	Late      uint64 `json:"late"`
	Ahead     uint64 `json:"ahead"`
	NoTime    uint64 `json:"no_time"`
	Jump      uint64 `json:"jump"`
	Retimed   uint64 `json:"retimed"`
	Unlearned uint64 `json:"unlearned"`
}

// summary is the summary of a process that has ended.
func (d *daemon) summary() runSummary {
	d.t.Helper()
	sum := readSummary(d.t, d.stderr.String())
	sum.check(d.t, d.odd)
	return sum
}

// anyMark lets a process mark its records as it likes.
var anyMark = []string{"late", "ahead", "no_time", "jump", "retimed", "unlearned"}

// check fails unless both sums hold, and no record has a mark but the odd ones that
// the test expects.
func (sum *runSummary) check(t *testing.T, odd []string) {
	t.Helper()
	if n := sum.Unique + sum.Duplicate + sum.Missing + sum.Invalid; n != sum.In {
		t.Errorf("the verdicts add up to %d, in is %d", n, sum.In)
	}
	if n := sum.Out + sum.Diverted + sum.Dropped; n != sum.In {
		t.Errorf("the fates add up to %d, in is %d", n, sum.In)
	}
	for i, n := range []uint64{sum.Late, sum.Ahead, sum.NoTime, sum.Jump, sum.Retimed, sum.Unlearned} {
		if n > sum.In || n > 0 && !slices.Contains(odd, anyMark[i]) {
			t.Errorf("%d of %d records are marked %s, the test expects the marks %v", n, sum.In, anyMark[i], odd)
		}
	}
}

// readAccounts reads from the metrics what the summary would say now.
func readAccounts(t *testing.T, page string) *runSummary {
	t.Helper()
	of := func(metric, label, value string) uint64 {
		return uint64(sample(t, page, "streamdedup_"+metric, fmt.Sprintf("%s=%q", label, value)))
	}
	verdict := func(v string) uint64 { return of("records_total", "verdict", v) }
	fate := func(f string) uint64 { return of("fate_total", "fate", f) }
	mark := func(m string) uint64 { return of("marks_total", "mark", m) }
	return &runSummary{
		In:     uint64(sample(t, page, "streamdedup_records_total")),
		Unique: verdict("unique"), Duplicate: verdict("duplicate"), Missing: verdict("missing"), Invalid: verdict("invalid"),
		Out: fate("out"), Diverted: fate("diverted"), Dropped: fate("dropped"),
		Late: mark("late"), Ahead: mark("ahead"), NoTime: mark("no_time"), Jump: mark("jump"), Retimed: mark("retimed"), Unlearned: mark("unlearned"),
	}
}

// readSummary finds the summary on stderr.
func readSummary(t *testing.T, stderr string) runSummary {
	t.Helper()
	var sum runSummary
	lines := strings.Split(stderr, "\n")
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, `{"in":`) })
	if i < 0 {
		t.Fatal("no summary on stderr")
	}
	if err := json.Unmarshal([]byte(lines[i]), &sum); err != nil {
		t.Fatalf("the summary %q: %v", lines[i], err)
	}
	return sum
}

// says waits for a text on stderr.
func (d *daemon) says(text string) {
	d.t.Helper()
	await(d.t, "the process says "+text, func() bool { return strings.Contains(d.stderr.String(), text) }, d.done)
}

// line is the first line on stderr with all of these texts in it. While the process
// runs it is waited for: its pages may tell before its log has come through the pipe.
func (d *daemon) line(texts ...string) (found string) {
	d.t.Helper()
	await(d.t, fmt.Sprintf("a line of stderr has all of %q", texts), func() bool {
		for line := range strings.SplitSeq(d.stderr.String(), "\n") {
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
				found = line
				return true
			}
		}
		return false
	}, d.done)
	return found
}

var servedAt = regexp.MustCompile(`serving metrics.*address=(\S+)`)

// get is the body of one of the process's pages.
func (d *daemon) get(path string) (status int, body string) {
	d.t.Helper()
	d.says("serving metrics")
	return get(d.t, d.stderr.String(), path)
}

// get is a page of a process that has said on stderr where it serves them.
func get(t *testing.T, stderr, path string) (status int, body string) {
	t.Helper()
	address := servedAt.FindStringSubmatch(stderr)[1]
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("get %s: %v", path, err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatalf("get %s: %v", path, err)
	}
	return resp.StatusCode, string(text)
}

// metric is the sum of the samples of a metric that have these labels.
func (d *daemon) metric(name string, labels ...string) float64 {
	d.t.Helper()
	_, page := d.get("/metrics")
	return sample(d.t, page, name, labels...)
}

// sample is the sum of a page's samples of a metric that have these labels.
func sample(t *testing.T, body, name string, labels ...string) float64 {
	t.Helper()
	sum := 0.0
	for line := range strings.SplitSeq(body, "\n") {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' ||
			slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(rest, label) }) {
			continue
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			t.Fatalf("metric %q: %v", line, err)
		}
		sum += v
	}
	return sum
}

// heap is what of the process' heap is in use, after collections: buffers that wait to be
// used again outlive one, and what happens to be under way is not there in all of them.
func (d *daemon) heap() float64 {
	d.t.Helper()
	lowest := math.Inf(1)
	for range 8 {
		if status, _ := d.get("/debug/pprof/heap?gc=1"); status != http.StatusOK {
			d.t.Fatalf("the heap's page has status %d", status)
		}
		lowest = min(lowest, d.metric("go_memstats_heap_alloc_bytes"))
	}
	return lowest
}

// undone is how many transactions did not commit.
func (d *daemon) undone() float64 {
	d.t.Helper()
	return d.metric("streamdedup_transactions_total", `outcome="aborted"`) +
		d.metric("streamdedup_transactions_total", `outcome="lost"`)
}

// ready waits until the process has n partitions, and all of them restored.
func (d *daemon) ready(n int) {
	d.t.Helper()
	want := "\nready: " + strconv.Itoa(n) + " partition"
	await(d.t, "the process is ready for "+strconv.Itoa(n)+" partitions", func() bool {
		_, page := d.get("/healthz")
		return strings.Contains(page, want)
	}, d.done)
}

// await waits for a state of the world, and gives up early when over is closed.
func await(t *testing.T, what string, ok func() bool, over <-chan struct{}) {
	t.Helper()
	deadline := time.After(limit)
	for !ok() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-over:
			if ok() {
				return
			}
			t.Fatalf("the process ended before: %s", what)
		case <-deadline:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}
