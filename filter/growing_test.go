package filter

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// growingSliced and growingSingle are so small that a few thousand hashes make them grow
// many times.
var (
	growingSliced = GrowingConfig{
		Sliced: Params{Lines: 300, LinesPerKey: 3, CellsPerLine: 4}, FPR: 1e-3, GenerationCapacity: 50, MaxBytes: math.MaxInt64,
	}
	growingSingle = GrowingConfig{
		Single: SingleParams{Lines: 300, BitsPerLine: 4}, FPR: 1e-3, GenerationCapacity: 400, MaxBytes: math.MaxInt64,
	}
)

func newGrowing(t testing.TB, c GrowingConfig) *Growing {
	t.Helper()
	g, err := NewGrowing(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// smallGrowing is a config for generations of n hashes at a rate, in the smallest filter.
func smallGrowing(t testing.TB, n uint64, fpr float64) GrowingConfig {
	t.Helper()
	p, err := Size(n*Sealed, fpr, Compact)
	if err != nil {
		t.Fatal(err)
	}
	return GrowingConfig{Sliced: p, FPR: fpr, GenerationCapacity: n, MaxBytes: math.MaxInt64}
}

// allOf is n trues.
func allOf(n int) []bool {
	all := make([]bool, n)
	for i := range all {
		all[i] = true
	}
	return all
}

// give adds n hashes to the filling generation, none of which it may refuse.
func give(t testing.TB, s Set, first, n uint64) {
	t.Helper()
	hashes := make([]Hash, n)
	for i := range hashes {
		hashes[i] = scatter(first + uint64(i))
	}
	ages := make([]uint8, n)
	added := s.Learn(0, hashes, allOf(len(hashes)), n, ages)
	for _, a := range ages {
		if a&1 != 0 {
			added++ // a false positive in the filling generation
		}
	}
	if added != n {
		t.Fatalf("%d hashes of %d found a place", added, n)
	}
}

// TestGrowingComesAndGoes fills generations beyond the plan: slabs come, their bytes are
// counted, and go when no generation is in them any more.
func TestGrowingComesAndGoes(t *testing.T) {
	c := smallGrowing(t, 1000, 1e-2)
	g := newGrowing(t, c)
	plain := newSliced(t, c.Sliced)
	settle := func() { g.Seal(); g.Commit() }
	give(t, g, 0, 1000)
	if n, _ := g.Slabs(); n != 0 {
		t.Fatalf("%d slabs for what was planned", n)
	}
	give(t, g, 1000, 1)
	if n, _ := g.Slabs(); n != 1 {
		t.Fatalf("%d slabs for one hash more than was planned", n)
	}
	give(t, g, 2000, 1550)
	settle()
	if n, _ := g.Slabs(); n != 4 {
		t.Fatalf("%d slabs for two and a half plans, want 4", n)
	}
	grown := g.Bytes()
	if want := g.model(4).Bytes(); grown < want || grown > 2*want {
		t.Errorf("%d bytes with four slabs, want %d and what is prepared", grown, want)
	}
	for range Sealed {
		g.Rotate(1)
		settle()
		if n, _ := g.Slabs(); n != 4 {
			t.Fatalf("%d slabs while a generation needs 4", n)
		}
	}
	for i := range uint64(1001) {
		if i < 1000 && g.Test(scatter(i))>>Sealed&1 == 0 {
			t.Fatalf("hash %d is forgotten", i)
		}
	}
	g.Rotate(1)
	settle()
	for range 100 {
		g.Sweep()
	}
	if n, _ := g.Slabs(); n != 0 || g.Bytes() != plain.Bytes() {
		t.Errorf("%d slabs and %d bytes when all is forgotten, want those of the plan, %d", n, g.Bytes(), plain.Bytes())
	}
}

// TestGrowingIsBounded: at its limit a Growing is like a filter that does not grow.
func TestGrowingIsBounded(t *testing.T) {
	c := smallGrowing(t, 1000, 1e-2)
	slabs := newGrowing(t, c).model(0).Bytes()
	for _, want := range []int{0, 1, 2, 5} {
		most := newGrowing(t, c)
		if err := most.planTo(want + 1); err != nil {
			t.Fatal(err)
		}
		limited := c
		limited.MaxBytes = most.model(want+1).Bytes() - 1
		g := newGrowing(t, limited)
		hashes := make([]Hash, 10_000)
		for i := range hashes {
			hashes[i] = scatter(uint64(i))
		}
		added := g.TestAndAdd(hashes, allOf(len(hashes)), math.MaxUint64, make([]uint8, len(hashes)))
		if room := uint64(1000 + 500*want); added != room {
			t.Errorf("%d bytes, the plan taking %d: %d hashes were added, want %d", limited.MaxBytes, slabs, added, room)
		}
		if !g.Full() {
			t.Errorf("%d slabs: not full", want)
		}
		if g.Bytes() > limited.MaxBytes {
			t.Errorf("%d slabs take %d bytes, the limit is %d", want, g.Bytes(), limited.MaxBytes)
		}
		g.Rotate(1)
		if g.Full() {
			t.Errorf("%d slabs: full after a rotation", want)
		}
	}
}

// TestGrowingWithoutMemory: where the system has none, a generation is full, and the next
// one asks again.
func TestGrowingWithoutMemory(t *testing.T) {
	g := newGrowing(t, smallGrowing(t, 1000, 1e-2))
	obtain := g.obtain
	asked := 0
	g.obtain = func(uint64) (reserve, error) { asked++; return reserve{}, fmt.Errorf("none left") }
	hashes := make([]Hash, 3000)
	for i := range hashes {
		hashes[i] = scatter(uint64(i))
	}
	if added := g.TestAndAdd(hashes, allOf(3000), math.MaxUint64, make([]uint8, 3000)); added != 1000 || !g.Full() || asked != 1 {
		t.Errorf("%d were added, full: %v, memory was asked for %d times, want 1000, true and once", added, g.Full(), asked)
	}
	g.obtain = obtain
	g.Rotate(1)
	for i := range hashes {
		hashes[i] = scatter(uint64(10_000 + i))
	}
	if added := g.TestAndAdd(hashes, allOf(3000), math.MaxUint64, make([]uint8, 3000)); added < 2900 || g.Full() {
		t.Errorf("%d were added, full: %v, with memory again", added, g.Full())
	}
}

// TestGrowingDoesNotDependOnBatches runs one history in batches of many sizes, with
// sections sealed, committed and rolled back, and memory given back or kept as it comes:
// the answers are those of single calls.
func TestGrowingDoesNotDependOnBatches(t *testing.T) {
	r := seeded(t)
	type step struct {
		hash   Hash
		rotate int
	}
	var history []step
	perGeneration := uint64(40)
	for n := range rounds(100_000) {
		s := step{hash: scatter(r.Uint64N(uint64(n)/2 + 10))}
		if r.Uint64N(perGeneration) == 0 {
			s.rotate = 1
			perGeneration = []uint64{20, 60, 150, 400}[r.IntN(4)]
		}
		history = append(history, s)
	}
	// The first run is its own oracle: one hash a call, all committed at once.
	run := func(size func() int, between func(g *Growing)) (all []uint8, slabs int) {
		g := newGrowing(t, growingSliced)
		for from := 0; from < len(history); {
			g.Rotate(history[from].rotate)
			to := from + 1
			for most := from + size(); to < min(most, len(history)) && history[to].rotate == 0; {
				to++
			}
			hashes := make([]Hash, to-from)
			for i := range hashes {
				hashes[i] = history[from+i].hash
			}
			ages := make([]uint8, len(hashes))
			g.TestAndAdd(hashes, allOf(len(hashes)), math.MaxUint64, ages)
			n, _ := g.Slabs()
			slabs = max(slabs, n)
			all = append(all, ages...)
			between(g)
			from = to
		}
		return all, slabs
	}
	want, slabs := run(func() int { return 1 }, func(g *Growing) { g.Seal(); g.Commit() })
	if slabs < 4 {
		t.Errorf("no more than %d slabs: the test is too tame", slabs)
	}
	for range 4 {
		most := 1 + r.IntN(300)
		got, _ := run(func() int { return 1 + r.IntN(most) }, func(g *Growing) {
			switch r.IntN(6) {
			case 0:
				g.Seal()
			case 1:
				if len(g.sealed) > 0 {
					g.Commit()
				}
			case 2:
				g.Sweep()
			}
		})
		if !bytes.Equal(got, want) {
			t.Fatalf("the answers in batches of up to %d are not those of single calls", most)
		}
	}
}

// TestGrowingRollback lets a set grow and shrink in sections that are rolled back: its
// state is then what it was, byte for byte, and memory that was prepared is no part of it.
func TestGrowingRollback(t *testing.T) {
	r := seeded(t)
	for name, c := range map[string]GrowingConfig{"sliced": growingSliced, "single": growingSingle} {
		t.Run(name, func(t *testing.T) {
			u := newSubject(newGrowing(t, c))
			g := u.Set.(*Growing)
			fresh := uint64(1 << 40)
			most := c.GenerationCapacity + MaxSlabs*c.slabCapacity()
			var grew, undone, shrank int
			for range rounds(20_000) {
				before, _ := g.Slabs()
				switch step := r.IntN(16); {
				case step < 2 && lives(g) > 1:
					u.rotate([]int{1, 1, 1, 3, 8, 100}[r.IntN(6)])
				case step < 5:
					u.seal()
				case step < 8:
					if len(u.sealed) > 0 {
						u.commit()
					}
				case step < 10:
					u.rollback(t)
					if n, _ := g.Slabs(); n < before {
						undone++
					}
				case step == 10:
					u.Sweep()
				default:
					hashes, learn := make([]Hash, r.IntN(200)), []bool(nil)
					for i := range hashes {
						fresh += uint64(r.IntN(3)) // a third are repeats of the one before
						hashes[i] = scatter(fresh)
					}
					learn = allOf(len(hashes))
					u.testAndAdd(t, hashes, learn, most-g.counts[0])
				}
				switch n, _ := g.Slabs(); {
				case n > before:
					grew++
				case n < before:
					shrank++
				}
				if g.made() < g.used {
					t.Fatalf("%d slabs are used and %d made", g.used, g.made())
				}
				if lives(g) == 1 && g.Full() {
					u = newSubject(newGrowing(t, c))
					g = u.Set.(*Growing)
				}
			}
			u.checkHeld(t)
			t.Logf("grew %d times, shrank %d times, %d of those by a rollback", grew, shrank, undone)
			if grew < 20 || undone < 5 || lives(g) > 1 && shrank-undone < 5 {
				t.Error("the test is too tame")
			}
		})
	}
}

// TestGrowingKeepsTheRate fills every generation with three times what it was planned
// for: the rate is at most 1.25 times what was asked for. At its limit it is that of a
// filter that does not grow, and every hash that found no place is told.
func TestGrowingKeepsTheRate(t *testing.T) {
	for _, fpr := range []float64{1e-2, 1e-3} {
		n := uint64(rounds(200_000))
		c := smallGrowing(t, n, fpr)
		c.MaxBytes = 5 * c.Sliced.Bytes()
		pass := c
		pass.MaxBytes = 0
		for name, config := range map[string]GrowingConfig{"grow": c, "pass": pass} {
			t.Run(fmt.Sprintf("%g/%s", fpr, name), func(t *testing.T) {
				t.Parallel()
				g := newGrowing(t, config)
				most, holds := 1.25, 3*n
				if name == "pass" {
					most, holds = 1.1, n
				}
				next := rand.New(rand.NewPCG(n, 1))
				hashes, learn, ages := make([]Hash, 1000), allOf(1000), make([]uint8, 1000)
				for age := range Generations {
					if age > 0 {
						g.Rotate(1)
					}
					var taken, known uint64
					for sent := uint64(0); sent < 3*n; sent += uint64(len(hashes)) {
						for i := range hashes {
							hashes[i] = Hash(next.Uint64())
						}
						taken += g.TestAndAdd(hashes, learn, math.MaxUint64, ages)
						for _, a := range ages {
							if a != 0 {
								known++
							}
						}
					}
					if want := min(holds, 3*n-known); taken != want {
						t.Fatalf("generation %d took %d hashes of %d, want %d", age, taken, 3*n, want)
					}
				}
				wrong, asked := 0, int(float64(rounds(10_000))/fpr)
				for range asked {
					if g.Test(Hash(next.Uint64())) != 0 {
						wrong++
					}
				}
				rate := float64(wrong) / float64(asked)
				slabs, _ := g.Slabs()
				t.Logf("%d slabs, %.2f times the memory: rate %.3g, %.3f times the target; estimate %.3g, model %.3g",
					slabs, float64(g.model(slabs).Bytes())/float64(c.Sliced.Bytes()), rate, rate/fpr, g.FPREstimate(), g.model(slabs).FPRAt(g.counts))
				if noise := 4 * math.Sqrt(fpr/float64(asked)); rate > most*fpr+noise {
					t.Errorf("rate %g, want at most %g", rate, most*fpr)
				}
			})
		}
	}
}
