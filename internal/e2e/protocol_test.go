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

// hasten lets the coordinator miss a silent member of the group after seconds, where
// the brokers allow that; else the test waits for as long as they say.
func (s *scene) hasten() {
	s.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	const ofGroup = 32
	group := kmsg.NewIncrementalAlterConfigsRequestResource()
	group.ResourceType, group.ResourceName = ofGroup, s.group
	for name, value := range map[string]string{"consumer.session.timeout.ms": "6000", "consumer.heartbeat.interval.ms": "1000"} {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = name, kmsg.IncrementalAlterConfigOpSet, &value
		group.Configs = append(group.Configs, c)
	}
	req.Resources = append(req.Resources, group)
	resp, err := req.RequestWith(s.ctx(), s.client)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Resources[0].ErrorCode); err != nil {
		s.t.Logf("the brokers' own session timeout holds: %v", err)
	}
}

// TestConsumerProtocol: with assignments by the coordinator instances come and go, by
// a stop and by a crash, and a transaction aborts with every change. Who comes back
// after a crash waits, without a noise, until the session of the one before has ended.
func TestConsumerProtocol(t *testing.T) {
	s := newScene(t, 4, nil, nil)
	s.flags["group-protocol"] = "consumer"
	delete(s.flags, "session-timeout")
	s.hasten()
	p := newProxy(t, s.brokers[0])
	round := 0
	write := func() {
		for n := range s.partitions {
			s.ids(n, series(fmt.Sprintf("r%d-p%d-", round, n), 20)...)
			s.ids(n, fmt.Sprintf("r%d-p%d-3", round, n), fmt.Sprintf("r0-p%d-0", n))
		}
		round++
	}
	aborted := func(d *daemon) {
		before := d.undone()
		refused := p.refuse(kerr.PolicyViolation)
		write()
		refused.wait(t, d)
		s.caughtUp(d)
		if d.undone() <= before {
			t.Error("no transaction was undone: the test has lost its fault")
		}
	}
	a := s.run("brokers=" + p.address())
	a.ready(4)
	write()
	aborted(a)
	b := s.run("instance=b")
	b.ready(2)
	a.ready(2)
	aborted(a)
	b.stop()
	a.ready(4)
	aborted(a)

	b = s.run("instance=b")
	b.ready(2)
	write()
	b.kill() // in the middle of it, or before, or after
	began := time.Now()
	b = s.run("instance=b") // at once, while its predecessor is a member
	write()
	b.ready(2)
	s.caughtUp(b)
	t.Logf("killed and back after %v", time.Since(began).Round(time.Millisecond))
	if n := strings.Count(b.stderr.String(), "UNRELEASED_INSTANCE_ID"); n > 20 {
		t.Errorf("the wait is mentioned %d times", n)
	}
	b.line("level=INFO", "the process before us has not left the group", "group.consumer.session.timeout.ms")
	aborted(a)

	b.kill() // for good
	write()
	a.ready(4)
	aborted(a)
	a.stop()
	s.check()
}

// TestConsumerProtocolOfOneName: two processes of one name, where the group lets the
// second one wait: the transactional ID is its own from its start, so the first ends.
func TestConsumerProtocolOfOneName(t *testing.T) {
	s := newScene(t, 2, nil, nil)
	s.flags["group-protocol"] = "consumer"
	delete(s.flags, "session-timeout")
	s.hasten()
	old := s.run()
	old.ready(2)
	s.ids(0, "a", "b")
	s.caughtUp(old, 0)
	newer := s.run()
	newer.says("the process before us has not left the group")
	s.ids(0, "b", "c")
	s.ids(1, "d")
	old.ends(1)
	old.line("error: ", "transactional ID", s.group+"-a")
	s.caughtUp(newer)
	newer.stop()
	s.check()
}
