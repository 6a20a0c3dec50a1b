package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/window"
)

// durable is a stream with a changelog and checkpoints, and an engine for it whose
// window is a minute: so short that it forgets in a test.
func durable(t *testing.T, partitions int) (*stream, EngineConfig) {
	t.Helper()
	s := newStream(partitions)
	s.log.checkpoints = &shelf{}
	cfg := engineConfig()
	cfg.Rules.LogChanges = true
	cfg.Rules.Window.Span = time.Minute
	cfg.Rules.NewSet = func() (filter.Set, error) { // a body of four steps
		return filter.NewSliced(filter.Params{Lines: 4 * copyStep / filter.LineBytes, LinesPerKey: 4, CellsPerLine: 4})
	}
	cfg.Checkpoints, cfg.CheckpointInterval = s.log.checkpoints, time.Nanosecond
	return s, cfg
}

// wander adds n records whose IDs come again after all kinds of times, within the
// window and long after it, and whose times are late now and then, or jump.
func wander(s *stream, rng *rand.Rand, n int) {
	now := make([]int64, len(s.in))
	for i := range now {
		now[i] = epoch0 + rng.Int64N(60_000)
	}
	for i := range n {
		p := rng.IntN(len(s.in))
		now[p] += rng.Int64N(300)
		if rng.IntN(500) == 0 {
			now[p] += rng.Int64N(200_000)
		}
		back := 1 + int(rng.ExpFloat64()*300)
		if rng.IntN(3) > 0 {
			back = 0
		}
		at := now[p]
		if rng.IntN(20) == 0 {
			at -= rng.Int64N(100_000)
		}
		s.add(p, fmt.Sprintf("id-%d", max(0, i-back)), at)
	}
}

// checkWindow holds the output against the promise, with a map: each record comes
// out once or not at all; not at all within the span after the copy that came out;
// and surely when that is more than a span and a slice ago.
func checkWindow(t *testing.T, s *stream, rules Config) {
	t.Helper()
	span, slice := rules.Window.Span.Milliseconds(), rules.Window.Slice()
	for p, records := range s.in {
		out, at := s.out[p], 0
		seen := map[string]int64{} // stream time when it came out
		now, missed, lost, dropped := int64(0), 0, 0, 0
		for offset := range records {
			r := &records[offset]
			now = max(now, r.Time)
			came := at < len(out) && out[at].offset == int64(offset)
			since, known := seen[string(r.Key)]
			switch {
			case came && known && now-since <= span:
				missed++
			case !came && (!known || now-since > span+slice):
				lost++
			case !came:
				dropped++
			}
			if came {
				seen[string(r.Key)] = now
				at++
			}
		}
		if at != len(out) || missed > 0 || lost > 0 {
			t.Errorf("partition %s: %d first copies are lost, %d duplicates came out, %d records came out of order or twice",
				p, lost, missed, len(out)-at)
		}
		if dropped < len(records)/20 {
			t.Errorf("partition %s: only %d of %d records are duplicates: the test shows little", p, dropped, len(records))
		}
	}
}

// growEarly lets the memory grow once a generation has some IDs: a third of what it gets.
func growEarly(rules *Config, bytes uint64) {
	rules.Window.OnFull, rules.Window.GenerationCapacity = window.GrowWhenFull, 20
	rules.NewSet = func() (filter.Set, error) {
		return newGrowing(20, filter.Params{Lines: bytes / filter.LineBytes, LinesPerKey: 4, CellsPerLine: 4}, math.MaxInt64)
	}
}

// Whatever befalls the process, its transactions and its checkpoints, and however
// often: the output is what it would have been, and a checkpoint that is finished is
// true.
func TestEngineIsExactThroughCrashes(t *testing.T) {
	base := rand.New(rand.NewPCG(seed(t), 21))
	rounds := 2
	if os.Getenv("STREAMDEDUP_LONG") == "1" {
		rounds = 100
	}
	total := map[string]int{}
	for round := range rounds {
		s, cfg := durable(t, 3)
		if round%2 == 1 {
			growEarly(&cfg.Rules, 4*copyStep)
		}
		records := base.Uint64()
		wander(s, rand.New(rand.NewPCG(records, 0)), 12_000)
		x := newTruth(t, s, cfg.Rules)
		shelf := s.log.checkpoints
		var steps atomic.Uint64
		shelf.before = func(string) error {
			if steps.Add(1)%37 == 0 {
				return errors.New("no space left on purpose")
			}
			return nil
		}
		shelf.finished = x.check
		rng := rand.New(rand.NewPCG(base.Uint64(), 0))
		for runs := 1; ; runs++ {
			m := newMember(s, rng.Uint64(), 40, nil)
			m.fault = func(int) fault {
				if rng.IntN(10) > 0 {
					return faultNone
				}
				return fault(rng.IntN(int(faultLate) + 1))
			}
			take := takeAwayAny(m, rng, 40)
			m.poll = func(ctx context.Context, polled Polled) Polled {
				s.mu.Lock()
				defer s.mu.Unlock()
				p := Partition{"in", int32(rng.IntN(3))}
				switch roll := rng.IntN(30); {
				case len(polled.Batches) == 0: // there are many of these
				case roll == 0:
					s.log.trim(p)
				case roll == 1:
					shelf.damage(p)
				}
				return take(ctx, polled)
			}
			cfg.Workers = 1 + rng.IntN(3)
			if _, err := run(t, s, m, cfg); err == nil {
				total["runs"] += runs
				break
			} else if !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
		}
		checkWindow(t, s, cfg.Rules)
		calm := newStream(3)
		wander(calm, rand.New(rand.NewPCG(records, 0)), 12_000)
		if _, err := run(t, calm, newMember(calm, 1, 100, nil), EngineConfig{
			Rules: cfg.Rules, Workers: 1, Pin: PinOff, CommitInterval: time.Nanosecond,
		}); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(s.out, calm.out) {
			t.Errorf("round %d: the output is another one than without faults", round)
		}
		for what, n := range shelf.counts {
			total[what] += n
		}
		if t.Failed() {
			t.Fatalf("round %d of seed", round)
		}
	}
	t.Log(total)
	for _, what := range []string{"runs", "finish", "loaded", "refused"} { // how often depends on the machine
		if total[what] == 0 {
			t.Errorf("%q never happened: the test shows little", what)
		}
	}
}

// damage makes the newest checkpoint of p unreadable.
func (s *shelf) damage(p Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.boxes[p]); n > 0 {
		damaged := *s.boxes[p][n-1]
		damaged.damaged = true
		s.boxes[p][n-1] = &damaged
	}
}
