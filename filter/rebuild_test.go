package filter

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// holding is what a memory is made again from: a hash and the rotation of a
// generation that holds it.
type holding struct {
	hash     Hash
	rotation int
}

// TestAnyOrderOfAgesMakesTheSameMemory writes down what a set holds and teaches it
// to an empty one, in random order of ages and with rotations between. Of every
// hash, held or not, the two must then say the same, false positives included.
func TestAnyOrderOfAgesMakesTheSameMemory(t *testing.T) {
	r := seeded(t)
	for name, make := range sets(t) {
		t.Run(name, func(t *testing.T) {
			for range max(1, rounds(20)) {
				u := newSubject(make())
				for range 20 + r.IntN(50) {
					hashes, learn := batchOf(r, 40)
					u.testAndAdd(t, hashes, learn, 40)
					hashes, learn = batchOf(r, 10)
					u.learn(t, r.IntN(Generations), hashes, learn, 10)
					u.rotate(r.IntN(2))
				}
				again := relearn(r, make(), u.model)
				for n := range uint64(10_000) { // of which batchOf takes the first half
					h := scatter(n)
					if got, want := again.Test(h), u.Test(h); got != want {
						t.Fatalf("hash %d has ages %08b, before it had %08b", n, got, want)
					}
				}
				if n := again.JournalBytes(); n != 0 {
					t.Errorf("the journal has %d bytes", n)
				}
			}
		})
	}
}

// relearn teaches s what m holds, in steps that pick some of what is left at random.
func relearn(r *rand.Rand, s Set, m *model) Set {
	var left []holding
	for _, h := range slices.Sorted(maps.Keys(m.learned)) {
		for age := range Generations {
			if m.ages(h)>>age&1 != 0 {
				left = append(left, holding{h, m.rotation - age})
			}
		}
	}
	s.Rotate(r.IntN(Generations)) // it may count rotations from elsewhere
	rotation := max(0, m.rotation-r.IntN(Generations))
	for len(left) > 0 || rotation < m.rotation {
		if rotation < m.rotation && r.IntN(4) == 0 {
			rotation++
			s.Rotate(1)
		}
		s.Seal()
		s.Commit()
		r.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		age := r.IntN(Generations)
		var batch []Hash
		var learn []bool
		later := left[:0]
		for _, x := range left {
			if rotation-x.rotation != age || r.IntN(3) == 0 {
				later = append(later, x)
				continue
			}
			batch, learn = append(batch, x.hash), append(learn, true)
		}
		left = later
		s.Learn(age, batch, learn, uint64(len(batch)), make([]uint8, len(batch)))
		if r.IntN(3) == 0 { // what is taken back is learned once more
			s.Rollback()
			s.Learn(age, batch, learn, uint64(len(batch)), make([]uint8, len(batch)))
		}
	}
	s.Seal()
	s.Commit()
	return s
}
