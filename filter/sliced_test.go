package filter

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestStampsNeverAlias rotates far beyond the 256 values of a stamp while few
// hashes come, so that most lines are cleaned by the sweep alone. After every
// rotation the filter must hold what an eagerly cleaned one holds: a bit that
// outlived its generation would come back as a later one's.
func TestStampsNeverAlias(t *testing.T) {
	r := seeded(t)
	for _, lines := range []uint64{MinLines, 200, 201, 399, 1000} {
		t.Run(fmt.Sprintf("lines=%d", lines), func(t *testing.T) {
			u := newSubject(newSliced(t, Params{Lines: lines, LinesPerKey: 2, CellsPerLine: 4}))
			s := u.Set.(*Sliced)
			oldest := byte(0)
			for range rounds(30000) {
				switch r.IntN(40) {
				case 0: // fill many lines at once, then leave them alone
					hashes, learn := batchOf(r, 100)
					u.learn(t, r.IntN(Generations), hashes, learn, uint64(len(hashes)))
					hashes, learn = batchOf(r, 100)
					u.testAndAdd(t, hashes, learn, uint64(len(hashes)))
				case 1:
					u.Sweep()
				case 2:
					u.seal()
					u.commit()
				case 3:
					u.rollback(t)
				}
				u.rotate(1 + r.IntN(2)*r.IntN(2)*r.IntN(9))
				u.checkCells(t)
				for _, l := range s.lines {
					oldest = max(oldest, s.stamp-l[stampCell])
				}
			}
			if oldest > sweepLag {
				t.Errorf("a stamp was %d rotations old, want at most %d", oldest, sweepLag)
			}
		})
	}
}

// TestSweepIsPaidByWork follows the debt of rotations: records and calls of Sweep pay it,
// each call a large step while it is more than that of one, and Rotate what is beyond the
// slack: nothing, for five gaps in a row.
func TestSweepIsPaidByWork(t *testing.T) {
	const share = 1000
	s := newSliced(t, Params{Lines: sweepPeriod * share, LinesPerKey: 3, CellsPerLine: 3})
	f := newFeed(80)
	paid := uint64(0)
	owes := func(what string, want uint64) {
		t.Helper()
		if s.clock.owed != want || s.clock.cursor != paid {
			t.Errorf("%s: %d lines are owed and the cursor is at %d, want %d and %d", what, s.clock.owed, s.clock.cursor, want, paid)
		}
	}
	add := func(n int, pays uint64) {
		f.fill()
		s.TestAndAdd(f.hashes[:n], f.learn[:n], uint64(n), f.ages[:n])
		paid += pays
	}
	s.Rotate(1)
	owes("a rotation", share)
	add(80, 5)
	owes("80 hashes", share-5)
	s.Sweep()
	paid += sweepStep
	owes("a call of Sweep", share-5-sweepStep)
	s.Rotate(5)
	owes("five rotations at once", 6*share-paid)
	add(1, 1+sweepHaste*sweepStep)
	owes("one hash in haste", 6*share-paid)
	for s.clock.owed > 0 {
		s.Sweep()
	}
	paid = 6 * share
	for range sweepSlack / Generations {
		s.Rotate(100) // as many as there are generations
	}
	owes("five gaps", sweepSlack/Generations*Generations*share)
	s.Rotate(sweepSlack % Generations)
	owes("all that the sweep may be behind", sweepSlack*share)
	s.Rotate(1)
	paid += share
	owes("a rotation more", sweepSlack*share)
}

// TestKernelsEqualLoop runs the same history through each unrolled kernel and
// through the plain loop: every answer, state and journal must be the same.
func TestKernelsEqualLoop(t *testing.T) {
	r := seeded(t)
	for g := range kernels {
		p := Params{Lines: 300, LinesPerKey: g[0], CellsPerLine: g[1]}
		t.Run(fmt.Sprintf("%dx%d", g[0], g[1]), func(t *testing.T) {
			fast, plain := newSliced(t, p), newSliced(t, p)
			plain.kernel = addLoop
			for range rounds(3000) {
				fast.overlap = r.IntN(2) == 0 // as in a small filter or a large one
				hashes, learn := batchOf(r, 200)
				room := r.Uint64N(300)
				got, want := make([]uint8, len(hashes)), make([]uint8, len(hashes))
				to := target{fast.bitOf(0), allAges}
				if r.IntN(2) == 0 {
					age := r.IntN(Generations)
					to = target{fast.bitOf(age), 1 << age}
				}
				if a, b := fast.add(to, hashes, learn, room, got), plain.add(to, hashes, learn, room, want); a != b {
					t.Fatalf("the kernel added %d, the loop %d", a, b)
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("the kernel gave ages %v, the loop %v", got, want)
				}
				if !bytes.Equal(fast.AppendState(nil), plain.AppendState(nil)) {
					t.Fatal("the kernel and the loop left different states")
				}
				if a, b := fast.JournalBytes(), plain.JournalBytes(); a != b {
					t.Fatalf("the kernel left a journal of %d bytes, the loop one of %d", a, b)
				}
				step := r.IntN(10)
				for _, s := range []*Sliced{fast, plain} {
					switch step {
					case 0, 1, 2:
						s.Rotate(1)
					case 3:
						s.Rollback()
					case 4:
						s.Seal()
						s.Commit()
					}
				}
			}
		})
	}
}

func TestKernelsAreUpToDate(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	out := filepath.Join(t.TempDir(), "kernels.go")
	if msg, err := exec.Command("go", "run", "gen_kernels.go", "-o", out).CombinedOutput(); err != nil {
		t.Fatalf("run gen_kernels.go: %v\n%s", err, msg)
	}
	want, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("kernels_gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("kernels_gen.go is not what gen_kernels.go writes: run go generate ./filter")
	}
}

func TestJournalBytes(t *testing.T) {
	s := newSliced(t, Params{Lines: 1 << 12, LinesPerKey: 3, CellsPerLine: 3})
	want := func(what string, n uint64) {
		t.Helper()
		if got := s.JournalBytes(); got != n {
			t.Errorf("%s: the journal has %d bytes, want %d", what, got, n)
		}
	}
	add := func(n uint64) { s.TestAndAdd([]Hash{scatter(n)}, []bool{true}, 1, make([]uint8, 1)) }
	want("at the start", 0)
	add(1)
	want("a hash in clean lines", 16)
	add(1)
	want("a repeat", 16)
	s.Rotate(1)
	want("a rotation", 16)
	s.clock.owed = 0
	add(2)
	want("a hash in three stale lines", 16+16+3*72)
	s.Seal()
	add(3)
	want("in a second section", 16+2*(16+3*72))
	s.Commit()
	want("after the first is committed", 16+3*72)
	s.Rollback()
	want("after a rollback", 0)
}

// TestSteadyStateAllocatesNothing runs whole cycles, some rolled back, once the
// journal has its memory.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, p := range []Params{
		{Lines: 1 << 12, LinesPerKey: 3, CellsPerLine: 3},
		{Lines: 1 << 12, LinesPerKey: 4, CellsPerLine: 7}, // the plain loop
	} {
		s, f, n := newSliced(t, p), newFeed(200), 0
		cycle := func() {
			for range 50 {
				f.fill()
				s.TestAndAdd(f.hashes, f.learn, 200, f.ages)
				s.Learn(0, f.hashes, f.learn, 200, f.ages)
			}
			if n++; n%5 == 0 {
				s.Rollback()
				return
			}
			s.Rotate(1)
			s.Seal()
			s.Sweep()
			s.Commit()
		}
		for range 20 {
			cycle()
		}
		if n := testing.AllocsPerRun(100, cycle); n != 0 {
			t.Errorf("%+v: a cycle allocates %v times, want 0", p, n)
		}
	}
}

func TestNewSlicedRefusesBadParams(t *testing.T) {
	for _, p := range []Params{
		{},
		{Lines: 1 << 62, LinesPerKey: 3, CellsPerLine: 3},
		{Lines: 1 << 10, LinesPerKey: 0, CellsPerLine: 3},
		{Lines: 1 << 10, LinesPerKey: maxLinesPerKey + 1, CellsPerLine: 3},
		{Lines: 1 << 10, LinesPerKey: 3, CellsPerLine: -1},
		{Lines: 1 << 10, LinesPerKey: 3, CellsPerLine: maxCellsPerLine + 1},
	} {
		if s, err := NewSliced(p); err == nil || s != nil {
			t.Errorf("NewSliced(%+v) = %v, %v, want an error", p, s, err)
		}
	}
}

// TestSizesHaveKernels sizes filters for the rates that people ask for: none may
// fall back to the plain loop, which takes twice the time.
func TestSizesHaveKernels(t *testing.T) {
	for _, layout := range []Layout{Compact, Fast} {
		for _, fpr := range []float64{1e-2, 1e-3, 1e-4, 1e-5, 1e-6} {
			for _, elements := range []uint64{100_000, 10_000_000, 1_000_000_000} {
				p, err := Size(elements, fpr, layout)
				if err != nil {
					t.Fatal(err)
				}
				if kernels[[2]int{p.LinesPerKey, p.CellsPerLine}] == nil {
					t.Errorf("%v, %g, %d elements: no kernel for %+v", layout, fpr, elements, p)
				}
				one, err := SingleSize(elements, fpr)
				if err != nil {
					t.Fatal(err)
				}
				if singleKernels[one.BitsPerLine] == nil {
					t.Errorf("%g, %d elements: no kernel for %+v", fpr, elements, one)
				}
			}
		}
	}
}
