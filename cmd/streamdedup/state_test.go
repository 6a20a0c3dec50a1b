package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// remembering is a stream whose state is looked at.
type remembering struct {
	t       *testing.T
	brokers []string
	in, out string
	dir     string
	n       int // of the next record
	// at is when all records are of: wherever the wall clock is, no generation of the
	// window ends between two of them.
	at time.Time
}

func newRemembering(t *testing.T, partitions int32) *remembering {
	t.Helper()
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, partitions, nil)
	return &remembering{t: t, brokers: brokers, in: in, out: in + "-out", dir: t.TempDir(), at: time.Now()}
}

func (r *remembering) group() string { return "g-" + r.out }

// write writes a record for each ID, all different.
func (r *remembering) write(partition int32, ids ...string) {
	r.t.Helper()
	cl := client(r.t, r.brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for _, id := range ids {
		record := &kgo.Record{Topic: r.in, Partition: partition, Value: fmt.Appendf(nil, `{"id":%q,"n":%d}`, id, r.n), Timestamp: r.at}
		r.n++
		if err := cl.ProduceSync(r.t.Context(), record).FirstErr(); err != nil {
			r.t.Fatal(err)
		}
	}
}

// run runs the processor until its group has the whole input, and returns what it
// said.
func (r *remembering) run(more ...string) string {
	r.t.Helper()
	p := start(r.t, runArgs(r.brokers, r.in, r.out, more...)...)
	r.caughtUp(p)
	if code := p.end(); code != exitOK {
		r.t.Fatalf("exit code %d after a stop, want 0", code)
	}
	return p.stderr.String()
}

// caughtUp waits until the group has committed the input's end.
func (r *remembering) caughtUp(p *process) {
	r.t.Helper()
	g := r.open()
	for n := int32(0); n < g.Partitions(); {
		a, err := g.Account(r.t.Context(), n)
		if err != nil {
			r.t.Fatal(err)
		}
		if a.Committed == a.End {
			n++
			continue
		}
		select {
		case code := <-p.code:
			r.t.Fatalf("exit code %d before the input's end", code)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (r *remembering) open() *kafkaio.Group {
	r.t.Helper()
	s := stateSettings{connection: connection{brokers: r.brokers}, in: r.in, group: r.group()}
	g, err := s.open(r.t.Context(), &app{stderr: io.Discard})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(g.Close)
	return g
}

// state runs a command on the group's state.
func (r *remembering) state(stdin, command string, more ...string) (code int, stdout, stderr string) {
	args := []string{"state", command, "--brokers", strings.Join(r.brokers, ","), "--group", r.group(), "--in", r.in}
	return exec(stdin, append(args, more...)...)
}

// must runs a command that succeeds.
func (r *remembering) must(stdin, command string, more ...string) (stdout, stderr string) {
	r.t.Helper()
	code, stdout, stderr := r.state(stdin, command, more...)
	if code != exitOK {
		r.t.Fatalf("state %s %v: exit code %d, stderr:\n%s", command, more, code, stderr)
	}
	return stdout, stderr
}

// inspect is the report as a program reads it.
func (r *remembering) inspect(more ...string) inspected {
	r.t.Helper()
	out, _ := r.must("", "inspect", append(more, "-o", "json")...)
	var i inspected
	if err := json.Unmarshal([]byte(out), &i); err != nil {
		r.t.Fatalf("%v in\n%s", err, out)
	}
	return i
}

// inspected is what these tests read of the report.
type inspected struct {
	Changelog  string
	Members    []struct{ Instance string }
	Partitions []struct {
		Committed *int64
		Restore   string
		Refused   string
		Begin     *int64 `json:"restore_checkpoint"`
		Next      *int64
		State     *struct {
			Fingerprint string
			WindowMS    int64    `json:"window_ms"`
			Coverage    float64  `json:"coverage"`
			FPREstimate *float64 `json:"fpr_estimate"`
			Generations []struct {
				From, To string
				Added    *uint64
				Fill     *float64 `json:"fill_ratio"`
			}
		}
	}
	Checkpoints []struct {
		Instance, Refused, File string
		Next                    int64
		State                   *struct {
			Generations []struct{ Added *uint64 }
		}
	}
}

// came counts how often each ID is in the output.
func (r *remembering) came() map[string]int {
	r.t.Helper()
	topic, err := kafkaio.OpenTopic(r.t.Context(), r.out, kgo.SeedBrokers(r.brokers...))
	if err != nil {
		r.t.Fatal(err)
	}
	defer topic.Close()
	counts := map[string]int{}
	for p := range topic.Partitions() {
		end, err := topic.Written(r.t.Context(), p)
		if err != nil {
			r.t.Fatal(err)
		}
		err = topic.Read(r.t.Context(), p, 0, end, func(_ int64, record *pipeline.Record) error {
			var event struct{ ID string }
			if err := json.Unmarshal(record.Value, &event); err != nil {
				return err
			}
			counts[event.ID]++
			return nil
		})
		if err != nil {
			r.t.Fatal(err)
		}
	}
	return counts
}

// checkCame compares the output with what must have come out, as "id" or "id*2".
func (r *remembering) checkCame(want ...string) {
	r.t.Helper()
	var got []string
	counts := r.came()
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[id]; n > 1 {
			id = fmt.Sprintf("%s*%d", id, n)
		}
		got = append(got, id)
	}
	if slices.Sort(want); !slices.Equal(got, want) {
		r.t.Errorf("came out: %v, want %v", got, want)
	}
}

// TestStateReset: everything comes out again, of the partitions that are reset.
// Others keep what they know, also where the next start would begin at the end.
func TestStateReset(t *testing.T) {
	r := newRemembering(t, 2)
	r.write(0, "a", "b", "a")
	r.write(1, "c")
	p := start(t, runArgs(r.brokers, r.in, r.out)...)
	r.caughtUp(p)
	if code, _, stderr := r.state("", "reset", "--yes"); code != exitFailed || !strings.Contains(stderr, "has 1 member: a (") {
		t.Errorf("of a group that runs: exit code %d, stderr:\n%s", code, stderr)
	}
	if code := p.end(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	if code, _, stderr := r.state("", "reset"); code != exitUsage || !strings.Contains(stderr, "hint: add --yes") {
		t.Errorf("unasked: exit code %d, stderr:\n%s", code, stderr)
	}
	if code, _, stderr := r.state("", "reset", "--yes", "--partition", "2", "--replay", "earliest"); code != exitUsage || !strings.Contains(stderr, "has no partition 2") {
		t.Errorf("of a partition that is not there: exit code %d, stderr:\n%s", code, stderr)
	}
	if a := r.inspect().Partitions[0]; *a.Committed != 3 {
		t.Fatalf("a refused reset moved the group to %d", *a.Committed)
	}
	_, said := r.must("", "reset", "--yes", "--partition", "0", "--replay", "earliest")
	for _, want := range []string{"partition 0: goes from offset 3 back to offset 0, deletes changelog records 0 to ", "offsets moved\n", "changelog emptied\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("reset does not say %q:\n%s", want, said)
		}
	}
	if i := r.inspect(); i.Partitions[0].Restore != "nothing to restore: begins at 0" || *i.Partitions[1].Committed != 1 {
		t.Errorf("after the reset of partition 0: %+v", i.Partitions)
	}
	if said := r.run("--start", "latest"); strings.Contains(said, "the group has not seen") {
		t.Errorf("a partition that was reset is taken for new:\n%s", said)
	}
	r.checkCame("a*2", "b*2", "c")

	_, said = r.must("", "reset", "--yes")
	for _, want := range []string{"partition 1: deletes offset 1, changelog records 0 to ", "offsets deleted\n", "changelog emptied\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("reset does not say %q:\n%s", want, said)
		}
	}
	for _, p := range r.inspect().Partitions {
		if p.Restore != "begins: there is no state" {
			t.Errorf("after the reset of all partitions: %+v", p)
		}
	}
	r.run()
	r.checkCame("a*3", "b*3", "c*2")
	code, _, stderr := exec("", "state", "reset", "--yes", "--brokers", strings.Join(r.brokers, ","), "--group", "other", "--in", r.in)
	if code != exitFailed || !strings.Contains(stderr, `group "other" remembers nothing of "`+r.in+`": there is nothing to reset`) {
		t.Errorf("of a group that is not there: exit code %d, stderr:\n%s", code, stderr)
	}
}

// TestStateResetReplay: what lies behind a point comes out again, once.
func TestStateResetReplay(t *testing.T) {
	r := newRemembering(t, 1)
	r.write(0, "a", "b", "c", "b")
	r.run()
	f := func(wantCode int, want string, more ...string) {
		t.Helper()
		if code, _, stderr := r.state("", "reset", append(more, "--yes")...); code != wantCode || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, stderr:\n%swant %d and %s", more, code, stderr, wantCode, want)
		}
	}
	f(exitFailed, "partition 0 has offsets 0 to 4, not 5", "--replay", "0:5")
	f(exitOK, "goes from offset 4 back to offset 1", "--replay", "0:1")
	if i := r.inspect(); *i.Partitions[0].Committed != 1 || i.Partitions[0].State.Coverage != 0 || i.Partitions[0].Restore != "nothing to restore: begins at 1" {
		t.Errorf("after it: %+v", i.Partitions[0])
	}
	r.run()
	r.checkCame("a", "b*2", "c*2")
	f(exitOK, "back to offset 0", "--replay", "earliest")
	r.run()
	r.write(0, "a", "b", "c")
	r.run()
	r.checkCame("a*2", "b*3", "c*3")
	f(exitOK, "changelog emptied")
	f(exitFailed, "partition 0 has no state (begins: there is no state): there is nothing to emit again", "--replay", "earliest")
}

// TestStateResetReplayGoesBackOnly: what lies between a lagging group and a point
// ahead of it was judged by nobody.
func TestStateResetReplayGoesBackOnly(t *testing.T) {
	r := newRemembering(t, 2)
	r.write(0, "a")
	r.write(1, "x")
	r.run()
	r.write(0, "b", "c")
	end := time.Now().Add(time.Minute).UTC().Format(time.RFC3339) // no record is as late
	for _, c := range []struct {
		point string
		wants string
	}{{"0:2", "at 2"}, {"0:3", "at 3"}, {end, "at 3"}} {
		code, _, stderr := r.state("", "reset", "--yes", "--replay", c.point)
		want := "partition 0 is at offset 1, and --replay wants it " + c.wants + ": a replay goes back, never forward"
		if code != exitFailed || !strings.Contains(stderr, want) || !strings.Contains(stderr, "hint: ") {
			t.Errorf("--replay %s: exit code %d, stderr:\n%swant %s", c.point, code, stderr, want)
		}
	}
	for _, p := range r.inspect().Partitions {
		if *p.Committed != 1 || p.Restore != "from the changelog, up to the committed offset" {
			t.Errorf("a refused replay changed something: %+v", p)
		}
	}
	// Where the group is, nothing is skipped, and what it knew is forgotten.
	r.must("", "reset", "--yes", "--replay", "0:1")
	r.run()
	r.checkCame("a", "b", "c", "x")
}

// TestStateResetStopsAnywhere: whichever step was the last one, what the group knew
// is known at the next start, and the log says what is missing.
func TestStateResetStopsAnywhere(t *testing.T) {
	for _, c := range []struct {
		replay []string
		steps  int
		says   string
	}{
		{nil, 1, "from=changelog"},
		{nil, 2, "the offsets expired, or were deleted; going on where the changelog ends"},
		{[]string{"earliest"}, 1, "from=changelog"},
		{[]string{"earliest"}, 2, "the group was moved back: what is known stays known"},
	} {
		t.Run(fmt.Sprint(c.steps, c.replay), func(t *testing.T) {
			r := newRemembering(t, 1)
			r.write(0, "a", "b")
			r.run()
			at, err := parsePoints(c.replay)
			if err != nil {
				t.Fatal(err)
			}
			s := &resetSettings{stateSettings: stateSettings{connection: connection{brokers: r.brokers}, in: r.in, group: r.group()}}
			reset := &resetting{settings: s, group: r.open(), partitions: []int32{0}}
			if err := reset.look(t.Context(), at); err != nil {
				t.Fatal(err)
			}
			for _, step := range reset.steps()[:c.steps] {
				if err := step.do(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			r.write(0, "b", "c")
			said := r.run()
			r.checkCame("a", "b", "c")
			if c.steps > 1 && !strings.Contains(said, c.says) {
				t.Errorf("the log does not say %q:\n%s", c.says, said)
			}
			// And reset again finishes.
			r.must("", "reset", append([]string{"--yes"}, repeated("--replay", c.replay)...)...)
			r.run()
			r.checkCame("a*2", "b*2", "c*2")
		})
	}
}

func repeated(flag string, values []string) (args []string) {
	for _, v := range values {
		args = append(args, flag, v)
	}
	return args
}

// TestStateResetRemovesCheckpoints here, and those that it cannot see are refused.
func TestStateResetRemovesCheckpoints(t *testing.T) {
	r := newRemembering(t, 1)
	r.write(0, "a", "b")
	r.checkpointed()
	_, said := r.must("", "reset", "--yes", "--state-dir", r.dir)
	if !strings.Contains(said, "deletes checkpoint "+r.dir) || len(r.inspect("--state-dir", r.dir).Checkpoints) != 0 {
		t.Errorf("the checkpoints are still there; reset said:\n%s", said)
	}
	r.checkpointed() // all comes out again
	r.checkCame("a*2", "b*2")

	// As on another machine, whose folder nobody looked into.
	r.must("", "reset", "--yes")
	r.run("--start", "latest")
	r.write(0, "x")
	r.run()
	r.write(0, "a", "x")
	for _, c := range r.inspect("--state-dir", r.dir).Checkpoints {
		if !strings.Contains(c.Refused, "what it holds is forgotten, or was reset") {
			t.Errorf("inspect does not refuse %+v", c)
		}
	}
	said = r.run("--state-dir", r.dir)
	if !strings.Contains(said, "a checkpoint is of no use") {
		t.Errorf("a checkpoint of before the reset was not refused:\n%s", said)
	}
	r.checkCame("a*3", "b*2", "x")
}

// TestStateOfAScopeOfTheTopic is that of its second stage, which can be looked at.
func TestStateOfAScopeOfTheTopic(t *testing.T) {
	r := newRemembering(t, 2)
	r.write(0, "a", "b")
	r.write(1, "a", "c")
	p := start(t, runArgs(r.brokers, r.in, r.out, "--scope", "topic")...)
	consume(t, r.brokers, r.out, 3)
	if code := p.end(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	topic := kafkaio.RepartitionTopic(r.group(), r.in)
	for _, command := range [][]string{{"inspect"}, {"export"}, {"reset", "--yes"}, {"import", "--key", "json:id"}} {
		code, _, stderr := r.state("", command[0], command[1:]...)
		if code != exitFailed || !strings.Contains(stderr, "was run with --scope topic: its state is under --in "+topic+"\nhint: ") {
			t.Errorf("%s: exit code %d, stderr:\n%s", command, code, stderr)
		}
	}
	g := r.group()
	var added uint64
	args := []string{"state", "inspect", "--brokers", strings.Join(r.brokers, ","), "--group", g, "--in", topic, "--count", "-o", "json"}
	code, out, stderr := exec("", args...)
	var i inspected
	if err := json.Unmarshal([]byte(out), &i); err != nil || code != exitOK {
		t.Fatalf("%v, exit code %d, stderr:\n%s", err, code, stderr)
	}
	for _, p := range i.Partitions {
		if p.State == nil {
			continue
		}
		for _, g := range p.State.Generations {
			added += *g.Added
		}
	}
	if added != 3 {
		t.Errorf("%d IDs are remembered, want 3", added)
	}
	if code, _, stderr := exec("", "state", "reset", "--yes", "--brokers", strings.Join(r.brokers, ","), "--group", g, "--in", topic); code != exitFailed ||
		!strings.Contains(stderr, "can be inspected and exported, not changed") {
		t.Errorf("reset: exit code %d, stderr:\n%s", code, stderr)
	}
	if code, _, stderr := exec("", runArgs(r.brokers, r.in, r.out, "--scope", "topic", "--filter", "classic")...); code != exitFailed ||
		!strings.Contains(stderr, "use another --group") || strings.Contains(stderr, "state reset") {
		t.Errorf("another filter: exit code %d, stderr:\n%s", code, stderr)
	}
}

// Only a whole yes deletes.
func TestConfirmed(t *testing.T) {
	f := func(answer string, want int) {
		t.Helper()
		a := &app{stdin: strings.NewReader(answer), stderr: io.Discard}
		if code := a.exit(a.confirmed()); code != want {
			t.Errorf("%q: exit code %d, want %d", answer, code, want)
		}
	}
	f("yes\n", exitOK)
	f("yes", exitOK)
	f("y\n", exitFailed)
	f("\n", exitFailed)
	f("no\nyes\n", exitFailed)
	f("", exitUsage)
}
