package kafkaio

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// A poll that finds nothing and does not wait holds partitions like any other, up to the
// next [Session.Release]: what was read ahead is delivered after such a poll.
func TestPollHoldsPartitions(t *testing.T) {
	t.Parallel()
	s := newScene(t, kafkatest.Fake(t, kfake.NumBrokers(1)).ListenAddrs(), 2)
	blocked := make(chan struct{}, 1)
	s.cfg.Client = append(s.cfg.Client, kgo.OnPartitionsCallbackBlocked(func(context.Context, *kgo.Client) {
		select {
		case blocked <- struct{}{}:
		default:
		}
	}))
	h := s.byHand()
	h.assigned(2)
	h.session.Release()
	polled, err := h.session.Poll(ctx(t), 0)
	if err != nil || len(polled.Batches) > 0 {
		t.Fatalf("an idle poll brought %d batches, error %v", len(polled.Batches), err)
	}
	other := s.cfg
	other.Instance = "j"
	s.rewire()
	other.Client = s.cfg.Client
	second, err := Open(ctx(t), other)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Close(ctx(t), true); err != nil {
			t.Error(err)
		}
	})
	m := h.session.member.Load()
	until(t, "the group asks for a partition", func() bool {
		select {
		case <-blocked:
			return true
		case <-time.After(time.Millisecond):
			return m.waiting(nil)
		}
	})
	if m.waiting(nil) {
		t.Error("a partition was taken away between a poll and the release after it")
	}
	h.session.Release()
	until(t, "the partition is given away", func() bool { h.poll(); h.session.Release(); return h.lost > 0 })
}
