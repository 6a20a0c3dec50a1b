//go:build unix

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ago is an event of so long ago.
func ago(id string, by time.Duration) *kgo.Record {
	r := event(0, id)
	r.Timestamp = time.Now().Add(-by)
	return r
}

// TestLateFirstCopies: a first copy that is late, and that a policy takes out, teaches
// nothing, although the process dies when the broker has its cycle, or has committed
// it. The next copy comes out, and only the ones after it are duplicates.
func TestLateFirstCopies(t *testing.T) {
	for _, policy := range []string{"drop", "divert"} {
		for _, moment := range []kmsg.Request{kmsg.NewPtrProduceRequest(), kmsg.NewPtrEndTxnRequest()} {
			t.Run(fmt.Sprint(policy, " ", kmsg.NameForKey(moment.Key())), func(t *testing.T) {
				s := newScene(t, 1, nil, nil)
				s.odd("late")
				aside := settings{}.topic(t, s.brokers, 1)
				s.flags["on-late"], s.flags["divert-topic"] = policy, aside
				p := newProxy(t, s.brokers[0])
				d := s.run("brokers=" + p.address())
				s.ids(0, "clock")
				s.caughtUp(d)
				held := p.hold(moment)
				s.ids(0, "more") // so that there is something to write
				s.write(ago("x", 3*time.Hour), ago("y", 3*time.Hour))
				held.wait(t, d)
				d.kill()

				d = s.run()
				s.caughtUp(d)
				s.ids(0, "x", "x", "clock")
				s.caughtUp(d)
				d.kill()
				d = s.run()
				s.ids(0, "x", "y", "y")
				s.caughtUp(d)
				if sum := d.stop(); sum.Duplicate != 2 || sum.Unique != 1 {
					t.Errorf("%d duplicates and %d unique at the end, want 2 and 1", sum.Duplicate, sum.Unique)
				}
				s.check()
				want := 0
				if policy == "divert" {
					want = 2
				}
				if got := len(s.read(aside)[0]); got != want {
					t.Errorf("%d records were diverted, want %d", got, want)
				}
			})
		}
	}
}

// TestLateFirstCopyThatStops: with the policy to fail the partition stops before a late
// copy, also when it is started again. Without it that copy is the first.
func TestLateFirstCopyThatStops(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newSceneOn(t, brokers, 1, nil, nil)
		s.odd("late")
		s.ids(0, "clock")
		s.write(ago("x", 3*time.Hour))
		for range 2 {
			d := s.run("on-late=fail")
			d.ends(1)
			d.line("error: ", s.in+"/0", "offset 1", "late")
			d.line("hint: ", "--on-late pass")
			s.check()
		}
		s.ids(0, "x", "x") // the late one has the same bytes, and is the one that comes out
		d := s.run()
		s.caughtUp(d)
		if sum := d.stop(); sum.Duplicate != 2 || sum.Unique != 1 || sum.Late != 1 {
			t.Errorf("%d duplicates, %d unique and %d late, want 2, 1 and 1", sum.Duplicate, sum.Unique, sum.Late)
		}
		s.check()
	})
}

// TestCase_WIN_02: with --refresh an ID that is sent again all the time comes out once,
// whatever is killed and started in between; without it once in each window.
func TestCase_WIN_02(t *testing.T) {
	for _, refresh := range []string{"true", "false"} {
		t.Run("refresh="+refresh, func(t *testing.T) {
			s := newScene(t, 1, nil, nil)
			s.odd("jump")
			s.flags["refresh"] = refresh
			if refresh == "true" {
				s.flags["state-dir"] = "off" // by the changelog alone
			}
			// Ten hours of stream time, every half an hour, in a window of an hour.
			const step, repeats = 30 * time.Minute, 20
			var d *daemon
			for i := range repeats {
				if i%5 == 0 {
					if d != nil {
						d.kill()
					}
					d = s.run()
				}
				s.write(ago("alarm", step*time.Duration(repeats-i)))
				s.caughtUp(d)
			}
			d.stop()
			// The first comes out; after it one in each window of an hour and at most one
			// generation more, which is every third.
			got, least, most := len(s.read(s.out)[0]), repeats/3, repeats/2
			if refresh == "true" {
				least, most = 1, 1
			}
			if got < least || got > most {
				t.Errorf("the ID came out %d times, want %d to %d", got, least, most)
			}
		})
	}
}
