//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// blockade keeps writes from the output for a while.
type blockade struct {
	name  string
	begin func(*proxy) *fault
}

var blockades = []blockade{
	{"refused", func(p *proxy) *fault { return p.refuseAll(kerr.NotEnoughReplicas) }},
	{"no answer", func(p *proxy) *fault { return p.holdAll(kmsg.NewPtrProduceRequest()) }},
}

// TestCase_EOS_09: an output that is blocked for several transaction time-outs costs
// transactions and no record: what was in them is read again. 60 seconds in the long
// run. The other two parts of the case stand in internal/kafkaio.
func TestCase_EOS_09(t *testing.T) {
	t.Parallel()
	outage := 6 * time.Second
	if long() {
		outage = time.Minute
	}
	for _, block := range blockades {
		t.Run(block.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, 2, nil, nil)
			p := newProxy(t, s.brokers[0])
			s.flags["brokers"], s.flags["txn-timeout"] = p.address(), "2s"
			d := s.run()
			d.ready(2)
			s.ids(0, "before")
			s.caughtUp(d)
			block.begin(p)
			for n := range int32(2) {
				s.ids(n, append(series("id", 500), series("id", 100)...)...)
			}
			await(t, "a transaction is undone", func() bool { return d.undone() >= 1 }, d.done)
			time.Sleep(outage) // it is the outage, and not a wait for luck
			p.heal()
			s.ids(0, "after", "before")
			s.caughtUp(d)
			t.Logf("%v transactions were undone", d.undone())
			if sum := d.stop(); sum.In != uint64(s.written) {
				t.Errorf("%d records were committed, want %d", sum.In, s.written)
			}
			s.check()
		})
	}
}

// TestOutputBlocked: while the output is blocked and the input grows, what is in use of
// the memory stays as it is (what the process takes is the collector's to say), and the group its members, who keep what they know. Then the stream goes on.
// 10 minutes in the long run.
func TestOutputBlocked(t *testing.T) {
	t.Parallel()
	outage := 12 * time.Second
	if long() {
		outage = 10 * time.Minute
	}
	const most = 50_000 // records of a partition while it is blocked
	for _, block := range blockades {
		t.Run(block.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, 2, nil, nil)
			p := newProxy(t, s.brokers[0])
			s.flags["brokers"], s.flags["capacity"] = p.address(), "1M"
			if block.name == "refused" {
				s.flags["txn-timeout"] = "10s" // some transactions, each with time to be undone
			}
			d := s.run()
			d.ready(2)
			const step = 5000 // fits into a batch
			for n := range int32(2) {
				for len(s.want[n]) < most {
					s.ids(n, series(fmt.Sprintf("%d-", len(s.want[n])), step)...)
				}
			}
			s.caughtUp(d)
			members := s.members()
			fault := block.begin(p)
			var memory []float64
			for began := time.Now(); time.Since(began) < outage; {
				for n := range int32(2) {
					if len(s.want[n]) < 2*most {
						s.ids(n, series(fmt.Sprintf("%d-", len(s.want[n])), step)...)
					}
				}
				time.Sleep(outage / 24) // a sample, and not a wait
				memory = append(memory, d.heap())
				if got := s.members(); got != members {
					t.Fatalf("the group's members were %s, now they are %s", members, got)
				}
			}
			fault.wait(t, d)
			half := len(memory) / 2
			before, after := highest(memory[:half]), highest(memory[half:])
			t.Logf("memory: at most %.0f MiB in the first half, %.0f MiB in the second; %v transactions undone", before/(1<<20), after/(1<<20), d.undone())
			if after > 1.2*before+(64<<20) {
				t.Errorf("memory grows: %.0f MiB at most in the first half, %.0f MiB in the second", before/(1<<20), after/(1<<20))
			}
			if block.name == "refused" && outage > 2*time.Minute {
				d.line("level=ERROR", "nothing was committed", "lag=")
				if _, page := d.get("/healthz"); !strings.HasPrefix(page, "degraded: 2 partitions standing still\n") {
					t.Errorf("health is %s", page)
				}
			}
			p.heal()
			for n := range int32(2) {
				s.ids(n, "0-0", "after")
			}
			s.caughtUp(d)
			// Whoever gets no answer for longer than a transaction may last starts a new
			// client, which takes the old one's place in the group. The next may come before
			// a partition has its memory.
			replaced := d.metric("streamdedup_transactions_total", `outcome="lost"`)
			if restores := d.metric("streamdedup_restore_seconds_count"); restores > 2*(1+replaced) {
				t.Errorf("partitions were restored %v times with %v new clients: they were not kept", restores, replaced)
			}
			if block.name == "refused" && replaced != 0 {
				t.Errorf("%v clients were replaced although the broker answers", replaced)
			}
			if sum := d.stop(); sum.In != uint64(s.written) {
				t.Errorf("%d records were committed, want %d", sum.In, s.written)
			}
			s.check()
		})
	}
}

func highest(samples []float64) float64 {
	most := 0.0
	for _, v := range samples {
		most = max(most, v)
	}
	return most
}

// members are the group's state and its instances.
func (s *scene) members() string {
	s.t.Helper()
	groups, err := s.admin.DescribeGroups(s.ctx(), s.group)
	if err != nil {
		s.t.Fatal(err)
	}
	group := groups[s.group]
	text := group.State
	for _, m := range group.Members {
		if m.InstanceID != nil {
			text += " " + *m.InstanceID
		}
	}
	return text
}

// TestCase_EOS_17: the output must have the input's partitions. One partition of it
// that fails for a while fails the whole transaction, which is done again: no
// duplicates, and each partition in its order.
func TestCase_EOS_17(t *testing.T) {
	t.Parallel()
	t.Run("another count", func(t *testing.T) {
		s := newScene(t, 6, nil, nil)
		four := settings{}.topic(t, s.brokers, 4)
		d := s.run("out=" + four)
		d.ends(1)
		d.line("error: ", four, "has 4 partitions", s.in, "has 6")
		d.line("hint: ", "partition count")
	})
	for _, with := range []*kerr.Error{kerr.NotEnoughReplicas, kerr.PolicyViolation} {
		t.Run(with.Message, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, 3, nil, nil)
			p := newProxy(t, s.brokers[0])
			s.flags["brokers"], s.flags["txn-timeout"] = p.address(), "2s"
			d := s.run()
			d.ready(3)
			s.ids(0, "before")
			s.caughtUp(d)
			failed := p.refusePartition(1, with)
			next := 0
			write := func() {
				for n := range int32(3) {
					s.ids(n, append(series(fmt.Sprintf("p%d-%d-", n, next), 50), "before", fmt.Sprintf("p%d-0-0", n))...)
				}
				next++
			}
			write()
			failed.wait(t, d)
			for began := time.Now(); time.Since(began) < 5*time.Second; {
				write()
				time.Sleep(250 * time.Millisecond) // a stream, not a flood
			}
			await(t, "transactions are undone", func() bool { return d.undone() >= 2 }, d.done)
			p.heal()
			write()
			s.caughtUp(d)
			d.stop()
			s.check()
			// The partitions that did not fail were written in vain, too.
			for n := range int32(3) {
				if n != 1 && s.offsets(s.out, n) < int64(len(s.want[n]))+50 {
					t.Errorf("partition %d of the output has %d offsets: no transaction was replayed", n, s.offsets(s.out, n))
				}
			}
		})
	}
}

// offsets is how many offsets a partition has used, markers and what was aborted
// included.
func (s *scene) offsets(topic string, partition int32) int64 {
	s.t.Helper()
	ends, err := s.admin.ListEndOffsets(s.ctx(), topic)
	if err != nil {
		s.t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, partition)
	return end.Offset
}
