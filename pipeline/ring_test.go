package pipeline

import "testing"

// What goes in comes out, once and in order, while both ends go to sleep and
// wake each other all the time.
func TestRingKeepsOrder(t *testing.T) {
	const tasks = 200_000
	there, back := newRing(), newRing()
	go func() {
		for range tasks {
			back.put(there.take())
		}
	}()
	sent := 0
	for got := range tasks {
		for ; sent < min(tasks, got+1+sent%ringSize); sent++ {
			if sent-got >= ringSize {
				break
			}
			there.put(task{batch: &Batch{First: int64(sent)}})
		}
		if b := back.take().batch; b.First != int64(got) {
			t.Fatalf("task %d came out as number %d", b.First, got)
		}
	}
}

func TestRingRefusesMoreThanItHolds(t *testing.T) {
	r := newRing()
	for range ringSize {
		r.put(task{})
	}
	defer func() {
		if recover() == nil {
			t.Error("a full ring took another task")
		}
	}()
	r.put(task{})
}
