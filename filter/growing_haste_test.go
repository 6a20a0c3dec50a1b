package filter

import (
	"math"
	"testing"
)

// What a call pays for a sweep that is behind does not depend on how it is cut into
// batches and filters: a grown set pays no more for each of its filters than one alone.
func TestGrowingPaysTheSweepOnceACall(t *testing.T) {
	c := smallGrowing(t, 1_000_000, 1e-2)
	g := newGrowing(t, c)
	give(t, g, 0, 1_600_000)
	filters := []*Sliced{g.first.(*Sliced)}
	for i := range g.used {
		filters = append(filters, g.slots[i].set.(*Sliced))
	}
	if len(filters) < 3 {
		t.Fatalf("%d filters: the test is too tame", len(filters))
	}
	for _, s := range filters {
		s.clock.owed = 40 * s.sweepShare()
	}
	owed := func() (n uint64) {
		for _, s := range filters {
			n += s.clock.owed
		}
		return n
	}
	hashes := make([]Hash, 1024)
	for i := range hashes {
		hashes[i] = scatter(1<<40 + uint64(i))
	}
	before := owed()
	g.TestAndAdd(hashes, allOf(len(hashes)), math.MaxUint64, make([]uint8, len(hashes)))
	most := uint64(len(filters)) * (sweepHaste*sweepStep + uint64(len(hashes)/sweepRecords))
	if paid := before - owed(); paid > most {
		t.Errorf("a call of %d hashes cleaned %d lines, want at most %d", len(hashes), paid, most)
	}
}
