package sizing

import (
	"math"
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

// What is said of a full filter is what a small one does that really gets three times
// its plan.
func TestOverloads_Measured(t *testing.T) {
	t.Parallel()
	w := billion
	w.Elements = 70_000
	p := solve(t, w)
	set, err := p.NewSet()
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	ids := newRand(t)
	hashes, learn, ages := make([]filter.Hash, 1000), make([]bool, 1000), make([]uint8, 1000)
	for i := range learn {
		learn[i] = true
	}
	for range filter.Generations {
		set.Rotate(1)
		var added uint64
		for range 3 * p.Share / filter.Sealed / 1000 {
			for i := range hashes {
				hashes[i] = filter.Hash(ids.Uint64())
			}
			added += set.TestAndAdd(hashes, learn, p.GenerationCapacity-added, ages)
			set.Seal()
			set.Commit()
		}
	}
	const probes = 400_000
	found := 0
	for range probes {
		if set.Test(filter.Hash(ids.Uint64())) != 0 {
			found++
		}
	}
	all, err := p.Overloads()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.Times == 3 && one.OnFull == "pass" {
			if got := float64(found) / probes; math.Abs(got-one.FPR) > 0.1*one.FPR {
				t.Errorf("a rate of %g, the table says %g", got, one.FPR)
			}
		}
	}
}
