package window

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// TestAgeIsWhereARebuildPutsARun: what is said of a run from outside is what a
// restore makes of it.
func TestAgeIsWhereARebuildPutsARun(t *testing.T) {
	rng := newRand(t)
	cfg := config(time.Hour)
	for range scaled(2000) {
		s := Taught(cfg.Slice(), int64(rng.Uint64N(1<<41)), 1, 7)
		if rng.IntN(2) == 0 {
			s.Rotation += 1<<lineageShift + rng.Uint64N(20)
		}
		run := Run{Rotation: s.Rotation - rng.Uint64N(12) + rng.Uint64N(3), Until: s.StreamTime - rng.Int64N(10*s.Slice)}
		switch rng.IntN(4) {
		case 0:
			run.Rotation = rng.Uint64N(12) // maybe of another slice
		case 1:
			run.Until = NoTime
		}
		set := newExactSet()
		r, err := Rebuild(cfg, set, s)
		if err != nil {
			t.Fatal(err)
		}
		r.LearnRun(run, []filter.Hash{1})
		w := r.Done(7)
		var want [filter.Generations]uint64
		age := s.Age(run)
		if age < filter.Generations {
			want[age] = 1
		}
		if got := w.Stats().Loads; got != want {
			t.Fatalf("run %+v of state %+v has age %d, a rebuild gives loads %v", run, s, age, got)
		}
	}
}

// TestTaughtIsAStateOfAWindow: a rebuild takes it, and it is what the window says
// of itself then.
func TestTaughtIsAStateOfAWindow(t *testing.T) {
	cfg := config(time.Hour)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		m := int64(rng.Uint64N(1 << 41))
		s := Taught(cfg.Slice(), m, max(1, m-cfg.Span.Milliseconds()/2), 5)
		r, err := Rebuild(cfg, newExactSet(), s)
		if err != nil {
			t.Fatal(err)
		}
		if r.From() != 5 {
			t.Errorf("it begins at offset %d, want 5", r.From())
		}
		w := r.Done(5)
		if got := w.State(); got.StreamTime != m || got.Rotation != s.Rotation || len(got.Generations) != filter.Generations ||
			got.Generations[0].Number != s.Generations[0].Number || got.KnownFrom != s.KnownFrom {
			t.Errorf("got %+v, want %+v", got, s)
		}
		if c := w.Coverage(); m > cfg.Span.Milliseconds() && (c < 0.499 || c > 0.501) {
			t.Errorf("coverage %v, want half of the window", c)
		}
		from, to := s.Stretch(0)
		if m < from || m >= to {
			t.Errorf("stream time %d is not in the filling generation, %d to %d", m, from, to)
		}
		if age := s.AgeAt(m); age != 0 || s.AgeAt(m+10*s.Slice) != 0 || s.AgeAt(from-1) != 1 || s.AgeAt(m-9*s.Slice) != filter.Generations {
			t.Errorf("stream time %d is of age %d", m, age)
		}
	}
}
