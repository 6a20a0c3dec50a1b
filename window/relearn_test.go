package window

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// logged is a run with the hashes that were learned in it.
type logged struct {
	Run
	hashes []filter.Hash
}

// runLog reads records into a window and keeps what it learns, as a changelog does.
type runLog struct {
	reader
	runs []logged
	// learned is the stream time at which each hash was last learned, and byClock
	// says that this was the wall clock's at some time.
	learned map[filter.Hash]int64
	byClock map[filter.Hash]bool
}

func newRunLog() *runLog {
	return &runLog{learned: map[filter.Hash]int64{}, byClock: map[filter.Hash]bool{}}
}

func (l *runLog) read(w *Window, records []record) {
	for _, rec := range records {
		b := l.fill([]record{rec})
		w.Observe(b)
		for _, run := range b.Runs {
			if run.To > 0 && b.Learn[0] {
				l.runs = append(l.runs, logged{run, []filter.Hash{rec.hash}})
				l.learned[rec.hash] = w.m
				l.byClock[rec.hash] = l.byClock[rec.hash] || run.Until == NoTime
			}
		}
		w.Seal()
		w.Commit()
	}
}

// relearnRuns makes a window again from its state and runs, in any order.
func relearnRuns(t *testing.T, rng *rand.Rand, cfg Config, s State, runs []logged) (*Window, *exactSet) {
	t.Helper()
	set := newExactSet()
	r, err := Rebuild(cfg, set, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range rng.Perm(len(runs)) {
		r.LearnRun(runs[i].Run, runs[i].hashes)
	}
	return r.Done(r.From()), set
}

// TestRunsGiveTheMemoryBack compares a window with one made from its state and the
// runs that it logged: they are the same to the last byte, also when they then
// read on.
func TestRunsGiveTheMemoryBack(t *testing.T) {
	rng := newRand(t)
	for range scaled(300) {
		cfg := config(700 * time.Millisecond)
		cfg.Refresh = rng.IntN(2) == 0
		history := newHistory(rng, cfg)
		original, l := newExactSet(), newRunLog()
		w := mustNew(t, cfg, original)
		l.read(w, history.take(rng.IntN(3000)))
		again, _ := relearnRuns(t, rng, cfg, w.State(), l.runs)
		for range 2 {
			if !slices.Equal(again.AppendState(nil), w.AppendState(nil)) {
				t.Fatalf("%+v became %+v", w.State(), again.State())
			}
			more := history.take(rng.IntN(500))
			l.read(w, more)
			newRunLog().read(again, more)
		}
	}
}

// TestLoadedAndRunsGiveTheMemoryBack begins with a copy of an earlier set.
func TestLoadedAndRunsGiveTheMemoryBack(t *testing.T) {
	rng := newRand(t)
	for range scaled(300) {
		cfg := config(700 * time.Millisecond)
		cfg.Refresh = rng.IntN(2) == 0
		history := newHistory(rng, cfg)
		set, l := newExactSet(), newRunLog()
		w := mustNew(t, cfg, set)
		l.read(w, history.take(1+rng.IntN(2000)))
		// The copy was begun some records before it ended.
		from, begun, loads := len(l.runs), w.State().Rotation, w.Stats().Loads
		l.read(w, history.take(rng.IntN(300)))
		copied := &exactSet{}
		for age, gen := range set.gens {
			copied.gens[age] = map[filter.Hash]struct{}{}
			for h := range gen {
				// Of what was learned meanwhile a part of the copy was too early.
				if !learnedSince(l.runs[from:], h, w.State().Rotation-uint64(age)) || rng.IntN(2) == 0 {
					copied.gens[age][h] = struct{}{}
				}
			}
		}
		rotation := w.State().Rotation
		var added [filter.Generations]uint64
		if passed := rotation - begun; passed < filter.Generations {
			copy(added[passed:], loads[:])
		}
		l.read(w, history.take(rng.IntN(2000)))

		r, err := Rebuild(cfg, copied, w.State())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Loaded(rotation, added); err != nil {
			t.Fatal(err)
		}
		for _, run := range l.runs[from:] {
			r.LearnRun(run.Run, run.hashes)
		}
		if again := r.Done(r.From()); !slices.Equal(again.AppendState(nil), w.AppendState(nil)) {
			t.Fatalf("%+v became %+v", w.State(), again.State())
		}
	}
}

func learnedSince(runs []logged, h filter.Hash, rotation uint64) bool {
	return slices.ContainsFunc(runs, func(run logged) bool { return run.Rotation == rotation && run.hashes[0] == h })
}

// TestLoadedRefuses copies that are of no earlier state of the window.
func TestLoadedRefuses(t *testing.T) {
	s := State{StreamTime: 1015, Slice: 10, Rotation: 5, Generations: []Generation{{Number: 101, FirstOffset: 7}}}
	for span, rotation := range map[time.Duration]uint64{70 * time.Millisecond: 6, 140 * time.Millisecond: 5} {
		r, err := Rebuild(config(span), newExactSet(), s)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Loaded(rotation, [filter.Generations]uint64{}); err == nil {
			t.Errorf("span %v loads a copy of rotation %d", span, rotation)
		}
	}
}

// TestAnotherSpan restarts a window again and again with spans that grow and
// shrink. What it knew is held for the new span, by the stream time at which it
// was learned, and no longer than that and two generations of the longer kind,
// except where that was the wall clock's: then it is held as if learned now.
func TestAnotherSpan(t *testing.T) {
	rng := newRand(t)
	spans := []time.Duration{700 * time.Millisecond, 350 * time.Millisecond, 1400 * time.Millisecond, 701 * time.Millisecond}
	held, gone, cold := 0, 0, 0
	for range scaled(100) {
		cfg := config(spans[rng.IntN(len(spans))])
		cfg.Refresh = rng.IntN(2) == 0
		history := newHistory(rng, cfg)
		history.clock = min(history.clock, 50)
		l := newRunLog()
		set := newExactSet()
		w := mustNew(t, cfg, set)
		for range 4 {
			l.read(w, history.take(100+rng.IntN(1500)))
			before, slice := w.State(), w.slice
			knows := func(h filter.Hash) bool { return set.Test(h) != 0 }
			was := map[filter.Hash]bool{}
			for h := range l.learned {
				was[h] = knows(h)
			}
			cfg = config(spans[rng.IntN(len(spans))])
			w, set = relearnRuns(t, rng, cfg, before, l.runs)
			for h, m := range l.learned {
				switch age := w.m - m; {
				case was[h] && age <= w.span && set.Test(h) == 0:
					t.Fatalf("%v after %d ms: a hash learned %d ms ago is forgotten", cfg.Span, slice*7, age)
				case age > w.span+2*max(slice, w.slice) && set.Test(h) != 0 && !l.byClock[h]:
					t.Fatalf("%v after %d ms: a hash learned %d ms ago is still held", cfg.Span, slice*7, age)
				case set.Test(h) != 0:
					held++
				default:
					gone++
				}
			}
			full := len(before.Generations) == filter.Generations
			if c := w.Coverage(); full && w.slice > 2*slice && c >= 1 || len(before.Generations) < filter.Generations && before.KnownFrom == 0 && c < 1 {
				t.Fatalf("%v after %d ms, %d generations: coverage %v", cfg.Span, slice*7, len(before.Generations), c)
			}
			if w.Coverage() < 1 {
				cold++
			}
			if _, err := Rebuild(cfg, newExactSet(), w.State()); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d held, %d gone, coverage below 1 %d times", held, gone, cold)
	if held == 0 || gone == 0 || cold == 0 {
		t.Error("the histories do not cover all of it")
	}
}

// TestRewind clamps the offsets of generations that begin after the new position.
func TestRewind(t *testing.T) {
	s := State{StreamTime: 1015, Slice: 10, Rotation: 1, Generations: []Generation{{Number: 100, FirstOffset: 5}, {Number: 101, FirstOffset: 7}}}
	if got := s.Rewind(6).Generations; got[0].FirstOffset != 5 || got[1].FirstOffset != 6 {
		t.Errorf("got %v", got)
	}
	if s.Generations[1].FirstOffset != 7 {
		t.Error("the original was changed")
	}
	if _, err := Rebuild(config(70*time.Millisecond), newExactSet(), s.Rewind(0)); err != nil {
		t.Error(err)
	}
}

// TestFollowing: a state that counts from the start again has a count of its own, so
// that what was learned before is placed by its time.
func TestFollowing(t *testing.T) {
	for _, test := range []struct{ rotation, before, want uint64 }{
		{rotation: 9, before: 9, want: 9},
		{rotation: 12, before: 9, want: 12},
		{rotation: 7, before: 100, want: 1 << 32},
		{rotation: 7, before: 5<<32 + 100, want: 6 << 32},
	} {
		if got := (State{Rotation: test.rotation}).Following(test.before).Rotation; got != test.want {
			t.Errorf("%d after %d became %d, want %d", test.rotation, test.before, got, test.want)
		}
	}
}

// TestForward: the input up to the new position is not to be learned.
func TestForward(t *testing.T) {
	s := State{StreamTime: 1015, Slice: 10, Rotation: 1, Generations: []Generation{{Number: 100, FirstOffset: 5}, {Number: 101, FirstOffset: 7}}}
	moved := s.Forward(50)
	r, err := Rebuild(config(70*time.Millisecond), newExactSet(), moved)
	if err != nil {
		t.Fatal(err)
	}
	if r.From() != 50 || s.Generations[0].FirstOffset != 5 {
		t.Errorf("learn from %d, want 50; the original is %+v", r.From(), s)
	}
	if c := r.Done(50).Coverage(); c != 0 {
		t.Errorf("coverage %v, want 0", c)
	}
	if _, err := Rebuild(config(70*time.Millisecond), newExactSet(), State{Slice: 10}.Forward(50)); err != nil {
		t.Error(err)
	}
}
