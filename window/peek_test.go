package window

import (
	"bytes"
	"testing"
	"time"
)

// Peek says what Observe says next, and changes nothing: over random streams with
// rotations, jumps, wrong and missing times, and by the wall clock.
func TestPeekSaysWhatObserveWill(t *testing.T) {
	for name, open := range sets {
		t.Run(name, func(t *testing.T) {
			rng := newRand(t)
			var r reader
			var seen Marks
			held := 0
			for range scaled(100) {
				cfg := config(700 * time.Millisecond)
				w := mustNew(t, cfg, openSet(t, open))
				h := newHistory(rng, cfg)
				for range 1000 {
					rec := h.next()
					at, rotation := w.core, w.rotation
					ages, marks := w.Peek(rec.time, rec.now, rec.hash)
					if w.core != at {
						t.Fatal("Peek changed the window")
					}
					if rec.noID {
						ages = 0
					}
					verdicts, _ := r.read(w, []record{rec})
					if v := verdicts[0]; v.ages != ages || v.marks != marks {
						t.Fatalf("%+v after %d rotations: Peek said ages %08b marks %v, Observe %v", rec, w.rotation-rotation, ages, marks, v)
					}
					seen |= marks
					if ages != 0 && w.rotation != rotation {
						held++
					}
				}
			}
			if want := MarkLate | MarkAhead | MarkNoTime | MarkJump; seen != want || held == 0 {
				t.Errorf("marks %v were seen, want %v; %d repeats were read with a rotation: the test is too tame", seen, want, held)
			}
		})
	}
}

// Under StopAtLate it says that the record is late, and the set is as it was.
func TestPeekAtALateRecord(t *testing.T) {
	cfg := config(time.Hour)
	cfg.StopAtLate, cfg.LearnLate = true, false
	w := mustNew(t, cfg, openSet(t, sets["sliced"]))
	now := int64(1_700_000_000_000)
	var r reader
	r.read(w, []record{{offset: 1, time: now, now: now, hash: hashOf(1)}})
	before := w.AppendState(nil)
	ages, marks := w.Peek(now-2*time.Hour.Milliseconds(), now, hashOf(1))
	if ages != 1 || marks != MarkLate {
		t.Errorf("ages %08b, marks %v", ages, marks)
	}
	if !bytes.Equal(w.AppendState(nil), before) {
		t.Error("Peek changed the memory")
	}
}

// The first record of all has no generation before it, wherever its time lies: by a clock
// before the epoch, too.
func TestPeekAtTheFirstRecord(t *testing.T) {
	for name, open := range sets {
		for _, now := range []int64{-1, 0, 1_700_000_000_000} {
			for _, at := range []int64{NoTime, -1, 1, now} {
				w := mustNew(t, config(time.Hour), openSet(t, open))
				ages, marks := w.Peek(at, now, hashOf(1))
				var r reader
				verdicts, _ := r.read(w, []record{{offset: 1, time: at, now: now, hash: hashOf(1)}})
				if v := verdicts[0]; v.ages != ages || v.marks != marks {
					t.Errorf("%s, time %d at %d: Peek said ages %08b marks %v, Observe %v", name, at, now, ages, marks, v)
				}
			}
		}
	}
}
