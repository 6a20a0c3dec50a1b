package main

import (
	"fmt"

	"github.com/streamdedup/streamdedup/sizing"
)

// tooLarge are the filters of a plan that this machine has no memory for: it would
// be killed while it fills them.
type tooLarge struct {
	plan   sizing.Plan
	memory uint64
}

// fits compares the filters of a plan with the memory that there is. Nil says
// that all of them fit.
func fits(p sizing.Plan, memory uint64) *tooLarge {
	if p.Bytes <= memory {
		return nil
	}
	return &tooLarge{p, memory}
}

// shareable is whether several instances could hold the plan together: each only
// holds the filters of the partitions that it is assigned.
func (t *tooLarge) shareable() bool { return t.plan.BytesPerPartition <= t.memory }

func (t *tooLarge) Error() string {
	text := fmt.Sprintf("the plan takes %s of memory, this machine has %s",
		sizing.FormatBytes(t.plan.Bytes), sizing.FormatBytes(t.memory))
	if n := t.plan.Workload.Partitions; n > 1 {
		text += fmt.Sprintf(": each of %d partitions takes %s", n, sizing.FormatBytes(t.plan.BytesPerPartition))
	}
	return text
}

// Hint implements hinter.
func (t *tooLarge) Hint() string {
	return "remember fewer IDs (--capacity, --rate or --memory), for a shorter --window, or with a higher --fpr\n" +
		"`streamdedup size` shows what a plan takes"
}

// sharedHint is what else helps where instances share a plan.
const sharedHint = "instances of a group share the partitions: more partitions on more instances take less memory each"
