package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/sizing"
)

// Run says what it is going to take in the words of size, and as size's JSON names it in
// the log: whoever planned with the one must know the other.
func TestRunAnnouncesItsPlanAsSizePrintsIt(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 2, nil)
	_, table, _ := exec("", "size", "--elements", "10k", "--peak", "2", "--skew", "1.25", "--partitions", "2")
	_, figures, _ := exec("", "size", "--elements", "10k", "--peak", "2", "--skew", "1.25", "--partitions", "2", "-o", "json")
	table, _, _ = strings.Cut(table, "\nThis plan:")
	var size struct {
		Bytes   uint64 `json:"bytes"`
		Process uint64 `json:"process_bytes"`
	}
	if err := json.Unmarshal([]byte(figures), &size); err != nil {
		t.Fatal(err)
	}

	text := start(t, runArgs(brokers, in, in+"-text")...)
	text.line(t, `(partition restored)`)
	if code := text.end(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	if got := text.stderr.String(); !strings.Contains(got, table) {
		t.Errorf("stderr has not what size says:\n%s\nbut:\n%s", table, got)
	}

	object := start(t, runArgs(brokers, in, in+"-json", "--log-format", "json")...)
	var plan struct {
		Bytes   uint64 `json:"bytes"`
		Process uint64 `json:"process_bytes"`
	}
	if err := json.Unmarshal([]byte(object.line(t, `(?m)^(.*"msg":"plan".*)$`)), &plan); err != nil {
		t.Fatal(err)
	}
	if plan != size || plan.Bytes == 0 || plan.Process <= plan.Bytes {
		t.Errorf("the log says %+v, size %+v", plan, size)
	}
	if code := object.end(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	for line := range strings.Lines(object.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line that is no JSON: %s", line)
		}
	}
}

// The plan that run prints is of its own --on-full and --memory-limit: it names no growth
// where there is none.
func TestRunAnnouncesHowFarItGrows(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 2, nil)
	for i, c := range []struct {
		flags []string
		grown string
	}{
		{nil, "grown to twice the plan"},
		{[]string{"--memory-limit", "1MiB"}, "fully grown"},
		{[]string{"--on-full", "pass"}, ""},
		{[]string{"--on-full", "fail"}, ""},
	} {
		p := start(t, runArgs(brokers, in, fmt.Sprintf("%s-%d", in, i), c.flags...)...)
		p.line(t, `(partition restored)`)
		if code := p.end(); code != exitOK {
			t.Fatalf("%q: exit code %d", c.flags, code)
		}
		got := regexp.MustCompile(`(?m)^(grown to twice the plan|fully grown) `).FindStringSubmatch(p.stderr.String())
		if (c.grown == "") != (got == nil) || got != nil && got[1] != c.grown {
			t.Errorf("%q: the plan says %q of growing, want %q:\n%s", c.flags, got, c.grown, p.stderr.String())
		}
	}
}

// Who reads the plan, and the log, may be gone: records pass all the same.
func TestRunNeedsNobodyToReadItsPlan(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 1, nil)
	produce(t, brokers, in, 1, `{"id":1}`)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	args := runArgs(brokers, in, in+"-out", "--summary", "none")
	go func() { ended <- run(ctx, args, strings.NewReader(""), io.Discard, gone{}) }()
	passed := make(chan []string, 1)
	go func() { passed <- consume(t, brokers, in+"-out", 1) }()
	select {
	case code := <-ended:
		t.Fatalf("exit code %d before a record passed", code)
	case <-passed:
	}
	stop()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// What the user says of the collector stands.
func TestHeapKeeperLeavesTheUsersSettingsAlone(t *testing.T) {
	for _, c := range []struct{ percent, limit string }{{"50", ""}, {"", "3GiB"}, {"50", "3GiB"}} {
		t.Setenv("GOGC", c.percent)
		t.Setenv("GOMEMLIMIT", c.limit)
		before := debug.SetMemoryLimit(-1)
		done := newHeapKeeper().keep()
		if got := debug.SetMemoryLimit(-1); got != before {
			t.Errorf("GOGC=%q GOMEMLIMIT=%q: the limit is %d, was %d", c.percent, c.limit, got, before)
		}
		done()
	}
}

// However much memory --memory-limit allows, a look-up asks a bounded number of filters:
// the help says how far that goes.
func TestMemoryLimitSaysHowFarFiltersGrow(t *testing.T) {
	p, err := sizing.Solve(sizing.Workload{Elements: 70_000, Window: time.Hour, FPR: 1e-3, Peak: 2, Skew: 1, Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	set, err := p.NewGrowingSet(1 << 40)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	times := set.(*filter.Growing).Capacity() / p.GenerationCapacity
	want := fmt.Sprintf("for %d times the planned IDs at most", times)
	for _, command := range []string{"run", "filter"} {
		if _, help, _ := exec("", command, "--help"); !strings.Contains(help, want) {
			t.Errorf("the help of %s does not say %q:\n%s", command, want, help)
		}
	}
}
