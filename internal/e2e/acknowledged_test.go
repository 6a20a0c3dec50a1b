//go:build unix

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// again checks that each value that must come out did, and nothing else, in order
// when only the first of each counts. It returns how many came once more than that.
func (s *scene) again() int {
	s.t.Helper()
	got := s.read(s.out)
	again := 0
	for p := range s.partitions {
		var first []string
		seen := map[string]bool{}
		for _, r := range got[p] {
			v := string(r.Value)
			if seen[v] {
				again++
				continue
			}
			seen[v] = true
			first = append(first, v)
		}
		if !slices.Equal(first, s.want[p]) {
			s.t.Errorf("partition %d of the output: %s", p, difference(first, s.want[p]))
		}
	}
	return again
}

// TestCase_EOS_19: a process is killed when the broker has its output, and nothing
// else of the cycle. With at-least-once all of that comes out again, and is counted
// here; with exactly-once none does. Nothing is lost in either. 200 kills in the long
// run.
func TestCase_EOS_19(t *testing.T) {
	kills := 20
	if long() {
		kills = 200
	}
	for _, delivery := range []string{"at-least-once", "exactly-once"} {
		t.Run(delivery, func(t *testing.T) {
			s := newScene(t, 1, nil, nil)
			s.flags["delivery"] = delivery
			for n := range kills {
				p := newProxy(t, s.brokers[0])
				d := s.run("brokers=" + p.address())
				d.ready(1)
				s.caughtUp(d)
				held := p.hold(kmsg.NewPtrProduceRequest())
				ids := series(fmt.Sprintf("id%d-", n), 5)
				s.ids(0, append(ids, ids[0], "id0-0")...)
				held.wait(t, d)
				d.kill()
			}
			d := s.run()
			s.caughtUp(d)
			d.stop()
			again := s.again()
			t.Logf("%d kills, %d records came out again", kills, again)
			if delivery == "exactly-once" && again > 0 {
				t.Errorf("%d records came out again", again)
			}
			if delivery == "at-least-once" && again < kills {
				t.Errorf("%d records came out again after %d kills: the test has lost its fault", again, kills)
			}
		})
	}
}

// TestAtLeastOnceAborts: a cycle whose writes the output refuses is read again, and
// loses nothing.
func TestAtLeastOnceAborts(t *testing.T) {
	s := newScene(t, 2, nil, nil)
	p := newProxy(t, s.brokers[0])
	s.flags["delivery"] = "at-least-once"
	d := s.run("brokers=" + p.address())
	d.ready(2)
	for n := range 5 {
		before := d.undone()
		refused := p.refuse(kerr.PolicyViolation)
		for part := range int32(2) {
			s.ids(part, series(fmt.Sprintf("id%d-", n), 20)...)
			s.ids(part, "id0-0")
		}
		refused.wait(t, d)
		s.caughtUp(d)
		if d.undone() <= before {
			t.Error("no cycle was undone: the test has lost its fault")
		}
	}
	if sum := d.stop(); sum.In != uint64(s.written) || sum.Out != 200 {
		t.Errorf("%d in and %d out, want %d and 200", sum.In, sum.Out, s.written)
	}
	t.Logf("%d records came out again", s.again())
}

// TestAtLeastOnceSleeper: a process sleeps when its output is written, until the
// group has given its partitions to another, which does the same work. When it wakes
// the group refuses its commit, and it goes on with what the group gives it.
func TestAtLeastOnceSleeper(t *testing.T) {
	s := newScene(t, 2, nil, nil)
	p := newProxy(t, s.brokers[0])
	s.flags["delivery"], s.flags["session-timeout"] = "at-least-once", "2s"
	a := s.run("brokers=" + p.address())
	s.sleepThrough(a, p, kmsg.NewPtrProduceRequest())
	// What a had written, and the rest of that cycle when it woke.
	if again := s.again(); again > 10 {
		t.Errorf("%d records came out again, want at most the 10 that both judged", again)
	}
}

// TestAtLeastOnceOfOneName: of two processes with one name the older ends and says
// which name that is, and the newer goes on.
func TestAtLeastOnceOfOneName(t *testing.T) {
	s := newScene(t, 2, nil, nil)
	s.flags["delivery"] = "at-least-once"
	old := s.run()
	old.ready(2)
	s.ids(0, "a", "b")
	s.caughtUp(old, 0)
	newer := s.run()
	began := time.Now()
	newer.ready(2)
	old.ends(1)
	t.Logf("the older ended after %v", time.Since(began).Round(time.Millisecond))
	if line := old.line("error: ", "was taken over by another process"); !strings.Contains(line, fmt.Sprintf("instance %q of group %q", "a", s.group)) {
		t.Errorf("the error %q does not name the instance", line)
	}
	old.line("hint: ", "--instance")
	s.ids(0, "b", "c")
	s.ids(1, "d")
	s.caughtUp(newer)
	newer.stop()
	if again := s.again(); again > 0 {
		t.Errorf("%d records came out again, want none: all was committed", again)
	}
}
