package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
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

// brokenRun are the settings of a run with a JSON log, for tests that break what flags cannot.
func brokenRun(brokers []string, in, out string) *runSettings {
	s := defaultRun()
	s.brokers, s.in, s.out, s.group, s.instance = brokers, []string{in}, out, "g-"+out, "a"
	s.keys, s.capacity, s.seed, s.onFull = []string{"json:id"}, 10_000, seed{1, true}, fullPolicy{}
	s.metricsAddr, s.stateDir, s.logFormat, s.summary = "127.0.0.1:0", stateDirOff, "json", summaryNone
	return s
}

// planned is the filter that a run of the settings has in a partition, of one.
func planned(s *runSettings) (filter.Set, error) {
	plan, err := s.plan(1)
	if err != nil {
		return nil, err
	}
	return plan.NewSet()
}

// launch runs settings as start runs flags.
func launch(t *testing.T, s *runSettings) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &process{stop: cancel, code: make(chan int, 1)}
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &p.stderr}
	go func() { p.code <- a.exit(a.stream(ctx, s)) }()
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			t.Logf("stderr:\n%s", p.stderr.String())
		}
	})
	return p
}

// overfilled is the filter of a run with four generations' IDs in one, which it does not
// know of.
func overfilled(s *runSettings) (filter.Set, error) {
	set, err := planned(s)
	if err != nil {
		return nil, err
	}
	hashes := make([]filter.Hash, 1000)
	learn, ages := slices.Repeat([]bool{true}, len(hashes)), make([]uint8, len(hashes))
	random := rand.New(rand.NewPCG(1, 2))
	for range 57_143 * 4 / len(hashes) {
		for i := range hashes {
			hashes[i] = filter.Hash(random.Uint64())
		}
		set.Learn(0, hashes, learn, uint64(len(hashes)), ages)
		set.Seal()
		set.Commit()
	}
	return set, nil
}

// TestCase_OPS_06 gives a run a filter that is fuller than it knows: the sampled audit
// finds its share of the false positives, the measured rate says so, and a check is up.
func TestCase_OPS_06(t *testing.T) {
	const records, sampledOf = 50_000, 1024
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 1, nil)
	send(t, brokers, in, records, func(i int) (int32, string) { return 0, fmt.Sprintf(`{"id":%d}`, i) })
	for _, make := range []func(*runSettings) (filter.Set, error){planned, overfilled} {
		out := kafkatest.Topic(t, brokers, 1, nil)
		s := brokenRun(brokers, in, out)
		s.capacity = 200_000
		s.newSet = func() (filter.Set, error) { return make(s) }
		p := launch(t, s)
		m := awaitCounted(t, p.line(t, `serving metrics.*"address":"([^"]+)"`), records)
		if code := p.end(); code != exitOK {
			t.Fatalf("exit code %d after a stop, want 0", code)
		}
		withheld := m.sum("streamdedup_fate_total", "fate=dropped") // all IDs are new
		wrong := withheld > records/100
		found, audited := m.sum("streamdedup_audited_false_positives_total"), m.sum("streamdedup_audited_records_total")
		if audited < records/sampledOf/2 || audited > records/sampledOf*2 {
			t.Errorf("%v records are audited, want about %d", audited, records/sampledOf)
		}
		if want := withheld / sampledOf; wrong && (found < want/2 || found > want*2) || !wrong && found > 1 {
			t.Errorf("%v false positives are found, want about %v", found, want)
		}
		if got, want := m.sum("streamdedup_fpr_measured"), found/audited; got != want {
			t.Errorf("the measured rate is %v, want %v", got, want)
		}
		if got := m.sum("streamdedup_health_warning", "check=fpr_measured") == 1; got != wrong {
			t.Errorf("the check of the measured rate is up: %v, want %v", got, wrong)
		}
		// So does the estimate: it looks at the bits, whatever set them. It is that of the
		// end, when the filter was fullest.
		if got := m.sum("streamdedup_health_warning", "check=fpr_estimate") == 1; got != wrong {
			t.Errorf("the check of the estimate is up: %v, want %v", got, wrong)
		}
		if got, rate := m.sum("streamdedup_filter_fpr_estimate"), withheld/records; wrong && (got < rate || got > rate*1.5) {
			t.Errorf("the estimate is %v, and %v were withheld", got, rate)
		}
		if n := strings.Count(p.stderr.String(), "audited new records were taken for seen"); n != map[bool]int{true: 1}[wrong] {
			t.Errorf("the log says it %d times", n)
		}

	}
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

	s := brokenRun(brokers, in, out)
	s.newSet = func() (filter.Set, error) {
		set, err := planned(s)
		return &breaking{set, committed}, err
	}
	p := launch(t, s)
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
	next := start(t, append(runArgs(brokers, in, out), "--hash-seed", "1")...)
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
