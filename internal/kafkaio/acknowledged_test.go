package kafkaio

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamdedup/streamdedup/pipeline"
)

var keyOffsetCommit = kmsg.NewPtrOffsetCommitRequest().Key()

// newAcknowledged is a scene of at-least-once.
func newAcknowledged(t *testing.T, brokers []string, partitions int) *scene {
	t.Helper()
	s := newScene(t, brokers, partitions)
	s.cfg.Delivery = AtLeastOnce
	return s
}

// atLeast fails unless each wanted ID came out, and nothing else; it returns how
// many came out once more than that.
func atLeast(t *testing.T, got, want map[string]int) (again int64) {
	t.Helper()
	first := map[string]int{}
	for id, n := range got {
		first[id] = 1
		again += int64(n - 1)
	}
	same(t, first, want)
	return again
}

// size is how many offsets the partitions of a topic have together.
func (s *scene) size(topic string) int64 {
	s.t.Helper()
	n := int64(0)
	for _, end := range extentsOf(s.t, s, topic).ends {
		n += end
	}
	return n
}

// While nothing fails, at-least-once gives each first copy once.
func TestAtLeastOnceWithoutFailures(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newAcknowledged(t, brokers, 3)
		s.unique(200)
		s.again()
		r := s.start()
		r.judged(1200)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		s.again() // known to the next process, too
		s.unique(50)
		r = s.start()
		s.caughtUp()
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// A process is killed between writing and committing, again and again. At-least-once
// writes again what it wrote, all of it and no more, unless the changelog says that
// it is written; exactly-once writes nothing again.
func TestCase_EOS_19(t *testing.T) {
	kills := 20
	if long() {
		kills = 200
	}
	for _, c := range []struct {
		name      string
		delivery  Delivery
		changelog bool
		commit    int16 // the request that never reaches the broker
		again     int64 // how often each record of a killed process comes out beside its first time
	}{
		{"at-least-once", AtLeastOnce, false, keyOffsetCommit, 1},
		{"at-least-once with changelog", AtLeastOnce, true, keyOffsetCommit, 0},
		{"exactly-once", ExactlyOnce, true, keyEndTxn, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			everyBroker(t, func(t *testing.T, brokers []string) {
				s := newScene(t, brokers, 2)
				s.cfg.Delivery, s.cfg.Changelog, s.rules.LogChanges = c.delivery, c.changelog, c.changelog
				// No cycle but those of killed processes is written again: not one either that
				// a loaded machine takes seconds for.
				s.cfg.CommitInterval, s.cfg.TxnTimeout = 20*time.Millisecond, time.Minute
				written := int64(0)
				for range kills {
					r := s.start()
					s.caughtUp() // and what the one before has left
					s.wire.set(func(key int16, _ int) fate {
						if key == c.commit {
							return loseRequest
						}
						return pass
					})
					before := s.size(s.cfg.Out)
					s.unique(5)
					// What is written when a commit is tried is one cycle, and stays alone.
					until(t, "a commit is tried", func() bool { return s.wire.losses() > 0 })
					written += s.size(s.cfg.Out) - before
					s.kill(r)
				}
				r := s.start()
				s.caughtUp()
				if err := r.finish(); err != nil {
					t.Fatal(err)
				}
				again := atLeast(t, s.output(s.cfg.Out), s.wanted())
				t.Logf("%d kills, %d records came out again", kills, again)
				if want := c.again * written; again != want {
					t.Errorf("%d records came out again, want the %d that killed processes wrote", again, want)
				}
			})
		})
	}
}

// Whatever message is lost, no record is.
func TestAtLeastOnceOnALossyWire(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		rng := random(t)
		rounds := 5
		if long() {
			rounds = 300
		}
		s := newAcknowledged(t, brokers, 3)
		s.cfg.TxnTimeout = 6 * time.Second
		r := s.start()
		for range rounds {
			s.wire.set(lossy(rng))
			s.unique(20)
			s.again()
			s.caughtUp()
		}
		s.wire.set(nil)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		again := atLeast(t, s.output(s.cfg.Out), s.wanted())
		t.Logf("%d records came out again; cycles by settlement: %v", again, r.engine.Snapshot().Settled)
	})
}

// A commit whose answer is lost is asked for again, and is no reason to write, or
// to restore, anything again.
func TestAtLeastOnceLosesAnswersOfCommits(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newAcknowledged(t, brokers, 2)
		r := s.start()
		s.unique(5)
		r.judged(10)
		for _, how := range []fate{loseAnswer, loseRequest} {
			s.wire.set(func(key int16, nth int) fate {
				if key == keyOffsetCommit && nth <= 8 {
					return how
				}
				return pass
			})
			s.unique(5)
			s.caughtUp()
		}
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
		if settled := r.engine.Snapshot().Settled; settled[pipeline.Aborted]+settled[pipeline.Lost] > 0 {
			t.Errorf("cycles by settlement: %v, want none undone", settled)
		}
	})
}

// A member that was thrown out between writing and committing has written its
// records, but commits nothing, and goes on as a new member.
func TestAtLeastOnceThrownOut(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newAcknowledged(t, brokers, 2)
		s.cfg.Instance = "a"
		s.unique(10)
		a := s.byHand()
		a.cycle(20)
		leave := kadm.LeaveGroup(s.cfg.Group).InstanceIDs("a") // as a stop beyond the session timeout does
		if _, err := kadm.NewClient(s.client()).LeaveGroup(ctx(t), leave); err != nil {
			t.Fatal(err)
		}
		other := s.cfg
		other.Instance = "b"
		b := s.startAs(other)
		b.judged(20)
		before := [2]committed{committedOf(t, s, 0), committedOf(t, s, 1)}
		if got := a.commit(); got.Settlement != pipeline.Lost {
			t.Errorf("the commit of a member that was thrown out: %+v, want lost", got)
		}
		if after := [2]committed{committedOf(t, s, 0), committedOf(t, s, 1)}; after != before {
			t.Errorf("the group's offsets are %+v after it, were %+v", after, before)
		}
		if err := b.finish(); err != nil {
			t.Fatal(err)
		}
		if again := atLeast(t, s.output(s.cfg.Out), s.wanted()); again != 20 {
			t.Errorf("%d records came out again, want the 20 that both wrote", again)
		}
	})
}

// Of two processes with one name the older ends and says which name; it commits
// nothing from the moment that the younger has joined.
func TestAtLeastOnceOfOneName(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newAcknowledged(t, brokers, 2)
		s.unique(10)
		older := s.byHand()
		older.cycle(20)
		s.rewire()
		younger := s.start()
		younger.judged(20)
		var positions []pipeline.Position
		for _, shard := range older.shards {
			positions = append(positions, shard.Position())
		}
		_, err := older.session.Commit(ctx(t), positions)
		if !errors.Is(err, pipeline.ErrFenced) || !strings.Contains(err.Error(), `instance "i" of group "`+s.cfg.Group) {
			t.Errorf("the older process ended with %v, want fenced and the name of the instance", err)
		}
		if err := younger.finish(); err != nil {
			t.Errorf("the younger process ended with %v", err)
		}
		atLeast(t, s.output(s.cfg.Out), s.wanted())
	})
}
