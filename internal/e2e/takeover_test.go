//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestCase_STATE_01: what was learned in a transaction that did not commit is
// forgotten with it. The output refuses writes, the group is rebalanced, the
// process is killed; the first copies come out.
func TestCase_STATE_01(t *testing.T) {
	s := newScene(t, 2, nil, nil)
	p := newProxy(t, s.brokers[0])
	s.flags["brokers"], s.flags["txn-timeout"], s.flags["session-timeout"] = p.address(), "2s", "3s"
	a := s.run()
	a.ready(2)
	s.ids(0, "before")
	s.caughtUp(a, 0)

	p.refuseAll(kerr.NotEnoughReplicas)
	s.ids(0, "a", "b", "c", "a", "before")
	s.ids(1, "a", "b", "c", "a")
	await(t, "two transactions are undone", func() bool { return a.undone() >= 2 }, a.done)
	b := s.run("instance=b")
	a.ready(1)
	b.ready(1)
	await(t, "both undo transactions", func() bool { return b.undone() >= 1 && a.undone() >= 3 }, b.done)
	a.kill()
	p.heal()
	s.caughtUp(b)
	b.stop()
	s.check()
}

// TestCase_EOS_04: who is killed inside of a transaction is fenced by who starts
// in the place, at once: neither the stream nor the readers of the output wait for
// the transaction's time-out.
func TestCase_EOS_04(t *testing.T) {
	s := newScene(t, 2, nil, nil)
	p := newProxy(t, s.brokers[0])
	// Both are minutes longer than the test waits for anything.
	patient := []string{"txn-timeout=10m", "session-timeout=10m"}
	a := s.run(append(patient, "brokers="+p.address())...)
	a.ready(2)
	held := p.hold(kmsg.NewPtrProduceRequest())
	for n := range int32(2) {
		s.ids(n, "a", "b", "c", "a")
	}
	held.wait(t, a)
	a.kill()
	began := time.Now()
	a = s.run(patient...)
	s.caughtUp(a)
	t.Logf("started to caught up: %v", time.Since(began).Round(time.Millisecond))
	a.stop()
	s.check()
}

// TestCase_EOS_05: of two processes with one name the older ends and says which
// name that is. The newer goes on.
func TestCase_EOS_05(t *testing.T) {
	s := newScene(t, 2, nil, nil)
	old := s.run()
	old.ready(2)
	s.ids(0, "a", "b")
	s.caughtUp(old, 0)
	newer := s.run()
	began := time.Now()
	newer.ready(2)
	old.ends(1)
	t.Logf("the older ended after %v", time.Since(began).Round(time.Millisecond))
	id := s.group + "-a"
	if line := old.line("error: ", "transactional ID"); !strings.Contains(line, `"`+id+`"`) {
		t.Errorf("the error %q does not name %q", line, id)
	}
	old.line("hint: ", "--instance")
	s.ids(0, "b", "c")
	s.ids(1, "d")
	s.caughtUp(newer)
	if sum := newer.stop(); sum.In != 3 || sum.Out != 2 {
		t.Errorf("the newer committed %d in and %d out, want 3 and 2", sum.In, sum.Out)
	}
	s.check()
}

// TestCase_EOS_12: a process sleeps between judging and committing, until the
// group has given its partitions to another, which does the same work. What the
// first has done must not come out when it wakes.
func TestCase_EOS_12(t *testing.T) {
	t.Run("written", func(t *testing.T) { sleep(t, kmsg.NewPtrProduceRequest(), "txn-timeout=1m") })
	// The other cannot read the group's offsets before this transaction has ended.
	t.Run("positions", func(t *testing.T) { sleep(t, kmsg.NewPtrTxnOffsetCommitRequest(), "txn-timeout=2s") })
	t.Run("committed", func(t *testing.T) { sleep(t, kmsg.NewPtrEndTxnRequest(), "txn-timeout=1m") })
}

// sleep puts a process to sleep when the broker has done what this request asks
// for, and wakes it when another has taken over.
func sleep(t *testing.T, at kmsg.Request, timeout string) {
	s := newScene(t, 2, nil, nil)
	p := newProxy(t, s.brokers[0])
	a := s.run("session-timeout=2s", timeout, "brokers="+p.address())
	s.sleepThrough(a, p, at)
	s.check()
}

// sleepThrough writes to both partitions of a's, puts a to sleep when the broker has
// done what this request asks for, and wakes it when another has taken over and done
// the same. Both go on, and end.
func (s *scene) sleepThrough(a *daemon, p *proxy, at kmsg.Request) {
	s.t.Helper()
	a.ready(2)
	for n := range int32(2) {
		s.ids(n, series("first", 5)...)
	}
	s.caughtUp(a)
	held := p.hold(at)
	for n := range int32(2) {
		s.ids(n, series(fmt.Sprintf("p%d-", n), 5)...)
		s.ids(n, "first0", fmt.Sprintf("p%d-0", n))
	}
	held.wait(s.t, a)
	a.signal(syscall.SIGSTOP)
	held.let()
	b := s.run("instance=b")
	b.ready(2)
	s.caughtUp(b)
	a.signal(syscall.SIGCONT)
	a.ready(1)
	b.ready(1)
	for n := range int32(2) {
		s.ids(n, "first1", fmt.Sprintf("p%d-1", n), fmt.Sprintf("last%d", n))
	}
	s.caughtUp(a)
	sumA, sumB := a.stop(), b.stop()
	if n := sumA.In + sumB.In; n != uint64(s.written) {
		s.t.Errorf("both have committed %d records, want %d", n, s.written)
	}
}

// TestSaysWhatItWaitsFor: positions that another's open transaction holds back are
// waited for, and not in silence. Whoever starts in the place of the sleeper ends
// the wait.
func TestSaysWhatItWaitsFor(t *testing.T) {
	s := newScene(t, 2, nil, nil)
	p := newProxy(t, s.brokers[0])
	a := s.run("session-timeout=2s", "txn-timeout=10m", "brokers="+p.address())
	a.ready(2)
	held := p.hold(kmsg.NewPtrTxnOffsetCommitRequest())
	for n := range int32(2) {
		s.ids(n, "a", "b", "a")
	}
	held.wait(t, a)
	a.signal(syscall.SIGSTOP)
	b := s.run("instance=b")
	b.says("cannot read the group's offsets yet")
	b.line("level=WARN", "cannot read the group's offsets yet", s.group, "UNSTABLE_OFFSET_COMMIT")
	a.kill()
	a = s.run()
	s.caughtUp(b)
	a.stop()
	b.stop()
	s.check()
}
