package filter

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// allSets are the kinds and geometries that every law is tested on.
func allSets(t *testing.T) map[string]func() Set {
	t.Helper()
	made := sets(t)
	for bits := 1; bits <= maxBitsPerLine; bits++ {
		p := SingleParams{Lines: 300, BitsPerLine: bits}
		made[fmt.Sprintf("single/2x%d", bits)] = func() Set { return newSingle(t, p) }
	}
	made["growing single"] = func() Set { return newGrowing(t, growingSingle) }
	return made
}

// lives is how many generations s has.
func lives(s Set) int {
	if g, ok := s.(*Growing); ok {
		s = g.first
	}
	if _, ok := s.(*Single); ok {
		return 1
	}
	return Generations
}

// sets are those of allSets that have generations.
func sets(t *testing.T) map[string]func() Set {
	t.Helper()
	made := map[string]func() Set{
		"classic": func() Set {
			c, err := NewClassic(ClassicParams{Bits: 1 << 14, Hashes: 7})
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		"growing sliced": func() Set {
			c := growingSliced
			c.GenerationCapacity = 320 // all the hashes of a test are sixteen times that
			return newGrowing(t, c)
		},
	}
	for d := minLinesPerKey; d <= maxLinesPerKey; d++ {
		for kk := minCellsPerLine; kk <= maxCellsPerLine; kk++ {
			p := Params{Lines: 300, LinesPerKey: d, CellsPerLine: kk}
			made[fmt.Sprintf("sliced/%dx%d", d, kk)] = func() Set { return newSliced(t, p) }
		}
	}
	return made
}

func newSliced(t testing.TB, p Params) *Sliced {
	t.Helper()
	s, err := NewSliced(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newSingle(t testing.TB, p SingleParams) *Single {
	t.Helper()
	s, err := NewSingle(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// batchOf is up to n random hashes of a small universe, so that many repeat
// within the batch and later.
func batchOf(r *rand.Rand, n int) (hashes []Hash, learn []bool) {
	hashes, learn = make([]Hash, r.IntN(n)), make([]bool, 0, n)
	for i := range hashes {
		hashes[i] = scatter(r.Uint64N(5000))
		learn = append(learn, r.IntN(8) > 0)
	}
	return hashes, learn
}

// TestSetAgainstModel drives each kind through random histories and compares
// every answer with an exact map, and a Sliced bit by bit with one that is
// cleaned eagerly.
func TestSetAgainstModel(t *testing.T) {
	r := seeded(t)
	for name, make := range allSets(t) {
		t.Run(name, func(t *testing.T) {
			u := newSubject(make())
			several := 0 // hashes held by more than one generation
			for range rounds(5000) {
				switch step := r.IntN(12); {
				case step < 2 && lives(u.Set) == 1:
					u.rotate(0)
				case step == 0:
					u.rotate(1)
				case step == 1:
					u.rotate([]int{0, 2, 7, 8, 9, 1000}[r.IntN(6)])
				case step == 2:
					u.Sweep()
				case step < 5:
					u.seal()
				case step < 7:
					if len(u.sealed) > 0 {
						u.commit()
					}
				case step == 7:
					u.rollback(t)
				default:
					hashes, learn := batchOf(r, 200)
					room := uint64(len(hashes))
					if r.IntN(4) == 0 {
						room = r.Uint64N(room + 1)
					}
					if r.IntN(3) > 0 {
						u.testAndAdd(t, hashes, learn, room)
						continue
					}
					u.learn(t, r.IntN(lives(u.Set)), hashes, learn, room)
					for _, h := range hashes {
						if bits.OnesCount8(u.model.ages(h)) > 1 {
							several++
						}
					}
				}
			}
			if several == 0 && lives(u.Set) > 1 {
				t.Error("no hash was held by several generations: the test is too tame")
			}
			u.checkHeld(t)
			u.rollback(t)
			u.checkHeld(t)
		})
	}
}

// TestEveryGenerationAnswers learns one hash at each of eight rotations: each is
// seen at its age until the ninth rotation forgets it, and then taken as new.
func TestEveryGenerationAnswers(t *testing.T) {
	for name, make := range sets(t) {
		t.Run(name, func(t *testing.T) {
			s := make()
			learn, ages := []bool{true}, []uint8{0xff}
			const first = 1000
			for n := range uint64(20) {
				if s.TestAndAdd([]Hash{scatter(first + n)}, learn, 1, ages) != 1 || ages[0] != 0 {
					t.Fatalf("hash %d: ages %08b before it was learned", n, ages[0])
				}
				for back := range min(n+1, Generations+2) {
					want := uint8(0)
					if back < Generations {
						want = 1 << back
					}
					if got := s.Test(scatter(first + n - back)); got != want {
						t.Fatalf("a hash learned %d rotations ago has ages %08b, want %08b", back, got, want)
					}
				}
				s.Rotate(1)
			}
		})
	}
}

// TestRepeatWithinBatch has every hash of a batch twice, far apart and next to
// one another.
func TestRepeatWithinBatch(t *testing.T) {
	for name, make := range allSets(t) {
		t.Run(name, func(t *testing.T) {
			hashes := []Hash{scatter(1), scatter(1), scatter(2), scatter(3), scatter(2), scatter(3)}
			learn, ages := []bool{true, true, true, false, true, true}, [6]uint8{}
			if added := make().TestAndAdd(hashes, learn, 9, ages[:]); added != 3 {
				t.Errorf("added %d, want 3", added)
			}
			if want := [6]uint8{0, 1, 0, 0, 1, 0}; ages != want {
				t.Errorf("ages %v, want %v", ages, want)
			}
		})
	}
}

// TestLearnKnowsTheFillingGenerationOnly gives every generation the same hash: each
// takes it once, and the eight of them forget it one by one.
func TestLearnKnowsTheFillingGenerationOnly(t *testing.T) {
	for name, make := range sets(t) {
		t.Run(name, func(t *testing.T) {
			s := make()
			hashes, learn, ages := []Hash{scatter(1), scatter(1), scatter(2)}, []bool{true, true, false}, [3]uint8{}
			for n := range 12 {
				older := uint8(1<<n-1) << 1
				if added := s.Learn(0, hashes, learn, 9, ages[:]); added != 1 {
					t.Fatalf("rotation %d: added %d, want 1", n, added)
				}
				if want := [3]uint8{older, older | 1, 0}; ages != want {
					t.Fatalf("rotation %d: ages %08b, want %08b", n, ages, want)
				}
				s.Rotate(1)
			}
			for n := range Generations {
				if got, want := s.Test(scatter(1)), uint8(0xfe)<<n; got != want {
					t.Fatalf("%d rotations after the last: ages %08b, want %08b", 1+n, got, want)
				}
				s.Rotate(1)
			}
		})
	}
}

func TestRoomEndsLearning(t *testing.T) {
	for name, make := range allSets(t) {
		t.Run(name, func(t *testing.T) {
			s := make()
			hashes, learn, ages := [200]Hash{}, [200]bool{}, [200]uint8{}
			for i := range hashes {
				hashes[i], learn[i] = scatter(uint64(i)), true
			}
			for _, room := range []uint64{0, 1, 63, 64, 65} {
				for call, add := range map[string]adder{"TestAndAdd": s.TestAndAdd, "Learn": learnAt(s, lives(s)/2%Generations)} {
					s.Seal()
					before := s.JournalBytes()
					if got := add(hashes[:], learn[:], room, ages[:]); got != room {
						t.Errorf("%s added %d, want all the room of %d", call, got, room)
					}
					if room == 0 && s.JournalBytes() != before {
						t.Errorf("%s learned nothing and wrote %d bytes of journal", call, s.JournalBytes()-before)
					}
					s.Rollback()
				}
			}
		})
	}
}

func TestMisuseIsABug(t *testing.T) {
	for name, make := range allSets(t) {
		t.Run(name, func(t *testing.T) {
			for what, f := range map[string]func(){
				"commit without a section": func() { make().Commit() },
				"negative rotation":        func() { make().Rotate(-1) },
				"unequal lengths to add":   func() { make().TestAndAdd([]Hash{1, 2}, []bool{true}, 1, []uint8{0, 0}) },
				"too young to learn":       func() { make().Learn(-1, nil, nil, 0, nil) },
				"too old to learn":         func() { make().Learn(Generations, nil, nil, 0, nil) },
				"unequal lengths to learn": func() { make().Learn(0, []Hash{1, 2}, []bool{true, true}, 1, []uint8{0}) },
			} {
				func() {
					defer func() {
						if recover() == nil {
							t.Errorf("%s did not panic", what)
						}
					}()
					f()
				}()
			}
		})
	}
}

// TestCommitForgetsTheOldestSection stacks three sections and commits the first
// two only.
func TestCommitForgetsTheOldestSection(t *testing.T) {
	for name, make := range sets(t) {
		t.Run(name, func(t *testing.T) {
			u := newSubject(make())
			for n := range uint64(3) {
				u.testAndAdd(t, []Hash{scatter(n)}, []bool{true}, 1)
				u.rotate(1)
				u.seal()
			}
			u.testAndAdd(t, []Hash{scatter(7)}, []bool{true}, 1)
			u.commit()
			u.commit()
			u.rollback(t)
			for n, want := range []uint8{0b100, 0b10, 0} {
				if got := u.Test(scatter(uint64(n))); got != want {
					t.Errorf("the hash of section %d has ages %08b, want %08b", n, got, want)
				}
			}
			if got := u.Test(scatter(7)); got != 0 {
				t.Errorf("a hash of the open section has ages %08b after the rollback", got)
			}
		})
	}
}
