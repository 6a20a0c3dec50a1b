package main

import (
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/sizing"
)

func TestFitsComparesThePlanWithTheMemory(t *testing.T) {
	plan, err := sizing.Solve(sizing.Workload{
		Elements: 1e6, Window: time.Hour, FPR: 0.01, Peak: 2, Skew: 1, Partitions: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := fits(plan, plan.Bytes); got != nil {
		t.Errorf("as much memory as the plan takes: %v", got)
	}
	if got := fits(plan, plan.Bytes-1); got == nil || !got.shareable() {
		t.Errorf("one byte too little for all: %v, want a plan to share", got)
	}
	if got := fits(plan, plan.BytesPerPartition); got == nil || !got.shareable() {
		t.Errorf("enough for one partition: %v, want a plan to share", got)
	}
	got := fits(plan, plan.BytesPerPartition-1)
	if got == nil || got.shareable() {
		t.Fatalf("too little for one partition: %v, want a plan that nobody can hold", got)
	}
	for _, figure := range []string{
		sizing.FormatBytes(plan.Bytes), sizing.FormatBytes(plan.BytesPerPartition - 1), "4 partitions",
	} {
		if !strings.Contains(got.Error(), figure) {
			t.Errorf("%q does not name %s", got, figure)
		}
	}
}
