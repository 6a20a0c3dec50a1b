package sizing

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamdedup/streamdedup/filter"
)

func TestOverloads(t *testing.T) {
	t.Parallel()
	w := billion
	w.Partitions, w.Skew = 4, 1.25
	p := solve(t, w)
	all, err := p.Overloads()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2*len(overloads) {
		t.Fatalf("%d rows: %+v", len(all), all)
	}
	for _, one := range all {
		switch {
		case one.Times == 1 && (one.Unlearned != 0 || one.Bytes != p.Bytes || one.FPR > w.FPR*(1+1e-9)):
			t.Errorf("as planned: %+v", one)
		case one.OnFull == "pass" && (math.Abs(one.Unlearned-(1-1/one.Times)) > 1e-6 || one.Bytes != p.Bytes || one.FPR > w.FPR*(1+1e-9)):
			t.Errorf("a full generation learns no more: %+v", one)
		case one.OnFull == "grow" && (one.Bytes > GrowthLimit*p.Bytes || one.FPR > 1.25*w.FPR):
			t.Errorf("growth has two limits: %+v", one)
		case one.OnFull == "grow" && one.Times == 1.5 && one.Unlearned > 1e-6:
			t.Errorf("the first slab holds half of the plan: %+v", one)
		}
	}
	w.Kind = Classic
	if all, err = solve(t, w).Overloads(); err != nil || len(all) != len(overloads) || all[0].OnFull != "pass" {
		t.Errorf("a ring does not grow: %+v, %v", all, err)
	}
	// With room for five times the plan, three times the rate is remembered.
	w.Kind = Sliced
	p = solve(t, w)
	tiers, err := p.tiers(5 * p.BytesPerPartition)
	if err != nil {
		t.Fatal(err)
	}
	if bytes, fpr, unlearned := p.under(3, tiers); unlearned > 1e-6 || fpr > 1.25*w.FPR || bytes <= 3*p.Bytes {
		t.Errorf("at three times the rate %d bytes have a rate of %g and do not learn %g", bytes, fpr, unlearned)
	}
}

// What is said of a full filter is what small ones do that really get three times their
// plan: one that takes no more, and one that grows.
func TestOverloads_Measured(t *testing.T) {
	t.Parallel()
	w := billion
	w.Elements = 70_000
	p := solve(t, w)
	all, err := p.Overloads()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.Times != 3 {
			continue
		}
		set, err := p.NewSet()
		room := p.GenerationCapacity
		if one.OnFull == "grow" {
			set, err = p.NewGrowingSet(GrowthLimit * p.Bytes)
			room = 4 * p.GenerationCapacity
		}
		if err != nil {
			t.Fatal(err)
		}
		ids := newRand(t)
		added := overfill(set, ids, 3*p.Share, room)
		if got := 1 - float64(added)/float64(3*p.Share/filter.Sealed*filter.Generations); math.Abs(got-one.Unlearned) > 0.02 {
			t.Errorf("%s: a share of %g was not learned, the table says %g", one.OnFull, got, one.Unlearned)
		}
		if set.Bytes() != one.Bytes {
			t.Errorf("%s: it takes %d bytes, the table says %d", one.OnFull, set.Bytes(), one.Bytes)
		}
		const probes = 400_000
		found := 0
		for range probes {
			if set.Test(filter.Hash(ids.Uint64())) != 0 {
				found++
			}
		}
		if got := float64(found) / probes; math.Abs(got-one.FPR) > 0.1*one.FPR {
			t.Errorf("%s: a rate of %g, the table says %g", one.OnFull, got, one.FPR)
		}
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	}
}

// overfill gives each generation its part of a window of so many IDs, and room for some.
func overfill(set filter.Set, ids *rand.Rand, window, room uint64) (added uint64) {
	hashes, learn, ages := make([]filter.Hash, 100), make([]bool, 100), make([]uint8, 100)
	for i := range learn {
		learn[i] = true
	}
	for range filter.Generations {
		set.Rotate(1)
		var filled uint64
		for range window / filter.Sealed / uint64(len(hashes)) {
			for i := range hashes {
				hashes[i] = filter.Hash(ids.Uint64())
			}
			filled += set.TestAndAdd(hashes, learn, room-filled, ages)
			set.Seal()
			set.Commit()
		}
		added += filled
	}
	return added
}
