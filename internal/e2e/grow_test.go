//go:build unix

package e2e

import (
	"fmt"
	"testing"
)

// TestGrowsThroughRestarts: a filter that was planned far too small grows, and what it
// remembers survives a stop and crashes, by checkpoint and by changelog. At its limit new
// IDs pass, and are counted.
func TestGrowsThroughRestarts(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		const partitions, each = 2, 350
		s := newSceneOn(t, brokers, partitions, nil, nil)
		// A generation of a partition is planned for 72 IDs, and all come in one.
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
				if n := d.metric("streamdedup_filter_slabs", fmt.Sprintf(`partition="%d"`, p)); n < 8 {
					t.Errorf("%s: partition %d has grown by %v filters, for %d IDs where 72 were planned", how, p, n, len(known))
				}
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
