package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/streamdedup/streamdedup/filter"
)

// logged is a log at level info, as text.
func logged() (*slog.Logger, *bytes.Buffer) {
	var text bytes.Buffer
	return slog.New(slog.NewTextHandler(&text, nil)), &text
}

// OPS-07: a panic in a shard ends in an abort and an error, with nothing committed, and
// in one line with its stack as one attribute.
func TestCase_OPS_07(t *testing.T) {
	s := newStream(1)
	s.add(0, "a", epoch0)
	cfg := engineConfig()
	cfg.Rules.NewSet = func() (filter.Set, error) { return brokenSet{}, nil }
	log, text := logged()
	cfg.Logger = log
	_, err := run(t, s, newMember(s, 1, 10, nil), cfg)
	if err == nil || strings.Contains(err.Error(), "goroutine") || !strings.HasPrefix(err.Error(), "shard of in/0: panic: ") {
		t.Errorf("the error is %v", err)
	}
	line := lineWith(text.String(), "level=ERROR msg=\"panic,")
	if !strings.Contains(line, " partition=in/0 ") || !strings.Contains(line, "stack=") || !strings.Contains(line, "brokenSet") {
		t.Errorf("no line has the stack:\n%s", text)
	}
	if n := strings.Count(text.String(), "stack="); n != 1 {
		t.Errorf("%d stacks, want 1:\n%s", n, text)
	}
	if len(s.out[p0]) != 0 || len(s.positions) != 0 {
		t.Errorf("output %v, positions %v: want none", s.out, s.positions)
	}
}

// lineWith is the first line that contains what.
func lineWith(text, what string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, what) {
			return line
		}
	}
	return ""
}

func TestPanicTextOfSeveralLines(t *testing.T) {
	_, err := guarded(func() (int, error) { panic("one\ntwo") })
	if err == nil || err.Error() != "panic: one" {
		t.Errorf("the error is %v", err)
	}
}

// failing is a restorer that says where it failed, or panics.
type failing struct{ err error }

func (f failing) Restore(_ context.Context, p Partition, _ Builder) (Restored, error) {
	if f.err == nil {
		panic("no restore")
	}
	return Restored{}, fmt.Errorf("restore %s: %w", p, f.err)
}

func TestFailedRestoreNamesItsPartitionOnce(t *testing.T) {
	for want, cause := range map[string]error{
		"restore in/0: it is gone":        errors.New("it is gone"),
		"restore in/0: panic: no restore": nil,
	} {
		s := newStream(1)
		cfg := engineConfig()
		log, text := logged()
		cfg.Logger = log
		e, err := NewEngine(cfg, newMember(s, 1, 10, func() {}), failing{cause})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Run(t.Context()); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
		if panicked := strings.Contains(text.String(), "stack="); panicked != (cause == nil) {
			t.Errorf("a stack in the log: %v\n%s", panicked, text)
		}
	}
}

func TestEngineLogsWhatComesAndGoes(t *testing.T) {
	s := newStream(1)
	s.add(0, "a", epoch0)
	cfg := engineConfig()
	log, text := logged()
	cfg.Logger = log
	m := newMember(s, 1, 10, nil)
	taken := false
	m.halted = func() bool {
		if s.positions[p0].Next == 1 && !taken {
			taken = true
			m.lost, m.announce = []Partition{p0}, []Partition{p0}
			delete(m.reading, p0)
		}
		return taken && m.reading[p0] == 1
	}
	if _, err := run(t, s, m, cfg); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`level=INFO msg="partition restored" partition=in/0 took=`,
		` next=0` + "\n",
		`level=INFO msg="partition left to other instances" partition=in/0` + "\n",
		` next=1` + "\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, text)
		}
	}
}

// A policy that stops a partition has no error, an error of the source no policy.
func TestEngineLogsAStopWithoutWhatItHasNot(t *testing.T) {
	f := func(change func(*Config, *member), want string) {
		t.Helper()
		s := newStream(1)
		s.in[p0] = []Record{{Time: epoch0}}
		cfg := engineConfig()
		log, text := logged()
		cfg.Logger = log
		m := newMember(s, 1, 10, nil)
		change(&cfg.Rules, m)
		if _, err := run(t, s, m, cfg); err == nil {
			t.Error("nothing stopped")
		}
		if line := lineWith(text.String(), "partition stopped"); !strings.HasSuffix(line, want+"\n") {
			t.Errorf("the line is %q, want %q at its end", line, want)
		}
	}
	f(func(c *Config, _ *member) { c.OnMissing = Fail }, "partition=in/0 offset=0 reason=\"record without an ID\"")
	f(func(_ *Config, m *member) {
		m.poll = func(_ context.Context, polled Polled) Polled {
			return Polled{Assigned: polled.Assigned, Stopped: []*Stop{{Partition: p0, Offset: 7, Err: errors.New("gone")}}}
		}
	}, "partition=in/0 offset=7 error=gone")
}

func TestEngineTellsWhatAFullGenerationDoesNotRemember(t *testing.T) {
	s := newStream(2)
	for i := range 5 {
		s.add(0, fmt.Sprint(i), epoch0)
	}
	s.add(1, "one", epoch0)
	cfg := engineConfig()
	cfg.Rules.Window.GenerationCapacity = 3
	unlearned := map[Partition]uint64{}
	cfg.Events.Unlearned = func(p Partition, n uint64) { unlearned[p] += n }
	if _, err := run(t, s, newMember(s, 1, 10, nil), cfg); err != nil {
		t.Fatal(err)
	}
	if len(unlearned) != 1 || unlearned[p0] != 2 {
		t.Errorf("told of %v, want 2 of %s", unlearned, p0)
	}
}
