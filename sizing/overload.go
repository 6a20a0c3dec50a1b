package sizing

import (
	"fmt"

	"github.com/streamdedup/streamdedup/filter"
)

// Overload is what a plan does when IDs come faster than planned, all the time, in a
// partition with its full share: the skew is used up before.
type Overload struct {
	Times     float64 `json:"times_the_rate"` // of the plan's average rate
	OnFull    string  `json:"on_full"`        // pass or grow
	FPR       float64 `json:"fpr"`            // at the window's worst moment
	Unlearned float64 `json:"unlearned"`      // share of the new IDs that are not remembered
	Bytes     uint64  `json:"bytes"`          // of the filters, if all partitions do the same
}

// overloads are how many times the planned rate a report looks at.
var overloads = []float64{1, 1.5, 2, 3}

// Overloads says what happens at some times the planned rate, when full generations
// pass what comes on and, where the filter can, when they grow.
func (p Plan) Overloads() ([]Overload, error) {
	tiers := map[string][]tier{"pass": {{p.GenerationCapacity, p.BytesPerPartition, p.model()}}}
	policies := []string{"pass"}
	if p.Workload.Kind == Sliced {
		grown, err := p.tiers(GrowthLimit * p.BytesPerPartition)
		if err != nil {
			return nil, err
		}
		tiers["grow"], policies = grown, append(policies, "grow")
	}
	var all []Overload
	for _, times := range overloads {
		for _, policy := range policies {
			one := Overload{Times: times, OnFull: policy}
			one.Bytes, one.FPR, one.Unlearned = p.under(times, tiers[policy])
			all = append(all, one)
		}
	}
	return all, nil
}

// tier is one filter of those that remember a partition together.
type tier struct {
	capacity uint64 // unique IDs of one generation
	bytes    uint64
	model    filter.Model
}

// tiers are the first filter and the slabs that fit into limit beside it: each for half
// as many IDs, the first for a tenth of the rate and each next for half of the one
// before, so that all together stay near it.
func (p Plan) tiers(limit uint64) ([]tier, error) {
	all := []tier{{p.GenerationCapacity, p.BytesPerPartition, p.model()}}
	capacity, fpr := (p.GenerationCapacity+1)/2, p.Workload.FPR/10
	for taken := p.BytesPerPartition; len(all) <= filter.MaxSlabs; fpr /= 2 {
		slab, err := filter.Size(capacity*filter.Sealed, max(fpr, filter.MinFPR), filter.Compact)
		if err != nil {
			return nil, fmt.Errorf("plan what a full filter grows by: %w", err)
		}
		if taken += slab.Bytes(); taken > limit {
			return all, nil
		}
		all = append(all, tier{capacity, slab.Bytes(), slab})
	}
	return all, nil
}

// under is what becomes of a partition at so many times its rate: memory of all
// partitions like it, rate of false positives, and the share that is not learned.
func (p Plan) under(times float64, tiers []tier) (bytes uint64, fpr, unlearned float64) {
	load := uint64(times * float64(p.Share) / filter.Sealed)
	rest, right := load, 1.0
	for i, one := range tiers {
		if i > 0 && rest == 0 {
			break
		}
		held := min(rest, one.capacity)
		var loads [filter.Generations]uint64
		for age := range loads {
			loads[age] = held
		}
		bytes += one.bytes
		right *= 1 - one.model.FPRAt(loads)
		rest -= held
	}
	if load > 0 {
		unlearned = float64(rest) / float64(load)
	}
	return bytes * uint64(p.Workload.Partitions), 1 - right, unlearned
}
