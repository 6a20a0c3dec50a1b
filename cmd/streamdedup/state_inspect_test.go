package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkaio"
)

// TestStateInspect of a group that has not begun, that runs, and that ended; with
// checkpoints and without.
func TestStateInspect(t *testing.T) {
	r := newRemembering(t, 2)
	if i := r.inspect(); i.Changelog != "" || len(i.Partitions) != 2 || i.Partitions[0].Restore != "begins: there is no state" {
		t.Errorf("before it has begun: %+v", i)
	}
	r.write(0, "a", "b", "a")
	r.write(1, "c")
	p := start(t, runArgs(r.brokers, r.in, r.out, "--state-dir", r.dir, "--checkpoint-interval", "20ms")...)
	r.caughtUp(p)
	if i := r.inspect(); len(i.Members) != 1 || i.Members[0].Instance != "a" {
		t.Errorf("while it runs: members %+v", i.Members)
	}
	for deadline := time.Now().Add(time.Minute); len(r.inspect("--state-dir", r.dir).Checkpoints) < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no checkpoints")
		}
	}
	if code := p.end(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}

	i := r.inspect("--count", "--state-dir", r.dir)
	zero := i.Partitions[0]
	if len(i.Members) != 0 || *zero.Committed != 3 || *zero.Next != 3 || zero.Restore != "from the changelog, up to the committed offset" {
		t.Errorf("after it has ended: %+v", i)
	}
	if s := zero.State; s.WindowMS != (24*time.Hour).Milliseconds() || s.Coverage != 1 || len(s.Generations) != 1 ||
		*s.Generations[0].Added != 2 || *s.Generations[0].Fill <= 0 || *s.Generations[0].Fill > 0.01 || *s.FPREstimate > 1e-4 {
		t.Errorf("the state of partition 0: %+v", s)
	}
	if i.Partitions[0].Begin == nil || i.Partitions[1].Begin == nil {
		t.Errorf("no checkpoint to begin with: %+v", i.Partitions)
	}
	for _, c := range i.Checkpoints {
		if c.Instance != "a" || c.Refused != "" || c.State == nil || *c.State.Generations[0].Added == 0 {
			t.Errorf("checkpoint %+v", c)
		}
	}
	if s := r.inspect().Partitions[0].State; s.Generations[0].Added != nil || s.FPREstimate != nil {
		t.Errorf("without --count and checkpoints something is known: %+v", s)
	}

	text, _ := r.must("", "inspect", "--count", "--state-dir", r.dir)
	for _, want := range []string{
		"no members: it does not run", "partition  input  committed  changelog", "0          0-3    3", "from the checkpoint at ", ", then the changelog, up to",
		"partition 1: window 24h, stream time 20", "checkpoint " + r.dir, "generation", "sliced filter, format 1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text has no %q:\n%s", want, text)
		}
	}
}

// TestStateInspectChecks: only a look at all of a checkpoint sees that its body is damaged.
func TestStateInspectChecks(t *testing.T) {
	r := newRemembering(t, 1)
	r.write(0, "a", "b")
	r.checkpointed()
	damaged := r.inspect("--state-dir", r.dir).Checkpoints
	for _, c := range damaged {
		file, err := os.OpenFile(c.File, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		const body = 16384 // where it begins
		b := make([]byte, 1)
		_, err1 := file.ReadAt(b, body)
		b[0] ^= 1
		_, err2 := file.WriteAt(b, body)
		if err := errors.Join(err1, err2, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if text, _ := r.must("", "inspect"); !strings.Contains(text, "\n? is not known: --count reads") {
		t.Errorf("what is not known is not explained:\n%s", text)
	}
	if text, _ := r.must("", "inspect", "--count"); !strings.Contains(text, "\n? is not known: how full that is, a checkpoint of the partition") {
		t.Errorf("what --count leaves unknown is not explained:\n%s", text)
	}
	if i := r.inspect("--state-dir", r.dir); i.Checkpoints[0].Refused != "" || i.Partitions[0].Begin == nil {
		t.Errorf("the header alone shows %+v", i)
	}
	i := r.inspect("--state-dir", r.dir, "--check")
	for _, c := range i.Checkpoints {
		if !strings.Contains(c.Refused, "damaged") {
			t.Errorf("a damaged body is not refused: %+v", c)
		}
	}
	if len(i.Checkpoints) != len(damaged) || i.Partitions[0].Begin != nil {
		t.Errorf("a restart would begin with a damaged checkpoint: %+v", i)
	}
}

// TestStateOfADamagedChangelog is refused by name, and reset is the way out.
func TestStateOfADamagedChangelog(t *testing.T) {
	for name, garbage := range map[string][]byte{"null": nil, "zeroes": {0, 0}, "cut off": {1}} {
		t.Run(name, func(t *testing.T) {
			r := newRemembering(t, 2)
			r.write(0, "a", "b")
			r.write(1, "x")
			r.run()
			cl := client(t, r.brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
			record := &kgo.Record{Topic: kafkaio.ChangelogTopic(r.group(), r.in), Partition: 0, Value: garbage}
			if err := cl.ProduceSync(t.Context(), record).FirstErr(); err != nil {
				t.Fatal(err)
			}
			const why = "it is no record of a changelog"
			i := r.inspect("--count")
			if p := i.Partitions[0]; p.Restore != "refused" || !strings.Contains(p.Refused, why) || p.State != nil || *p.Committed != 2 {
				t.Errorf("inspect shows %+v", p)
			}
			if p := i.Partitions[1]; p.Refused != "" || p.State == nil {
				t.Errorf("inspect shows %+v", p)
			}
			for _, command := range [][]string{{"reset", "--yes", "--replay", "earliest"}, {"import", "--key", "json:id"}} {
				if code, _, stderr := r.state("", command[0], command[1:]...); code != exitFailed || !strings.Contains(stderr, why) {
					t.Errorf("%v: exit code %d, stderr:\n%s", command, code, stderr)
				}
			}
			r.must("", "reset", "--yes")
			r.run()
			r.checkCame("a*2", "b*2", "x*2")
		})
	}
}

// TestStateInspectCountsADamagedChangelog: behind a good end only --count sees it.
func TestStateInspectCountsADamagedChangelog(t *testing.T) {
	r := newRemembering(t, 1)
	r.write(0, "a")
	r.run()
	changelog := kafkaio.ChangelogTopic(r.group(), r.in)
	cl := client(t, r.brokers, kgo.ConsumeTopics(changelog), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	good := cl.PollFetches(t.Context()).Records()[0]
	bad := &kgo.Record{Topic: changelog}
	records := []*kgo.Record{bad}
	for range 64 {
		records = append(records, &kgo.Record{Topic: changelog, Key: good.Key, Value: good.Value})
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if p := r.inspect().Partitions[0]; p.Refused != "" {
		t.Errorf("the end alone shows %+v", p)
	}
	if p := r.inspect("--count").Partitions[0]; p.Restore != "refused" || p.State != nil ||
		!strings.Contains(p.Refused, fmt.Sprintf("offset %d: it is no record of a changelog", bad.Offset)) {
		t.Errorf("all of it shows %+v", p)
	}
}

// TestStateOfAnInputThatGrew can be looked at and dropped before the changelog has
// grown too.
func TestStateOfAnInputThatGrew(t *testing.T) {
	r := newRemembering(t, 2)
	r.write(0, "a")
	r.write(1, "b")
	r.run()
	r.grow(3)
	const why = `has 2 partitions, its input "`
	_, said := r.must("", "inspect")
	if !strings.Contains(said, why) || !strings.Contains(said, "hint: if the input got more partitions, `streamdedup run --fix-topics`") {
		t.Errorf("inspect does not say both counts and the way out:\n%s", said)
	}
	i := r.inspect()
	if len(i.Partitions) != 3 || i.Partitions[1].State == nil || i.Partitions[2].Restore != "begins: there is no state" {
		t.Errorf("inspect shows %+v", i.Partitions)
	}
	if code, _, stderr := r.state("", "import", "--key", "json:id"); code != exitFailed || !strings.Contains(stderr, why) {
		t.Errorf("import: exit code %d, stderr:\n%s", code, stderr)
	}
	r.must("", "reset", "--yes", "--partition", "0", "--replay", "earliest")
	r.run("--fix-topics")
	r.checkCame("a*2", "b")

	r.grow(4)
	r.must("", "reset", "--yes")
	if _, said := r.must("", "inspect"); !strings.Contains(said, "has 3 partitions, its input \"") {
		t.Errorf("inspect says:\n%s", said)
	}
	r.run("--fix-topics")
	r.checkCame("a*3", "b*2")
	if _, said := r.must("", "inspect"); strings.Contains(said, "warning") {
		t.Errorf("inspect says:\n%s", said)
	}
}

// grow gives input and output more partitions.
func (r *remembering) grow(to int) {
	r.t.Helper()
	adm := kadm.NewClient(client(r.t, r.brokers))
	answers, err := adm.UpdatePartitions(r.t.Context(), to, r.in, r.out)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestStateOfAnInputThatShrank was one of another input, and has another way out.
func TestStateOfAnInputThatShrank(t *testing.T) {
	r := newRemembering(t, 1)
	adm := kadm.NewClient(client(t, r.brokers))
	if _, err := adm.CreateTopic(t.Context(), 2, 1, nil, kafkaio.ChangelogTopic(r.group(), r.in)); err != nil {
		t.Fatal(err)
	}
	r.write(0, "a")
	_, said := r.must("", "inspect")
	if !strings.Contains(said, `has 2 partitions, its input "`+r.in+`" has 1: `) || !strings.Contains(said, "\nhint: was the input deleted and made again? ") {
		t.Errorf("inspect says:\n%s", said)
	}
}

// checkpointed runs the processor until there is a checkpoint of one partition.
func (r *remembering) checkpointed(more ...string) {
	r.t.Helper()
	p := start(r.t, runArgs(r.brokers, r.in, r.out, append(more, "--state-dir", r.dir, "--checkpoint-interval", "20ms")...)...)
	r.caughtUp(p)
	for deadline := time.Now().Add(time.Minute); len(r.inspect("--state-dir", r.dir).Checkpoints) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatal("no checkpoint")
		}
	}
	if code := p.end(); code != exitOK {
		r.t.Fatalf("exit code %d", code)
	}
}
