package kafkaio

import (
	"testing"

	"github.com/streamdedup/streamdedup/pipeline"
)

// The lag is what is not committed. What a stopped partition had read ahead, and
// what an abort undoes, is still to do.
func TestLagIsWhatIsNotCommitted(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		p := pipeline.Partition{Topic: s.cfg.In[0]}
		h := s.byHand()
		s.unique(10)
		lag := func(want int64) {
			t.Helper()
			if got, ok := h.session.Lag()[p]; got != want || !ok {
				t.Errorf("the lag is %d (known: %t), want %d", got, ok, want)
			}
		}
		h.cycle(10)
		lag(10)
		h.abort()
		lag(10)
		h.cycle(10)
		if result := h.commit(); result.Settlement != pipeline.Committed {
			t.Fatalf("the commit ended %v: %v", result.Settlement, result.Cause)
		}
		lag(0)
		// Read, and stopped before any of it is judged.
		s.unique(5)
		for next := int64(10); next < 15; h.session.Release() {
			for _, b := range h.poll() {
				next = b.Next
			}
		}
		h.session.Halt(p)
		lag(5)
	})
}
