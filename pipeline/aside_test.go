package pipeline

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamdedup/streamdedup/filter"
)

// TestAsideKeepsOrder: work is done one thing after the other, in the order in which it
// was given, and who waits sees all of it.
func TestAsideKeepsOrder(t *testing.T) {
	a := newAside(func(work func()) { work() })
	a.Wait()
	if !a.Idle() {
		t.Error("without work it is not idle")
	}
	hold := make(chan struct{})
	var did []int
	for i := range 100 {
		a.Run(func() {
			<-hold
			did = append(did, i) // unguarded, so that the race detector sees two at once
		})
	}
	if a.Idle() {
		t.Error("idle with work to do")
	}
	close(hold)
	a.Wait()
	if !a.Idle() || len(did) != 100 {
		t.Errorf("waited for %d of 100, idle: %v", len(did), a.Idle())
	}
	for i, n := range did {
		if i != n {
			t.Fatalf("%d was done as number %d", n, i)
		}
	}
}

// TestAsideGrows lets two sets grow by real slabs, one with memory made aside: they say
// the same of each record.
func TestAsideGrows(t *testing.T) {
	t.Parallel()
	const capacity = 100_000
	newSet := func() (filter.Set, error) {
		return newGrowing(capacity, filter.Params{Lines: 128 << 10, LinesPerKey: 2, CellsPerLine: 4}, math.MaxInt64)
	}
	var sets [2]filter.Set
	for i, newSet := range []func() (filter.Set, error){newSet, Aside(newSet)} {
		set, err := newSet()
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := set.Close(); err != nil {
				t.Error(err)
			}
		}()
		sets[i] = set
	}
	r := rand.New(rand.NewPCG(seed(t), 3))
	hashes, learn := make([]filter.Hash, 1_000), make([]bool, 1_000)
	for i := range learn {
		learn[i] = true
	}
	most := 0
	for batch := range 400 {
		rotates, undoes := batch%200 == 199, r.IntN(10) == 0 // 180 thousand IDs to a generation
		for i := range hashes {
			hashes[i] = filter.Hash(r.Uint64())
		}
		var ages [2][1_000]uint8
		var added [2]uint64
		for i, set := range sets {
			if rotates {
				set.Rotate(1)
			}
			added[i] = set.TestAndAdd(hashes, learn, math.MaxUint64, ages[i][:])
			if undoes {
				set.Rollback()
			} else {
				set.Seal()
				set.Commit()
			}
		}
		if ages[0] != ages[1] || added[0] != added[1] {
			t.Fatal("with memory made aside the answers are others")
		}
		n, _ := sets[1].(*filter.Growing).Slabs()
		most = max(most, n)
	}
	if most < 2 {
		t.Errorf("no more than %d slabs: the test is too tame", most)
	}
}
