package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// breaking is a filter that panics once it has seen as many hashes as it is good for.
type breaking struct {
	filter.Set
	good int
}

func (b *breaking) TestAndAdd(hashes []filter.Hash, learn []bool, room uint64, ages []uint8) uint64 {
	added := b.Set.TestAndAdd(hashes, learn, room, ages) // a part of the cycle is done
	if b.good -= len(hashes); b.good < 0 {
		panic("a bug\nof two lines")
	}
	return added
}

// TestCase_OPS_07 lets a shard panic in the middle of a stream. The process says so in
// one line that a machine can read, takes its transaction back, and exits with 1; the
// next one, without the bug, goes on as if nothing had been.
func TestCase_OPS_07(t *testing.T) {
	const committed, broken = 10, 5
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 1, nil)
	out := kafkatest.Topic(t, brokers, 1, nil)
	event := func(from int) func(int) (int32, string) {
		return func(i int) (int32, string) { return 0, fmt.Sprintf(`{"id":%d}`, from+i) }
	}
	send(t, brokers, in, committed, event(0))

	s := defaultRun()
	s.brokers, s.in, s.out, s.group, s.instance = brokers, []string{in}, out, "g-"+out, "a"
	s.keys, s.capacity = []string{"json:id"}, 10_000
	s.metricsAddr, s.stateDir, s.logFormat, s.summary = "127.0.0.1:0", stateDirOff, "json", summaryNone
	s.newSet = func() (filter.Set, error) {
		plan, err := s.plan(1)
		if err != nil {
			return nil, err
		}
		set, err := plan.NewSet()
		return &breaking{set, committed}, err
	}
	p := &process{stop: func() {}, code: make(chan int, 1)}
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &p.stderr}
	go func() { p.code <- a.exit(a.stream(t.Context(), s)) }()
	address := p.line(t, `serving metrics.*"address":"([^"]+)"`)
	awaitCounted(t, address, committed)
	send(t, brokers, in, broken, event(committed))
	if code := <-p.code; code != exitFailed {
		t.Errorf("exit code %d after a panic, want 1", code)
	}
	stderr := p.stderr.String()
	var said []map[string]any
	for line := range strings.Lines(stderr) {
		var o map[string]any
		if json.Unmarshal([]byte(line), &o) == nil && o["panic"] != nil {
			said = append(said, o)
		}
	}
	if len(said) != 1 || said[0]["level"] != "ERROR" || said[0]["partition"] != in+"/0" || said[0]["panic"] != "a bug\nof two lines" ||
		!strings.Contains(fmt.Sprint(said[0]["stack"]), "breaking") {
		t.Errorf("the panic is not one line with its partition and its stack: %v", said)
	}
	if want := "\nerror: shard of " + in + "/0: panic: a bug\n"; strings.Count(stderr, want) != 1 {
		t.Errorf("the error %q is not said once:\n%s", want, stderr)
	}

	// What the broken cycle had written was taken back: each record comes out once.
	next := start(t, append(runArgs(brokers, in, out), "--group", s.group)...)
	awaitCounted(t, next.line(t, `serving metrics.* address=(\S+)`), broken)
	got := consume(t, brokers, out, committed+broken)
	var want []string
	for i := range committed + broken {
		_, value := event(0)(i)
		want = append(want, value)
	}
	if !slices.Equal(got, want) {
		t.Errorf("what came out is %q, want %q", got, want)
	}
	if code := next.end(); code != exitOK {
		t.Fatalf("exit code %d after a stop, want 0", code)
	}
}
