package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/window"
)

// seed is the one given in the environment, or a fixed one; it is printed.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := uint64(20260101)
	if text := os.Getenv("STREAMDEDUP_SEED"); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("STREAMDEDUP_SEED: %v", err)
		}
	}
	t.Logf("STREAMDEDUP_SEED=%d", s)
	return s
}

// rules are those of most tests: an hour's window, and a filter with so much
// room that no false positive is to be expected in any test.
func rules() Config {
	return Config{
		Keys:   []string{"key"},
		Seed:   7,
		Time:   "record",
		Window: window.Config{Span: time.Hour, GenerationCapacity: 1 << 20},
		Kind:   "sliced",
		NewSet: func() (filter.Set, error) {
			return filter.NewSliced(filter.Params{Lines: 1 << 13, LinesPerKey: 4, CellsPerLine: 4})
		},
	}
}

// run runs an engine over a stream until all of it is committed. One that makes no end of
// it is ended by the time that `go test` gives all tests, which shows where it stands.
func run(t *testing.T, s *stream, m *member, cfg EngineConfig) (*Engine, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m.done = cancel
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	e, err := NewEngine(cfg, m, s)
	if err != nil {
		t.Fatal(err)
	}
	err = e.Run(ctx)
	if !m.closed {
		t.Error("the engine did not close its session")
	}
	return e, err
}

func engineConfig() EngineConfig {
	return EngineConfig{Rules: rules(), Workers: 2, Pin: PinOff, CommitInterval: time.Nanosecond}
}

// fill makes n records over the partitions: a tenth are duplicates of one of the
// last thousand of their partition, and time moves on by some seconds each, so
// that rotations fall into cycles. It returns the offsets that must come out.
func fill(s *stream, rng *rand.Rand, n int) map[Partition][]int64 {
	want := map[Partition][]int64{}
	recent := map[int][]string{}
	now := epoch0
	for i := range n {
		p := rng.IntN(len(s.in))
		name := Partition{"in", int32(p)}
		now += rng.Int64N(200)
		if rng.IntN(10) == 0 && len(recent[p]) > 0 {
			s.add(p, recent[p][rng.IntN(len(recent[p]))], now-rng.Int64N(1000))
			continue
		}
		id := fmt.Sprintf("id-%d", i)
		if recent[p] = append(recent[p], id); len(recent[p]) > 1000 {
			recent[p] = recent[p][1:]
		}
		want[name] = append(want[name], int64(len(s.in[name])))
		s.add(p, id, now)
	}
	return want
}

// checkOutput compares the output with what must come out, exactly.
func checkOutput(t *testing.T, s *stream, want map[Partition][]int64) {
	t.Helper()
	for p := range s.in {
		var got []int64
		for _, d := range s.out[p] {
			got = append(got, d.offset)
		}
		if !reflect.DeepEqual(got, want[p]) {
			t.Errorf("partition %s: %d records came out, want %d", p, len(got), len(want[p]))
		}
	}
}

func TestEngineEmitsFirstCopiesOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 2))
	s := newStream(4)
	want := fill(s, rng, 50_000)
	e, err := run(t, s, newMember(s, rng.Uint64(), 700, nil), engineConfig())
	if err != nil {
		t.Fatal(err)
	}
	checkOutput(t, s, want)
	c := e.Snapshot().Counts
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	if c.In != 50_000 || c.Fates[Out] != c.Verdicts[Unique] {
		t.Errorf("counts are %+v", c)
	}
}

// Whatever befalls the transactions, and however often, the output is the same.
func TestEngineIsExactThroughFaults(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 3))
	for _, f := range []struct {
		name   string
		fault  func(n int) fault
		losses int // one in so many polls takes a partition away; 0 is none
	}{
		{name: "partitions are taken away, and some abort", fault: func(n int) fault {
			if n%3 == 0 {
				return faultAbort
			}
			return faultNone
		}, losses: 10},
		{name: "every one aborts once", fault: func(n int) fault { return fault(1 - n%2) }},
		{name: "deliveries fail", fault: func(n int) fault {
			if n%2 == 0 {
				return faultDeliver
			}
			return faultNone
		}},
		{name: "sessions are lost", fault: func(n int) fault {
			if n%3 == 0 {
				return faultLost
			}
			return faultNone
		}},
		{name: "commits are not confirmed", fault: func(n int) fault {
			if n%3 == 0 {
				return faultKept
			}
			return faultNone
		}},
		{name: "all of it", fault: func(int) fault { return fault(rng.IntN(int(faultDeliver) + 1)) }},
	} {
		t.Run(f.name, func(t *testing.T) {
			s := newStream(3)
			want := fill(s, rng, 20_000)
			m := newMember(s, rng.Uint64(), 900, nil)
			m.fault = f.fault
			cfg := engineConfig()
			if f.losses > 0 {
				m.poll = takeAwayAny(m, rng, f.losses)
				cfg.CommitInterval = time.Millisecond // some polls a cycle
			}
			e, err := run(t, s, m, cfg)
			if err != nil {
				t.Fatal(err)
			}
			checkOutput(t, s, want)
			c := e.Snapshot().Counts
			if err := c.Check(); err != nil {
				t.Error(err)
			}
			if m.committed < 5 || m.ahead < 5 {
				t.Errorf("%d transactions committed, %d batches were read ahead: the test shows nothing", m.committed, m.ahead)
			}
		})
	}
}

// Verdicts depend on the records and their reading times alone.
func TestOutcomesDoNotDependOnHowTheEngineRuns(t *testing.T) {
	base := rand.New(rand.NewPCG(seed(t), 4)).Uint64()
	var first map[Partition][]delivered
	var counts Counts
	for i, v := range []struct {
		workers, batch int
		interval       time.Duration
	}{{1, 5000, time.Nanosecond}, {1, 1, time.Nanosecond}, {2, 63, time.Nanosecond}, {3, 1024, time.Hour}, {8, 1500, time.Millisecond}} {
		s := newStream(4)
		rng := rand.New(rand.NewPCG(base, 5))
		fill(s, rng, 5_000)
		cfg := engineConfig()
		// So small that it has false positives and full generations: they must be
		// the same ones, too.
		cfg.Rules.Window.Span = 5 * time.Minute
		cfg.Rules.Window.GenerationCapacity = 80
		cfg.Rules.NewSet = func() (filter.Set, error) {
			return filter.NewSliced(filter.Params{Lines: 64, LinesPerKey: 2, CellsPerLine: 3})
		}
		cfg.Workers, cfg.CommitInterval = v.workers, v.interval
		m := newMember(s, base+uint64(i), v.batch, nil)
		if v.interval == time.Hour {
			cfg.CommitInterval = time.Second
		}
		e, err := run(t, s, m, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first, counts = s.out, e.Snapshot().Counts
			if counts.Marked(Unlearned) == 0 || counts.Verdicts[Duplicate] < 300 {
				t.Errorf("the workload is too tame: %+v", counts)
			}
			continue
		}
		if !reflect.DeepEqual(s.out, first) || e.Snapshot().Counts != counts {
			t.Errorf("%+v gives other outcomes: %+v, want %+v", v, e.Snapshot().Counts, counts)
		}
	}
}

type brokenSet struct{ filter.Set }

func (brokenSet) Rollback()            {}
func (brokenSet) Bytes() uint64        { return 0 }
func (brokenSet) FPREstimate() float64 { return 0 }
func (brokenSet) Close() error         { return nil }
