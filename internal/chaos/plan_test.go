//go:build unix

package main

import (
	"reflect"
	"testing"
	"time"
)

// TestPlan: a seed gives one plan, and two minutes have every kind in them.
func TestPlan(t *testing.T) {
	for seed := range uint64(50) {
		plan := planFaults(seed, 2*time.Minute, instances, copies)
		if again := planFaults(seed, 2*time.Minute, instances, copies); !reflect.DeepEqual(plan, again) {
			t.Fatalf("seed %d gives two plans", seed)
		}
		var have [kinds]int
		elapsed := time.Duration(0)
		for _, f := range plan {
			have[f.kind]++
			elapsed += f.after
			if targets := map[bool]int{true: copies, false: instances}[f.kind == crash]; f.target < 0 || f.target >= targets {
				t.Errorf("seed %d: %v has no target", seed, f)
			}
			if f.kind == pause && f.lasts <= sessionTimeout {
				t.Errorf("seed %d: %v is not missed by the group", seed, f)
			}
		}
		if elapsed > 2*time.Minute {
			t.Errorf("seed %d: the plan takes %v", seed, elapsed)
		}
		for k, n := range have {
			if n == 0 {
				t.Errorf("seed %d: no %v", seed, kind(k))
			}
		}
	}
	for _, f := range planFaults(1, time.Hour, instances, 0) {
		if f.kind == crash {
			t.Fatal("a broker is killed that is not ours")
		}
	}
}
