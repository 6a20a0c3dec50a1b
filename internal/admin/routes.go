package admin

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

// With --scope topic a stage before the shards shares the input out. What it does is
// shown by the partitions of the input, and what the shards do by those between.

var descHeld = describe("partition_held", "1 while a partition of the input waits for slower ones, with --scope topic.", "topic", "partition")

// withRoutes is s with the partitions of the first stage among its own: it is ready
// when both stages are, and a partition that has stopped in either needs someone.
func withRoutes(s *pipeline.Snapshot, routes *pipeline.RouteSnapshot) *pipeline.Snapshot {
	both := *s
	both.Partitions = slices.Clone(s.Partitions)
	for i := range routes.Partitions {
		p := &routes.Partitions[i]
		both.Partitions = append(both.Partitions, pipeline.PartitionSnapshot{
			Partition: p.Partition, Restored: p.Located, Stopped: p.Stopped, Window: window.Stats{Coverage: 1},
		})
	}
	return &both
}

// collectRoutes turns a router's snapshot into metrics.
func collectRoutes(to chan<- prometheus.Metric, s *pipeline.RouteSnapshot) {
	for i := range s.Partitions {
		p := &s.Partitions[i]
		gauge(to, descStopped, oneIf(p.Stopped != nil), p.Partition.Topic, number(p.Partition))
		gauge(to, descHeld, oneIf(p.Held), p.Partition.Topic, number(p.Partition))
		if p.Time > 0 {
			gauge(to, descTime, float64(p.Time)/1000, p.Partition.Topic, number(p.Partition))
		}
	}
}
