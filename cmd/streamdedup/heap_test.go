package main

import (
	"math"
	"runtime/debug"
	"testing"
)

// The limit is that of the plan, more where more lives than half of it, and not more
// than there is.
func TestHeapKeeperFollowsWhatLives(t *testing.T) {
	for _, c := range []struct {
		live       uint64
		plan, most int64
		want       int64
	}{
		{0, 300, 1000, 300},
		{150, 300, 1000, 300},
		{151, 300, 1000, 302},
		{600, 300, 1000, 1000},
		{600, 300, 200, 300}, // filters that grow may leave less than the plan's
		{600, 300, math.MaxInt64, 1200},
	} {
		var got int64
		var use heapUse
		k := heapKeeper{
			left: unknown, plan: c.plan, most: c.most,
			read: func() heapUse { return use },
			set:  func(limit int64) { got = limit },
		}
		look := func() {
			use.allocated += 1000 // a full load
			k.look()
		}
		look()
		use.live = c.live
		for use.collections = 1; use.collections < uint64(len(k.lived)); use.collections++ {
			look()
			look() // after the same collection
			if got != c.plan {
				t.Errorf("%d live by %d collections, plan %d: limit %d, want the plan's", c.live, use.collections, c.plan, got)
			}
		}
		look()
		if got != c.want {
			t.Errorf("%d live, plan %d, at most %d: limit %d, want %d", c.live, c.plan, c.most, got, c.want)
		}
	}
}

// A process that has little to do does not take what the plan has for a full load.
func TestHeapKeeperFollowsTheLoad(t *testing.T) {
	var got int64
	use := heapUse{live: 20}
	k := heapKeeper{left: unknown, plan: 1000, most: math.MaxInt64, read: func() heapUse { return use }, set: func(limit int64) { got = limit }}
	look := func(times int, bytesInCollectEvery float64) {
		for range times {
			use.allocated += uint64(bytesInCollectEvery * float64(keepEvery) / float64(collectEvery))
			k.look()
		}
	}
	look(1, 500)
	if got != 520 {
		t.Errorf("20 live, 500 made: limit %d, want 520", got)
	}
	look(1, 0)
	if got < 500 || got > 519 {
		t.Errorf("just after: limit %d, want a little less than 520", got)
	}
	look(500, 0)
	if got != 250 {
		t.Errorf("long after: limit %d, want a quarter of the plan", got)
	}
	look(1, 5000)
	if got != 1000 {
		t.Errorf("20 live, 5,000 made: limit %d, want the plan's", got)
	}
}

// A stream in a process that does other things, as in a benchmark, leaves no traces.
func TestHeapKeeperGivesBackWhatItSet(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(77)
	limit := debug.SetMemoryLimit(-1)
	defer debug.SetGCPercent(before)
	k := newHeapKeeper()
	k.plan, k.most = 1<<30, math.MaxInt64
	done := k.keep()
	if got := debug.SetMemoryLimit(-1); got < 1<<30 || got == limit {
		t.Errorf("the limit is %d, want at least the plan's", got)
	}
	if percent := debug.SetGCPercent(-1); percent != -1 {
		t.Errorf("garbage is collected at %d%% too", percent)
	}
	done()
	if got := debug.SetMemoryLimit(-1); got != limit {
		t.Errorf("the limit is %d afterwards, was %d", got, limit)
	}
	if percent := debug.SetGCPercent(77); percent != 77 {
		t.Errorf("the percentage is %d afterwards, was 77", percent)
	}
}

func unknown() (int64, bool) { return 0, false }

// What filters and others have taken meanwhile is no memory for garbage.
func TestHeapKeeperKeepsToTheMemoryThatIsLeft(t *testing.T) {
	var got, left int64
	known := true
	k := heapKeeper{
		left: func() (int64, bool) { return left, known }, plan: 1000, most: math.MaxInt64,
		read: func() heapUse { return heapUse{allocated: 1000} }, set: func(limit int64) { got = limit },
	}
	for _, c := range []struct {
		left  int64
		known bool
		want  int64
	}{{2000, true, 1000}, {700, true, 700}, {100, true, 100}, {100, false, 1000}} {
		left, known = c.left, c.known
		k.last, k.made = heapUse{}, 0
		k.look()
		if got != c.want {
			t.Errorf("%d left (known: %v): limit %d, want %d", c.left, c.known, got, c.want)
		}
	}
	if bytes, known := leftForGo(); known && (bytes < int64(goMemory())-2*spareMemory || goMemory() < 1<<20) {
		t.Errorf("%d are left for Go, which has %d", bytes, goMemory())
	}
}
