//go:build unix

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAborts lets every transaction abort once, for each of four reasons in turn:
// a write that is refused, a rebalance, a time-out, and another process that takes
// the name. The output is the same as without: first copies once, in order. 50
// transactions in the long run.
func TestAborts(t *testing.T) {
	rounds := 5
	if long() {
		rounds = 50
	}
	a := &aborts{scene: newScene(t, 2, nil, nil), random: rand.New(rand.NewPCG(seed(t), 2))}
	kinds := []struct {
		name  string
		abort func()
	}{{"refused", a.refused}, {"rebalance", a.rebalanced}, {"fenced", a.fenced}, {"timeout", a.timedOut}}
	for round := range rounds {
		kind := kinds[round%len(kinds)]
		began := time.Now()
		kind.abort()
		t.Logf("transaction %d: %s, done in %v", round, kind.name, time.Since(began).Round(time.Millisecond))
	}
	a.count(a.current.stop())
	a.check()
	if a.total.In != uint64(a.written) {
		t.Errorf("the processes committed %d records, want %d", a.total.In, a.written)
	}
	unique := 0
	for _, values := range a.want {
		unique += len(values)
	}
	if a.total.Unique != uint64(unique) || a.total.Out != uint64(unique) {
		t.Errorf("%d unique and %d out, want %d of both", a.total.Unique, a.total.Out, unique)
	}
}

// aborts is a stream whose transactions are made to abort.
type aborts struct {
	*scene
	random  *rand.Rand
	proxy   *proxy
	current *daemon
	total   runSummary // of the processes that have ended
	next    int        // the next ID
}

// launch starts a process behind a proxy of its own.
func (a *aborts) launch(flags ...string) (*daemon, *proxy) {
	p := newProxy(a.t, a.brokers[0])
	return a.run(append(flags, "brokers="+p.address())...), p
}

// restart puts another process in the place of the one that runs, if one does.
func (a *aborts) restart(flags ...string) {
	if a.current != nil {
		a.count(a.current.stop())
	}
	a.current, a.proxy = a.launch(flags...)
	a.current.ready(2)
}

func (a *aborts) count(sum runSummary) {
	a.total.In += sum.In
	a.total.Unique += sum.Unique
	a.total.Out += sum.Out
}

// batch writes new events, and repeats of them and of earlier ones.
func (a *aborts) batch() {
	for p := range int32(2) {
		ids := series(fmt.Sprintf("p%d-%d-", p, a.next), 20)
		for range 20 {
			ids = append(ids, fmt.Sprintf("p%d-%d-%d", p, a.random.IntN(a.next+1), a.random.IntN(20)))
		}
		a.ids(p, ids...)
	}
	a.next++
}

// aborted fails unless the process has undone a transaction since before.
func (a *aborts) aborted(before float64) {
	a.t.Helper()
	if a.current.undone() <= before {
		a.t.Error("no transaction was undone: the test has lost its fault")
	}
}

// refused: the output refuses the first write of the transaction. It begins with
// a process whose transactions live longer than those of a round before.
func (a *aborts) refused() {
	a.restart("txn-timeout=30s")
	before := a.current.undone()
	f := a.proxy.refuse(kerr.PolicyViolation)
	a.batch()
	f.wait(a.t, a.current)
	a.caughtUp(a.current)
	a.aborted(before)
}

// rebalanced: while the process waits for the broker, the group goes on without
// it, because another member has joined.
func (a *aborts) rebalanced() {
	before := a.current.undone()
	f := a.proxy.hold(kmsg.NewPtrProduceRequest())
	a.batch()
	f.wait(a.t, a.current)
	other := a.run("instance=b", "session-timeout=3s")
	await(a.t, "the group is stable with both", func() bool {
		groups, err := a.admin.DescribeGroups(a.ctx(), a.group)
		g := groups[a.group]
		return err == nil && g.State == "Stable" && len(g.Members) == 2
	}, other.done)
	f.let()
	a.caughtUp(a.current)
	a.aborted(before)
	a.count(other.stop())
	a.current.ready(2)
}

// fenced: a second process of the same name takes over in the middle of the
// transaction. The first ends, and says why.
func (a *aborts) fenced() {
	old, held := a.current, a.proxy.hold(kmsg.NewPtrProduceRequest())
	a.batch()
	held.wait(a.t, old)
	a.current, a.proxy = a.launch("txn-timeout=2s")
	a.caughtUp(a.current)
	held.let()
	old.ends(1)
	id := a.group + "-a"
	if line := old.line("error: ", "transactional ID"); !strings.Contains(line, `"`+id+`"`) {
		a.t.Errorf("the error %q does not name the transactional ID %q", line, id)
	}
	a.count(old.summary())
}

// timedOut: the process sleeps in the middle of the transaction until the
// coordinator has ended it.
func (a *aborts) timedOut() {
	before := a.current.undone()
	f := a.proxy.hold(kmsg.NewPtrProduceRequest())
	a.batch()
	f.wait(a.t, a.current)
	a.current.signal(syscall.SIGSTOP)
	f.let()
	id := a.group + "-a"
	await(a.t, "the coordinator ends the transaction", func() bool {
		described, err := a.admin.DescribeTransactions(a.ctx(), id)
		return err == nil && described[id].Err == nil && described[id].State == "CompleteAbort"
	}, a.current.done)
	a.current.signal(syscall.SIGCONT)
	a.caughtUp(a.current)
	a.aborted(before)
}
