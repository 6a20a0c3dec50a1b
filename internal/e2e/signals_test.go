//go:build unix

package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestSignals: a first signal finishes the cycle and leaves the group, so that
// another instance has the partitions at once, although the session would last
// minutes. A second one quits.
func TestSignals(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Run("first", func(t *testing.T) { firstSignal(t, signal) })
			t.Run("second", func(t *testing.T) { secondSignal(t, signal) })
		})
	}
}

func firstSignal(t *testing.T, signal syscall.Signal) {
	s := newScene(t, 2, nil, nil)
	s.flags["session-timeout"] = "10m" // far longer than this test waits for anything
	p := newProxy(t, s.brokers[0])
	a := s.run("brokers=" + p.address())
	a.ready(2)
	b := s.run("instance=b")
	a.ready(1)
	b.ready(1)

	// The signal comes in the middle of a transaction.
	held := p.hold(kmsg.NewPtrProduceRequest())
	for n := range int32(2) {
		s.together(n, "a", "b", "c", "a")
	}
	held.wait(t, a)
	await(t, "the other has done its part", func() bool { return b.metric("streamdedup_records_total") == 4 }, b.done)
	a.signal(signal)
	a.says("stopping")
	held.let()
	a.ends(0)
	sum := a.summary()
	if sum.In != 4 || sum.Out != 3 {
		t.Errorf("%d in and %d out, want the 4 and 3 of the open cycle", sum.In, sum.Out)
	}
	if undone := b.undone(); undone != 0 {
		t.Errorf("the other has undone %v transactions, want none", undone)
	}
	b.ready(2)
	for n := range int32(2) {
		s.ids(n, "c", "d")
	}
	s.caughtUp(b)
	b.stop()
	s.check()
}

func secondSignal(t *testing.T, signal syscall.Signal) {
	s := newScene(t, 1, nil, nil)
	p := newProxy(t, s.brokers[0])
	a := s.run("brokers=" + p.address())
	a.ready(1)
	held := p.hold(kmsg.NewPtrProduceRequest())
	s.ids(0, "a", "b", "a")
	held.wait(t, a)
	a.signal(signal)
	a.says("stopping")
	// A second one in the same moment counts as the first.
	for end := time.Now().Add(limit); a.running() && time.Now().Before(end); {
		_ = a.cmd.Process.Signal(signal) // it may have ended just now
		select {
		case <-a.done:
		case <-time.After(100 * time.Millisecond):
		}
	}
	a.ends(1) // while its transaction is held
	a = s.run()
	s.caughtUp(a)
	a.stop()
	s.check()
}
