package kafkaio

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// Partitions that are resumed one upon the other are all read: each seek stops the
// fetch that the resuming before it is about to begin. Without [wakeFetches] the
// client falls silent for good, under the race detector within a thousand rounds.
func TestResumedPartitionsAreRead(t *testing.T) {
	t.Parallel()
	const partitions = 8
	rounds := 2000
	if long() {
		rounds *= 10
	}
	s := newScene(t, kafkatest.Fake(t, kfake.NumBrokers(1)).ListenAddrs(), partitions)
	h := s.byHand()
	h.assigned(partitions)
	s.unique(1)
	for range rounds {
		for p := range h.shards {
			h.epochs[p] = h.session.Resume(p, 0)
		}
		read := map[pipeline.Partition]bool{}
		until(t, "all partitions are read", func() bool {
			for _, b := range h.poll() {
				if b.Epoch == h.epochs[b.Partition] {
					read[b.Partition] = true
				}
			}
			return len(read) == partitions
		})
		h.session.Release()
	}
}
