package window

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// growingConfig is a window over a set that grows.
func growingConfig(span time.Duration) Config {
	cfg := config(span)
	cfg.OnFull = GrowWhenFull
	return cfg
}

func TestGrowNeedsASetThatGrows(t *testing.T) {
	cfg := growingConfig(700 * time.Millisecond)
	_, err := New(cfg, newExactSet())
	_, rebuildErr := Rebuild(cfg, newExactSet(), State{Slice: 100})
	for _, err := range []error{err, rebuildErr} {
		if err == nil || !strings.Contains(err.Error(), "does not grow") {
			t.Errorf("a set that does not grow: error %v", err)
		}
	}
}

// TestGrownWindowIsRestored reads streams whose generations get several times what was
// planned, and makes the window again: from its log, and from a copy of its set and the
// log behind it. What it then reads has the verdicts that the original gives.
func TestGrownWindowIsRestored(t *testing.T) {
	rng := newRand(t)
	const capacity = 40
	slabs, copies := 0, 0
	for range scaled(300) {
		cfg := growingConfig(700 * time.Millisecond)
		cfg.Refresh = rng.IntN(2) == 0
		history := newHistory(rng, cfg)
		set, l := newGrowing(t, capacity, math.MaxInt64), newRunLog()
		w := mustNew(t, cfg, set)
		l.read(w, history.take(rng.IntN(3000)))
		from, begun, given := len(l.runs), w.State().Rotation, w.Stats().Loads
		_, changed := set.Slabs()
		body := set.AppendBody(nil, 0, set.BodyBytes()/filter.BodyUnit/2*filter.BodyUnit)
		l.read(w, history.take(rng.IntN(50)))
		restored := map[string]*Window{}
		if _, now := set.Slabs(); now == changed && w.State().Rotation-begun <= set.BodySpan() {
			copies++
			body = set.AppendBody(body, uint64(len(body)), set.BodyBytes())
			rotation, head := w.State().Rotation, set.AppendHead(nil)
			l.read(w, history.take(rng.IntN(1000)))
			var added [filter.Generations]uint64
			if passed := rotation - begun; passed < filter.Generations {
				copy(added[passed:], given[:])
			}
			copied := newGrowing(t, capacity, math.MaxInt64)
			if err := copied.Load(head, bytes.NewReader(body)); err != nil {
				t.Fatal(err)
			}
			r, err := Rebuild(cfg, copied, w.State())
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Loaded(rotation, added); err != nil {
				t.Fatal(err)
			}
			restored["a copy and the log"] = relearnInOrder(r, l.runs[from:])
		}
		r, err := Rebuild(cfg, newGrowing(t, capacity, math.MaxInt64), w.State())
		if err != nil {
			t.Fatal(err)
		}
		restored["the log"] = relearnInOrder(r, l.runs)
		slabs = max(slabs, w.Stats().Slabs)
		grown, loads := w.Stats().Loads, map[string][filter.Generations]uint64{}
		for what, again := range restored {
			loads[what] = again.Stats().Loads
		}
		more := history.take(500)
		want := readOn(w, more)
		for what, again := range restored {
			if got := loads[what]; got != grown {
				t.Fatalf("from %s: loads %v, want %v", what, got, grown)
			}
			for i, got := range readOn(again, more) {
				if got != want[i] {
					t.Fatalf("from %s: record %d: %v, want %v", what, i, got, want[i])
				}
			}
			closeWindow(t, again)
		}
		closeWindow(t, w)
	}
	if slabs < 3 || copies < 10 {
		t.Errorf("%d slabs at most, %d copies: the test is too tame", slabs, copies)
	}
}

func relearnInOrder(r *Rebuilder, runs []logged) *Window {
	for _, run := range runs {
		r.LearnRun(run.Run, run.hashes)
	}
	return r.Done(r.From())
}

// readOn is the verdicts of w on records.
func readOn(w *Window, records []record) []verdict {
	var r reader
	verdicts, _ := r.read(w, records)
	return verdicts
}

func closeWindow(t *testing.T, w *Window) {
	t.Helper()
	if err := w.set.Close(); err != nil {
		t.Error(err)
	}
}

// TestGrownWindowUnderLess restores a window that had grown where less is allowed, or
// nothing: what finds no place is counted and passes, and nothing else does.
func TestGrownWindowUnderLess(t *testing.T) {
	cfg := growingConfig(700 * time.Millisecond)
	cfg.GenerationCapacity = 40
	set := newGrowing(t, 40, math.MaxInt64)
	w := mustNew(t, cfg, set)
	defer closeWindow(t, w)
	l := newRunLog()
	var records []record
	for i := range int64(200) {
		records = append(records, record{offset: i, time: 1000, now: 1000, hash: hashOf(uint64(i))})
	}
	l.read(w, records)
	if s := w.Stats(); s.Slabs < 7 || s.Full || s.Loads[0] != 200 {
		t.Fatalf("%d slabs, full: %v, loads %v", s.Slabs, s.Full, s.Loads)
	}
	for _, policy := range []OnFull{GrowWhenFull, PassWhenFull} {
		less := cfg
		less.OnFull = policy
		set := newGrowing(t, 40, 0)
		r, err := Rebuild(less, set, w.State())
		if err != nil {
			t.Fatal(err)
		}
		again := relearnInOrder(r, l.runs)
		if n := r.Unlearned(); n != 160 {
			t.Errorf("%v: %d found no place, want 160", policy, n)
		}
		for i, v := range readOn(again, records) {
			if known := v.ages != 0; known != (i < 40) || !known && v.marks&MarkUnlearned == 0 {
				t.Fatalf("%v: hash %d: %v", policy, i, v)
			}
		}
		closeWindow(t, again)
	}
}
