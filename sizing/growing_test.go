package sizing

import (
	"math"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// TestOverloadsAreWhatGrows gives the sets of a plan three times their rate and compares
// what they take, and leave unlearned, with what the report says of it.
func TestOverloadsAreWhatGrows(t *testing.T) {
	for _, fpr := range []float64{1e-2, 1e-4} {
		w := Workload{Elements: 70_000, Window: 7 * time.Hour, FPR: fpr, Peak: 1, Skew: 1, Partitions: 1}
		p, err := Solve(w)
		if err != nil {
			t.Fatal(err)
		}
		overloads, err := p.Overloads()
		if err != nil {
			t.Fatal(err)
		}
		want := overloads[len(overloads)-1]
		if want.OnFull != "grow" || want.Times != 3 {
			t.Fatalf("the last overload is %+v", want)
		}
		set, err := p.NewGrowingSet(GrowthLimit * p.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		n := 3 * p.GenerationCapacity
		hashes, learn, ages := make([]filter.Hash, n), make([]bool, n), make([]uint8, n)
		for i := range hashes {
			hashes[i], learn[i] = filter.Hash(uint64(i+1)*0x9e3779b97f4a7c15), true
		}
		added := set.Learn(0, hashes, learn, math.MaxUint64, ages)
		if got := 1 - float64(added)/float64(n); math.Abs(got-want.Unlearned) > 1e-3 {
			t.Errorf("%g: %.4f of the IDs are unlearned, the report says %.4f", fpr, got, want.Unlearned)
		}
		if got := set.Bytes(); got != want.Bytes || got > GrowthLimit*p.Bytes {
			t.Errorf("%g: the set takes %d bytes, the report says %d, the limit is %d", fpr, got, want.Bytes, GrowthLimit*p.Bytes)
		}
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := (Plan{Workload: Workload{Kind: Classic}}).NewGrowingSet(1 << 30); err == nil {
		t.Error("a classic ring that grows was made")
	}
}
