package admin

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamdedup/streamdedup/pipeline"
)

var descBlocked = describe("input_blocked_by_open_txn",
	"1 while an open transaction of another producer stands before all that could be read.", "topic", "partition")

// blocked is 1 or 0 for each partition whose lag is known.
func blocked(to chan<- prometheus.Metric, source *Source) {
	waits := map[pipeline.Partition]bool{}
	for _, s := range source.standstills() {
		waits[s.Partition] = s.OpenTransaction
	}
	for p := range source.Lag() {
		gauge(to, descBlocked, oneIf(waits[p]), p.Topic, number(p))
	}
}

// standstills are those that the source knows of.
func (s *Source) standstills() []pipeline.Standstill {
	if s == nil || s.Standstills == nil {
		return nil
	}
	return s.Standstills()
}

// alive is the first line of the page: the process lives, but a partition that goes
// no further needs someone.
func alive(s *pipeline.Snapshot, still []pipeline.Standstill) string {
	var stopped, waiting, standing int
	if s != nil {
		for i := range s.Partitions {
			if s.Partitions[i].Stopped != nil {
				stopped++
			}
		}
	}
	for _, at := range still {
		if at.OpenTransaction {
			waiting++
		} else {
			standing++
		}
	}
	var degraded []string
	for _, what := range []struct {
		n    int
		what string
	}{{stopped, "stopped"}, {waiting, "waiting for a transaction of another producer"}, {standing, "standing still"}} {
		if what.n > 0 {
			degraded = append(degraded, fmt.Sprintf("%s %s", partitions(what.n), what.what))
		}
	}
	if len(degraded) == 0 {
		return "alive"
	}
	return "degraded: " + strings.Join(degraded, ", ")
}
