package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/sizing"
)

// TestGrowsThroughRestarts: a filter that was planned far too small grows, and what it
// remembers survives a stop and crashes, by checkpoint and by changelog. At its limit new
// IDs pass, and are counted.
func TestGrowsThroughRestarts(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		const partitions, each = 2, 350
		s := newSceneOn(t, brokers, partitions, nil, nil)
		// A generation of a partition is planned for 72 IDs, and all come in one, wherever
		// the wall clock is in its own.
		s.at = time.Now()
		s.flags["capacity"], s.flags["peak"], s.flags["skew"] = "1000", "1", "1"
		s.flags["memory-limit"] = "4MiB"
		var known []string
		live := func(how string, end func(d *daemon), more ...string) {
			t.Helper()
			d := s.run(more...)
			for p := range int32(partitions) {
				s.ids(p, known...) // again
			}
			fresh := series(how+"-", each)
			for p := range int32(partitions) {
				s.ids(p, fresh...)
				s.ids(p, fresh[:each/2]...)
			}
			known = append(known, fresh...)
			s.caughtUp(d)
			for p := range partitions {
				// The figures of a cycle follow its output.
				await(t, fmt.Sprintf("%s: partition %d has grown by 8 filters, for %d IDs where 72 were planned", how, p, len(known)), func() bool {
					return d.metric("streamdedup_filter_slabs", fmt.Sprintf(`partition="%d"`, p)) >= 8
				}, d.done)
			}
			if n := d.metric("streamdedup_marks_total", `mark="unlearned"`); n != 0 {
				t.Errorf("%s: %v IDs were not remembered", how, n)
			}
			d.says("the filter has grown")
			end(d)
		}
		live("begun", func(d *daemon) { d.stop() })
		live("checkpoint", (*daemon).kill)
		live("changelog", (*daemon).kill, "state-dir=off")

		// Under a lower limit the changelog has more than there is room for, and it is said.
		d := s.run("state-dir=off", "memory-limit=100k")
		for p := range int32(partitions) {
			s.ids(p, known[:72]...)
		}
		s.caughtUp(d)
		d.says("found their generation full while it was restored")
		d.stop()
		s.check()
	})
}

// TestCase_BLOOM_10: a process that rotates, makes checkpoints and is killed and restored
// takes no more, with a tenth, than size says that its plan takes. One that grows takes
// its limit instead of the plan's filters.
func TestCase_BLOOM_10(t *testing.T) {
	t.Parallel()
	const window, generations = 7 * time.Hour, 9
	elements := 300_000
	if long() {
		elements *= 10
	}
	plan, err := sizing.Solve(sizing.Workload{
		Elements: uint64(elements), Window: window, FPR: 1e-4, Peak: 1, Skew: 1, Partitions: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, times := range map[string]int{"as planned": 1, "grown": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSceneOn(t, kafkatest.Fake(t, kfake.NumBrokers(1)).ListenAddrs(), 1, nil, nil)
			limit := plan.Bytes * uint64(2*times)
			flags := []string{"window=7h", fmt.Sprintf("capacity=%d", elements), "fpr=1e-4", "peak=1", "skew=1", fmt.Sprintf("memory-limit=%d", limit)}
			each := elements / 7 * times * 9 / 10
			begin := time.Now().Add(-2 * window).Truncate(window / 7)
			d := s.run(flags...)
			d.ready(1)
			peak := int64(0)
			for n := range generations {
				records := make([]*kgo.Record, each)
				for i := range records {
					records[i] = event(0, fmt.Sprint(n*each+i))
					records[i].Timestamp = begin.Add(time.Duration(n)*window/7 + time.Duration(i))
				}
				for part := range slices.Chunk(records, 5000) {
					s.write(part...)
				}
				s.caughtUp(d)
				if n == generations/2 {
					await(t, "there is a checkpoint", func() bool { return d.metric("streamdedup_checkpoint_seconds_count") > 0 }, d.done)
					peak = max(peak, d.peak())
					d.kill()
					d = s.run(flags...)
					d.ready(1)
				}
			}
			peak = max(peak, d.peak())
			filters := d.metric("streamdedup_filter_bytes")
			if slabs := d.metric("streamdedup_filter_slabs"); (slabs > 0) != (times > 1) {
				t.Errorf("it has grown by %v filters", slabs)
			}
			if n := d.metric("streamdedup_marks_total", `mark="unlearned"`); n != 0 {
				t.Errorf("%v IDs were not remembered", n)
			}
			sum := d.stop()
			most := plan.Process(sizing.IO{}).Bytes()
			if times > 1 {
				most += limit - plan.Bytes
			}
			t.Logf("at most %d MiB, filters %d MiB; size says %d MiB", peak>>20, int(filters)>>20, most>>20)
			if uint64(peak) > most+most/10 || filters > float64(limit) {
				t.Errorf("%d bytes at most, filters %v; size says %d, and the limit is %d", peak, filters, most, limit)
			}
			if lost := sum.Dropped; lost > sum.In/1000 {
				t.Errorf("%d of %d new records were withheld", lost, sum.In)
			}
		})
	}
}
