package admin

import (
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
