package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
)

func TestFitsComparesThePlanWithTheMemory(t *testing.T) {
	plan, err := sizing.Solve(sizing.Workload{
		Elements: 1e6, Window: time.Hour, FPR: 0.01, Peak: 2, Skew: 1, Partitions: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := filterNeed(plan).fits(plan.Bytes); got != nil {
		t.Errorf("as much memory as the plan takes: %v", got)
	}
	if got := filterNeed(plan).fits(plan.Bytes - 1); got == nil || !got.shareable() {
		t.Errorf("one byte too little for all: %v, want a plan to share", got)
	}
	if got := filterNeed(plan).fits(plan.BytesPerPartition); got == nil || !got.shareable() {
		t.Errorf("enough for one partition: %v, want a plan to share", got)
	}
	got := filterNeed(plan).fits(plan.BytesPerPartition - 1)
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

// What run needs besides the filters counts, too.
func TestProcessNeedHasTheRestOfTheProcess(t *testing.T) {
	plan, err := sizing.Solve(sizing.Workload{
		Elements: 1e6, Window: time.Hour, FPR: 0.01, Peak: 2, Skew: 1, Partitions: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	n := processNeed(plan, false)
	if n.one <= plan.BytesPerPartition || n.all <= plan.Bytes || n.peak <= n.all || n.one >= n.all {
		t.Fatalf("one partition %d, all %d, at its peak %d, of filters of %d", n.one, n.all, n.peak, plan.Bytes)
	}
	if too := n.fits(n.all); too != nil {
		t.Errorf("as much as it needs: %v", too)
	}
	too := n.fits(n.all - 1)
	if too == nil || !too.shareable() || !strings.Contains(too.Error(), sizing.FormatBytes(n.all)+" with the rest of the process") {
		t.Errorf("one byte too little for all: %v, want a plan to share", too)
	}
	if too := n.fits(n.one - 1); too == nil || too.shareable() {
		t.Errorf("too little for one partition: %v, want a plan that nobody can hold", too)
	}
}

// The heap gets what is left when the filters have grown as far as they may.
func TestHeapLimitIsWhatTheFiltersLeave(t *testing.T) {
	n := need{plan: sizing.Plan{Bytes: 1000 << 20}, all: 1064 << 20}
	const room = 64 << 20 // what n needs besides the filters
	for _, c := range []struct {
		growing, memory uint64
		want            int64
	}{
		{2000 << 20, 4000 << 20, 2000<<20 - notGo},
		{1000 << 20, 4000 << 20, 3000<<20 - notGo},
		{2000 << 20, 1500 << 20, 500<<20 - notGo}, // they cannot grow so far here
		{2000 << 20, 2010 << 20, room},
		{2000 << 20, 900 << 20, room}, // others take a share
	} {
		if got := heapLimit(n, c.growing, c.memory); got != c.want {
			t.Errorf("filters of %d to %d bytes in %d: %d, want %d", n.plan.Bytes, c.growing, c.memory, got, c.want)
		}
	}
}

// A machine that the plan's peak does not fit into is not given all of the peak.
func TestPlannedHeapFits(t *testing.T) {
	n := need{plan: sizing.Plan{Bytes: 1000 << 20}, all: 1064 << 20, heap: 250 << 20}
	for _, c := range []struct {
		memory uint64
		want   int64
	}{
		{4000 << 20, 250 << 20},
		{1282 << 20, 250 << 20},
		{1182 << 20, 150 << 20},
		{1064 << 20, 64 << 20}, // as much as it takes with little to do
		{900 << 20, 250 << 20}, // others take a share
	} {
		if got := plannedHeap(n, c.memory); got != c.want {
			t.Errorf("in %d: %d, want %d", c.memory, got, c.want)
		}
	}
}

// A plan that fits may grow to what does not, also by default: whoever starts it is told
// before the system ends the process, and after each restart again.
func TestOutgrowsTellsAPlanThatFitsUntilItGrows(t *testing.T) {
	n := need{plan: sizing.Plan{Bytes: 1000 << 20}, all: 1064 << 20}
	for _, c := range []struct {
		growing, memory uint64
		want            bool
	}{
		{2000 << 20, 4000 << 20, false},
		{2000 << 20, 2064 << 20, false},
		{2000 << 20, 2064<<20 - 1, true}, // the filters alone would fit
		{2000 << 20, 1064 << 20, true},
		{1000 << 20, 1064 << 20, false}, // they do not grow
		{2000 << 20, 900 << 20, false},  // others take a share
	} {
		if got := outgrows(n, c.growing, c.memory); got != c.want {
			t.Errorf("filters of %d to %d bytes in %d: %v, want %v", n.plan.Bytes, c.growing, c.memory, got, c.want)
		}
	}
}

func nothing() uint64 { return 0 }

// The rest of the process needs memory, too. What it needs beside small filters they cannot
// give it.
func TestSetsLeaveRoomForTheRest(t *testing.T) {
	for _, c := range []struct {
		rest, left uint64
		want       bool
	}{
		{5, 15, true},
		{5, 14, false},
		{1000, 20, true}, // a filter's worth at most
		{1000, 19, false},
	} {
		newSet := whereThereIsRoom(10, func() uint64 { return c.rest }, func() (uint64, bool) { return c.left, true }, func() (filter.Set, error) { return nil, nil })
		if _, err := newSet(); (err == nil) != c.want || err != nil && !errors.Is(err, pipeline.ErrNoRoom) {
			t.Errorf("%d left, the rest may take %d: %v, want a filter: %v", c.left, c.rest, err, c.want)
		}
	}
	n := need{live: 100}
	if n.rest(30) != 70 || n.rest(130) != 0 {
		t.Errorf("the rest of 100 is %d with 30, and %d with 130", n.rest(30), n.rest(130))
	}
}

// One partition more than there is memory for waits: the system would end the process, and
// with it those that have their place.
func TestSetsAreMadeWhereThereIsRoom(t *testing.T) {
	left, known, made := uint64(25), true, 0
	newSet := whereThereIsRoom(10, nothing, func() (uint64, bool) { return left, known }, func() (filter.Set, error) {
		left -= min(left, 10)
		made++
		return nil, nil
	})
	for range 2 {
		if _, err := newSet(); err != nil {
			t.Fatalf("with room for one more: %v", err)
		}
	}
	_, err := newSet()
	if !errors.Is(err, pipeline.ErrNoRoom) || made != 2 || !strings.Contains(err.Error(), "it takes 10 bytes, the rest of the process up to 0 bytes more, and this machine has 5 bytes left") {
		t.Errorf("without: %v, %d made", err, made)
	}
	known = false
	if _, err := newSet(); err != nil || made != 3 {
		t.Errorf("where nobody knows: %v, %d made", err, made)
	}
}

// What a set is about to take is not free for those that are made meanwhile.
func TestSetsThatAreMadeAtOnceShareTheRoom(t *testing.T) {
	making, made := make(chan struct{}), make(chan struct{})
	first := true
	newSet := whereThereIsRoom(10, nothing, func() (uint64, bool) { return 15, true }, func() (filter.Set, error) {
		if first {
			first = false
			close(making)
			<-made
		}
		return nil, nil
	})
	done := make(chan error)
	go func() {
		_, err := newSet()
		done <- err
	}()
	<-making
	if _, err := newSet(); !errors.Is(err, pipeline.ErrNoRoom) || !strings.Contains(err.Error(), "has 5 bytes left") {
		t.Errorf("a second one beside the first: %v", err)
	}
	close(made)
	if err := <-done; err != nil {
		t.Errorf("the first: %v", err)
	}
	if _, err := newSet(); err != nil {
		t.Errorf("after it, where as much is left as before: %v", err)
	}
}

// What goes wrong in a shard is the shard's error: its room is free again.
func TestRoomIsFreeAfterAPanic(t *testing.T) {
	asked := 0
	newSet := whereThereIsRoom(10, nothing, func() (uint64, bool) { asked++; return 10, true }, func() (filter.Set, error) { panic("a bug") })
	for n := range 2 {
		func() {
			defer func() {
				if got := recover(); got != "a bug" {
					t.Errorf("call %d ended with %v", n, got)
				}
			}()
			_, err := newSet()
			t.Errorf("call %d: %v", n, err)
		}()
	}
	if asked != 2 {
		t.Errorf("what is free was asked for %d times, want 2", asked)
	}
}
