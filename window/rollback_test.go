package window

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// TestRollbackIsExact compares the bytes of the whole state with what they were
// at the end of the last committed section, from random points in random
// streams, rotations and jumps included.
func TestRollbackIsExact(t *testing.T) {
	for name, open := range sets {
		t.Run(name, func(t *testing.T) {
			rng := newRand(t)
			cfg := config(700 * time.Millisecond)
			cfg.Refresh = rng.IntN(2) == 0
			w := mustNew(t, cfg, openSet(t, open))
			h := newHistory(rng, cfg)
			var r reader
			want := w.AppendState(nil)
			var sealed [][]byte
			rotated := 0
			for range scaled(10_000) {
				switch p := rng.IntN(10); {
				case p < 6:
					before := w.number
					r.read(w, h.take(1+rng.IntN(100)))
					if w.number != before {
						rotated++
					}
				case p < 7:
					w.Sweep()
				case p < 8:
					w.Seal()
					sealed = append(sealed, w.AppendState(nil))
				case p < 9:
					if len(sealed) > 0 {
						w.Commit()
						want, sealed = sealed[0], sealed[1:]
					}
				default:
					w.Rollback()
					sealed = nil
					if got := w.AppendState(nil); !bytes.Equal(got, want) {
						t.Fatalf("state after a rollback differs from that after the last commit")
					}
					if n := w.JournalBytes(); n != 0 {
						t.Fatalf("journal of %d bytes after a rollback", n)
					}
				}
			}
			if rotated < scaled(10_000)/20 {
				t.Errorf("only %d batches with a rotation: the test is too tame", rotated)
			}
		})
	}
}

// TestCase_STATE_01 reads records whose transaction fails: read again, each of
// them is as new as the first time.
func TestCase_STATE_01(t *testing.T) {
	for name, open := range sets {
		t.Run(name, func(t *testing.T) {
			w := mustNew(t, config(70*time.Millisecond), openSet(t, open))
			var r reader
			r.read(w, []record{{offset: 0, time: 1000, now: 1000, hash: hashOf(0)}})
			w.Seal()
			w.Commit()
			abc := []record{
				{offset: 1, time: 1001, now: 1100, hash: hashOf(1)},
				{offset: 2, time: 1050, now: 1100, hash: hashOf(2)},
				{offset: 3, time: 1099, now: 1100, hash: hashOf(3)},
			}
			for attempt := range 3 {
				got, _ := r.read(w, abc)
				for i, v := range got {
					if v.ages != 0 || !v.learned {
						t.Errorf("attempt %d: record %d: %v, want it new", attempt, i+1, v)
					}
				}
				if attempt == 1 {
					w.Seal()
				}
				w.Rollback()
			}
			if got, _ := r.read(w, []record{{offset: 1, time: 1001, now: 1100, hash: hashOf(0)}}); got[0].ages == 0 {
				t.Error("the committed record was forgotten by a rollback")
			}
		})
	}
}

// TestBatchesAndCommitsDoNotMatter reads one stream in many ways: the verdicts
// depend on the records and the clocks they were read at, on nothing else.
func TestBatchesAndCommitsDoNotMatter(t *testing.T) {
	rng := newRand(t)
	for name, open := range sets {
		for _, refresh := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/refresh=%v", name, refresh), func(t *testing.T) {
				batchesAndCommitsDoNotMatter(t, rng, open, refresh)
			})
		}
	}
}

func batchesAndCommitsDoNotMatter(t *testing.T, rng *rand.Rand, open func(testing.TB) filter.Set, refresh bool) {
	cfg := config(700 * time.Millisecond)
	cfg.GenerationCapacity = 40
	cfg.LearnLate = false
	cfg.Refresh = refresh
	records := newHistory(rng, cfg).take(scaled(100_000))
	for i := range records {
		records[i].now = records[i-i%50].now // long stretches of one clock
	}
	want := readIn(t, cfg, openSet(t, open), records, func() int { return 1 }, func(*Window) {})
	for range 5 {
		sizes := 1 + rng.IntN(300)
		got := readIn(t, cfg, openSet(t, open), records, func() int { return 1 + rng.IntN(sizes) }, func(w *Window) {
			switch rng.IntN(5) {
			case 0:
				w.Seal()
			case 1:
				w.Sweep()
			case 2:
				if len(w.sealed) > 0 {
					w.Commit()
				}
			}
		})
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("record %d in batches of up to %d: %v, one by one: %v", i, sizes, got[i], want[i])
			}
		}
	}
	seen := map[Marks]int{}
	for _, v := range want {
		for m := MarkLate; m <= MarkUnlearned; m <<= 1 {
			if v.marks&m != 0 {
				seen[m]++
			}
		}
	}
	if len(seen) != 5 {
		t.Errorf("marks that came up: %v, want all five", seen)
	}
}

// readIn reads the records in batches of the given sizes with something between.
func readIn(t *testing.T, cfg Config, set filter.Set, records []record, size func() int, between func(*Window)) []verdict {
	t.Helper()
	w := mustNew(t, cfg, set)
	var r reader
	var all []verdict
	for len(records) > 0 {
		n := min(size(), len(records))
		got, stop := r.read(w, records[:n])
		if stop != StopNone {
			t.Fatalf("stopped: %v", stop)
		}
		all = append(all, got...)
		records = records[n:]
		between(w)
	}
	return all
}

// equalStates compares two states, which are not comparable for their slices.
func equalStates(a, b State) bool {
	return a.StreamTime == b.StreamTime && a.Believed == b.Believed && a.KnownFrom == b.KnownFrom &&
		a.Slice == b.Slice && slices.Equal(a.Generations, b.Generations)
}
