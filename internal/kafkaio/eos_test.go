package kafkaio

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// Records of an aborted transaction, which nobody waited for, never come out, also
// where the broker is slow to take them.
func TestCase_EOS_02(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		for _, how := range []fate{pass, slow} {
			s := newScene(t, brokers, 2)
			s.wire.set(func(key int16, _ int) fate {
				if key == keyProduce {
					return how
				}
				return pass
			})
			s.unique(100)
			h := s.byHand()
			for range 2 {
				h.cycle(200)
				if err := h.session.client().Flush(ctx(t)); err != nil {
					t.Fatal(err)
				}
				h.abort()
				h.cycle(200)
				h.abort() // and one whose records are still on their way
			}
			h.cycle(200)
			if got := h.commit(); got.Settlement != pipeline.Committed {
				t.Fatalf("commit: %+v", got)
			}
			same(t, s.output(s.cfg.Out), s.wanted())
			all := 0
			for _, n := range extentsOf(t, s, s.cfg.Out).ends {
				all += int(n)
			}
			if all < 200+100 {
				t.Errorf("the output's log has %d offsets: the test has aborted nothing", all)
			}
		}
	})
}

func extentsOf(t *testing.T, s *scene, topic string) extent {
	t.Helper()
	e, err := extentOf(ctx(t), s.client(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A process that is killed in a transaction and restarted goes on at once: the
// transaction timeout is longer than the test may take.
func TestCase_EOS_04(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.cfg.TxnTimeout = 10 * time.Minute
		s.unique(100)
		first, err := Open(ctx(t), s.cfg)
		if err != nil {
			t.Fatal(err)
		}
		h := &hand{t: t, session: first, rules: s.rules,
			shards: map[pipeline.Partition]*pipeline.Shard{}, epochs: map[pipeline.Partition]uint64{}}
		h.cycle(200)
		if err := first.client().Flush(ctx(t)); err != nil {
			t.Fatal(err)
		}
		s.wire.cut()
		s.rewire()
		r := s.start()
		r.judged(200)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
		first.watcher.close()
		first.client().CloseAllowingRebalance()
		first.admin.Close()
	})
}

// Of two processes with one name the older ends and says which name.
func TestCase_EOS_05(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.unique(100)
		older := s.start()
		older.judged(200)
		younger := s.start()
		s.unique(100)
		var err error
		select {
		case err = <-older.end:
			close(older.end)
		case <-time.After(limit):
			t.Fatal("the older process goes on")
		}
		if !errors.Is(err, pipeline.ErrFenced) || !strings.Contains(err.Error(), s.cfg.transactionalID()) {
			t.Errorf("the older process ended with %v, want fenced and the name %s", err, s.cfg.transactionalID())
		}
		s.caughtUp()
		s.again()
		s.caughtUp()
		if err := younger.finish(); err != nil {
			t.Errorf("the younger process ended with %v", err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// An older process that hears nothing of the broker until its time is over does not
// take the name back from the younger.
func TestFencedWithoutHearingOfIt(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.cfg.TxnTimeout = 2 * time.Second
		s.unique(10)
		s.wire.set(func(key int16, _ int) fate {
			if key == keyProduce {
				return loseAnswer
			}
			return pass
		})
		older := s.byHand()
		older.cycle(20)
		s.rewire()
		younger := s.start()
		younger.judged(20)
		var positions []pipeline.Position
		for _, shard := range older.shards {
			positions = append(positions, shard.Position())
		}
		if _, err := older.session.Commit(ctx(t), positions); !errors.Is(err, pipeline.ErrFenced) {
			t.Errorf("the older process ended with %v, want fenced", err)
		}
		s.unique(10)
		younger.judged(40)
		if err := younger.finish(); err != nil {
			t.Errorf("the younger process ended with %v", err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// A produce request that reaches the broker when its transaction is over, and the
// next has begun, is in neither.
func TestCase_EOS_07(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		for _, commits := range []bool{true, false} {
			s := newScene(t, brokers, 2)
			s.wire.set(func(key int16, nth int) fate {
				if key == keyProduce && nth == 1 {
					return loseRequest
				}
				return pass
			})
			s.unique(50)
			h := s.byHand()
			h.cycle(100)
			if err := h.session.client().Flush(ctx(t)); err != nil {
				t.Fatal(err)
			}
			if commits {
				h.commit()
				s.unique(50)
			} else {
				h.abort()
			}
			if n := s.wire.arrive(t, brokers[0]); n == 0 { // before the first of the next
				t.Fatal("nothing was late")
			}
			h.cycle(100)
			if err := h.session.client().Flush(ctx(t)); err != nil {
				t.Fatal(err)
			}
			s.wire.arrive(t, brokers[0]) // and in it
			// A broker with transaction.version 1 may count from the late request on, and
			// refuse ours for their order; then they come once more.
			if got := h.commit(); got.Settlement != pipeline.Committed {
				t.Logf("commit: %v, %v", got.Settlement, got.Cause)
				h.cycle(100)
				if got := h.commit(); got.Settlement != pipeline.Committed {
					t.Fatalf("commit again: %+v", got)
				}
			}
			same(t, s.output(s.cfg.Out), s.wanted())
		}
	})
}

// A stream of nothing but duplicates moves on, and an abort with nothing to
// abort harms nobody.
func TestCase_EOS_08(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.unique(50)
		h := s.byHand()
		h.cycle(100)
		h.commit()
		for range 3 {
			s.again()
			// The broker may ask for another try while it finishes the last one.
			for settlement := pipeline.Aborted; settlement == pipeline.Aborted; {
				h.cycle(100)
				settlement = h.commit().Settlement
			}
			s.caughtUp()
			h.abort()
		}
		s.unique(50)
		h.cycle(100)
		if got := h.commit(); got.Settlement != pipeline.Committed {
			t.Fatalf("commit after an empty abort: %+v", got)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// A transaction that outlives its timeout is done again, and is no reason to
// believe in a rival.
func TestCase_EOS_09(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.cfg.TxnTimeout = 6 * time.Second
		s.unique(50)
		h := s.byHand()
		h.cycle(100)
		if err := h.session.client().Flush(ctx(t)); err != nil {
			t.Fatal(err)
		}
		adm := kadm.NewClient(s.client())
		until(t, "the broker gives the transaction up", func() bool {
			described, err := adm.DescribeTransactions(ctx(t), s.cfg.transactionalID())
			if err != nil {
				t.Fatal(err)
			}
			state := described[s.cfg.transactionalID()].State
			return state != "Ongoing" && state != "PrepareAbort"
		})
		until(t, "the time is over by our clock too", func() bool { return time.Since(h.session.cycle.since) >= s.cfg.TxnTimeout })
		if got := h.commit(); got.Settlement == pipeline.Committed {
			t.Fatalf("commit after the timeout: %+v", got)
		}
		h.cycle(100)
		if got := h.commit(); got.Settlement != pipeline.Committed {
			t.Fatalf("commit again: %+v", got)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
	t.Run("above the broker's maximum", func(t *testing.T) {
		s := newScene(t, kafkatest.Brokers(t), 1)
		s.cfg.TxnTimeout = time.Hour
		_, err := Open(ctx(t), s.cfg)
		if err == nil || !strings.Contains(err.Error(), "1h0m0s") || !strings.Contains(err.Error(), "15m0s") {
			t.Errorf("open with a timeout of an hour: %v, want both values", err)
		}
	})
}

// Aborted records teach nothing, markers are passed, and a position may lie
// between an aborted record and its marker.
func TestCase_EOS_11(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		upstream := s.client(kgo.TransactionalID("upstream-"+s.cfg.Group), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		transaction := func(commit kgo.TransactionEndTry, ids ...string) {
			t.Helper()
			if err := upstream.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				if err := upstream.ProduceSync(ctx(t), s.record(0, id)).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			if err := upstream.EndTransaction(ctx(t), commit); err != nil {
				t.Fatal(err)
			}
		}
		transaction(kgo.TryAbort, "x", "y") // 0, 1, marker 2
		transaction(kgo.TryCommit, "x")     // 3, marker 4
		transaction(kgo.TryAbort, "z")      // 5, marker 6
		want := map[string]int{"x": 1}

		r := s.start()
		s.caughtUp() // also past the markers at the end
		until(t, "the lag is none", func() bool { return behind(r.session) == 0 })
		transaction(kgo.TryCommit, "y", "z", "x") // 7, 8, 9, marker 10
		want["y"], want["z"] = 1, 1
		s.caughtUp()
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), want)

		// Between the last aborted record and its marker.
		transaction(kgo.TryAbort, "w") // 11, marker 12
		metadata := committedOf(t, s, 0).metadata
		commitAs(t, s, 12, metadata)
		r = s.start()
		transaction(kgo.TryCommit, "w", "x")
		want["w"] = 1
		s.caughtUp()
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), want)
	})
}

func committedOf(t *testing.T, s *scene, partition int32) committed {
	t.Helper()
	return s.committed(pipeline.Partition{Topic: s.cfg.In[0], Number: partition})
}

// committed is what the group has of a partition, once no transaction that has ended
// can still change it: its markers are written after it was answered for.
func (s *scene) committed(p pipeline.Partition) committed {
	s.t.Helper()
	session := &Session{cfg: s.cfg, admin: s.client(), warn: newWarner(s.cfg.Logger)}
	got, err := session.committed(ctx(s.t), p)
	if err != nil {
		s.t.Fatal(err)
	}
	return got.of(p)
}

// commitAs commits an offset of partition 0 as an operator would, with no member
// in the group.
func commitAs(t *testing.T, s *scene, next int64, metadata string) {
	t.Helper()
	os := kadm.Offsets{}
	os.Add(kadm.Offset{Topic: s.cfg.In[0], Partition: 0, At: next, LeaderEpoch: -1, Metadata: metadata})
	adm := kadm.NewClient(s.client())
	// A member that left while it was joining is one for a moment more.
	until(t, "the offset is committed", func() bool {
		err := adm.CommitAllOffsets(ctx(t), s.cfg.Group, os)
		if err != nil && !errors.Is(err, kerr.UnknownMemberID) {
			t.Fatalf("commit offset %d: %v", next, err)
		}
		return err == nil
	})
}

// A member that was thrown out between reading and committing does not commit:
// the records are the next owner's.
func TestCase_EOS_12(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.cfg.Instance = "a"
		s.unique(10)
		a := s.byHand()
		a.cycle(20)

		// What a stop beyond the session timeout does.
		leave := kadm.LeaveGroup(s.cfg.Group).InstanceIDs("a")
		if _, err := kadm.NewClient(s.client()).LeaveGroup(ctx(t), leave); err != nil {
			t.Fatal(err)
		}
		other := s.cfg
		other.Instance = "b"
		b := s.startAs(other)
		b.judged(20)
		if got := a.commit(); got.Settlement == pipeline.Committed {
			t.Fatalf("the commit of a member that was thrown out: %+v", got)
		}
		until(t, "the member that was thrown out hears of it", func() bool {
			a.poll()
			a.session.Release()
			return a.lost >= 2 || len(a.shards) == 0
		})
		if err := b.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}
