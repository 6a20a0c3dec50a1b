//go:build unix

package e2e

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// moment is a point in the life of a process: the broker has done what this
// request asks for, and the process does not know it yet.
type moment struct {
	name    string
	request kmsg.Request
	// starting says that the process comes by before its first record.
	starting bool
}

var moments = []moment{
	{"InitProducerID", kmsg.NewPtrInitProducerIDRequest(), true},
	{"JoinGroup", kmsg.NewPtrJoinGroupRequest(), true},
	{"SyncGroup", kmsg.NewPtrSyncGroupRequest(), true},
	{"OffsetFetch", kmsg.NewPtrOffsetFetchRequest(), true},
	{"OffsetCommit", kmsg.NewPtrOffsetCommitRequest(), true},
	{"Fetch", kmsg.NewPtrFetchRequest(), true},
	{"Produce", kmsg.NewPtrProduceRequest(), false},
	{"TxnOffsetCommit", kmsg.NewPtrTxnOffsetCommitRequest(), false},
	{"EndTxn", kmsg.NewPtrEndTxnRequest(), false},
}

// at brings a process to the moment, with records to read.
func (m moment) at(t *testing.T, s *scene) (*daemon, *fault) {
	t.Helper()
	// Whoever waits for one of these waits longer than the test.
	s.flags["session-timeout"], s.flags["txn-timeout"] = "10m", "10m"
	p := newProxy(t, s.brokers[0])
	records := func() {
		for n := range int32(2) {
			s.ids(n, "a", "b", "c", "a", m.name)
		}
	}
	var held *fault
	if m.starting {
		held = p.hold(m.request)
	}
	d := s.run("brokers=" + p.address())
	if !m.starting {
		d.ready(2)
		records()
		s.caughtUp(d)
		held = p.hold(m.request)
		s.ids(0, "a", "second")
	}
	if m.starting {
		records()
	}
	held.wait(t, d)
	return d, held
}

// TestKilledAtAnyMoment: whenever a process dies, who starts in its place goes on
// at once.
func TestKilledAtAnyMoment(t *testing.T) {
	for _, m := range moments {
		t.Run(m.name, func(t *testing.T) {
			s := newScene(t, 2, nil, nil)
			d, _ := m.at(t, s)
			d.kill()
			began := time.Now()
			d = s.run()
			s.caughtUp(d)
			t.Logf("started to caught up: %v", time.Since(began).Round(time.Millisecond))
			s.ids(1, "a", "third")
			s.caughtUp(d)
			d.stop()
			s.check()
		})
	}
}

// TestReplacedAtAnyMoment: whenever a second process of the same name starts, one
// of the two ends with an error, and the other goes on: the newer, unless the
// older had not begun.
func TestReplacedAtAnyMoment(t *testing.T) {
	for _, m := range moments {
		t.Run(m.name, func(t *testing.T) {
			s := newScene(t, 2, nil, nil)
			older, held := m.at(t, s)
			newer := s.run()
			s.caughtUp(newer)
			held.let()
			lives, ends := newer, older
			select {
			case <-older.done:
			case <-newer.done:
				lives, ends = older, newer
			case <-time.After(limit):
				t.Fatal("both go on")
			}
			ends.ends(1)
			ends.line("error: ", "transactional ID", `"`+s.group+`-a"`)
			if lives != newer && !m.starting {
				t.Error("the newer process ended, want the older")
			}
			s.ids(0, "third")
			s.ids(1, "a", "third")
			s.caughtUp(lives)
			lives.stop()
			s.check()
		})
	}
}
