package main

import (
	"fmt"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/sizing"
	"github.com/streamdedup/streamdedup/window"
)

// fullPolicy is what becomes of new IDs when a generation is full.
type fullPolicy struct {
	window.OnFull
	given bool
}

func parseFullPolicy(text string) (fullPolicy, error) {
	o, err := window.ParseOnFull(text)
	return fullPolicy{o, true}, err
}

// whenFull is the policy in force: a ring of classic filters cannot grow.
func (j *judging) whenFull() window.OnFull {
	if j.kind == sizing.Classic && !j.onFull.given {
		return window.PassWhenFull
	}
	return j.onFull.OnFull
}

// checkGrowing refuses what contradicts itself about growing.
func (j *judging) checkGrowing() error {
	switch full := j.whenFull(); {
	case full == window.GrowWhenFull && j.kind == sizing.Classic:
		return withHint(usagef("--on-full grow: a ring of classic filters cannot grow"), "use --filter sliced, or --on-full pass")
	case full != window.GrowWhenFull && j.limit != 0:
		return withHint(usagef("--memory-limit bounds how far filters grow, and these do not"), "leave it out, or use --on-full grow with --filter sliced")
	}
	return nil
}

// more is what to raise where the filter is full.
func (j *judging) more() string {
	if j.whenFull() == window.GrowWhenFull {
		return fmt.Sprintf("%s, or --memory-limit where the filter has not grown to %d times its plan", j.amount(), 1+filter.MaxSlabs/2)
	}
	return j.amount()
}

// growth is what the filters of a plan may take in all: what the user said, or twice the
// plan, and the plan where they do not grow. The share of each partition is fixed with
// that.
func (j *judging) growth(p sizing.Plan) (limit uint64, err error) {
	if j.whenFull() != window.GrowWhenFull {
		return p.Bytes, nil
	}
	if j.limit == 0 {
		return sizing.GrowthLimit * p.Bytes, nil
	}
	if j.limit < p.Bytes {
		return 0, withHint(usagef("--memory-limit is %s, and the plan alone takes %s", sizing.FormatBytes(j.limit), sizing.FormatBytes(p.Bytes)),
			"raise it, or remember fewer IDs; `streamdedup size` shows what a plan takes")
	}
	return j.limit, nil
}

// newSet makes the memory of a partition of the plan.
func (j *judging) newSet(p sizing.Plan) (func() (filter.Set, error), error) {
	if j.whenFull() != window.GrowWhenFull {
		return p.NewSet, nil
	}
	limit, err := j.growth(p)
	if err != nil {
		return nil, err
	}
	return func() (filter.Set, error) { return p.NewGrowingSet(limit) }, nil
}
