package pipeline

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A duplicate needs no room in the output: one that is too large for it stops nothing
// and is not diverted, also when its first copy was read in the same batch.
func TestTooLargeDuplicateIsDropped(t *testing.T) {
	for _, known := range []bool{true, false} {
		for _, diverts := range []bool{true, false} {
			s := shardOf(t, func(c *Config) { c.Diverts = diverts })
			b := batchOf(0, `{"id":1}`, `{"id":1}`, `{"id":2}`, `{"id":1}`)
			if known {
				b.Oversize = []bool{false, true, false, true}
			} else {
				s.Refuse(Refusal{Partition: p0, Offset: 1, Err: errTooLarge})
				s.Refuse(Refusal{Partition: p0, Offset: 3, Diverted: true, Err: errTooLarge})
			}
			s.Process(b)
			want := "unique:out duplicate:dropped:duplicate unique:out duplicate:dropped:duplicate"
			if got := outcomes(b); got != want || b.Stopped != nil {
				t.Errorf("known %v, diverts %v: got  %s, stopped %v\nwant %s", known, diverts, got, b.Stopped, want)
			}
		}
	}
}

// One that is to be diverted and fits nowhere stops the partition, with the reason
// of the topic that refused it.
func TestTooLargeDuplicateThatIsDiverted(t *testing.T) {
	s := shardOf(t, func(c *Config) { c.Diverts, c.OnDuplicate = true, DivertDuplicates })
	s.Refuse(Refusal{Partition: p0, Offset: 1, Diverted: true, Err: errTooLarge})
	b := batchOf(0, `{"id":1}`, `{"id":1}`)
	s.Process(b)
	if got := outcomes(b); got != "unique:out" || b.Stopped == nil || !errors.Is(b.Stopped, errTooLarge) {
		t.Errorf("got %s, stopped %v", got, b.Stopped)
	}
}

// One that is late and too large stops the partition as a late one, and is dropped
// where late ones are.
func TestTooLargeAndLate(t *testing.T) {
	for policy, want := range map[Policy]Reason{Fail: ReasonLate, Pass: ReasonTooLarge, Drop: NoReason} {
		s := shardOf(t, func(c *Config) { c.OnLate = policy })
		b := batchOf(0, `{"id":1}`, `{"id":2}`)
		b.Records[1].Time -= (2 * time.Hour).Milliseconds()
		b.Oversize = []bool{false, true}
		s.Process(b)
		if want == NoReason && b.Stopped == nil {
			continue
		}
		if b.Stopped == nil || b.Stopped.Reason != want {
			t.Errorf("late policy %v: stopped %v, want %q", policy, b.Stopped, want)
		}
	}
}

// A partition stops before the first record that is new and too large, however the
// stream is cut into batches.
func TestTooLargeStopsAtTheFirstNewOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 21))
	for range 50 {
		var ids []int
		var large []bool
		seen, want := map[int]bool{}, -1
		for i := range 4000 {
			id, tooLarge := i, rng.IntN(20) == 0
			if rng.IntN(3) == 0 || tooLarge && rng.IntN(200) > 0 {
				id = rng.IntN(i + 1)
			}
			if tooLarge && !seen[id] && want < 0 {
				want = i
			}
			seen[id] = seen[id] || !tooLarge
			ids, large = append(ids, id), append(large, tooLarge)
		}
		for _, size := range []int{1, 7, 1000, 1024, 4000} {
			s := shardOf(t, nil)
			stopped := -1
			for from := 0; from < len(ids) && stopped < 0; from += size {
				to := min(from+size, len(ids))
				b := batchOf(int64(from))
				for i := from; i < to; i++ {
					b.Records = append(b.Records, Record{Value: fmt.Appendf(nil, `{"id":%d}`, ids[i]), Time: epoch0 + int64(i)})
					b.Offsets = append(b.Offsets, int64(i))
				}
				b.Next, b.Oversize = int64(to), slices.Clone(large[from:to])
				s.Process(b)
				if b.Stopped != nil {
					stopped = int(b.Stopped.Offset)
				}
			}
			if stopped != want {
				t.Fatalf("batches of %d: stopped before %d, want %d", size, stopped, want)
			}
		}
	}
}
