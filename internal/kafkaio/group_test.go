package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

// group opens the scene's group from outside.
func (s *scene) group() *Group {
	s.t.Helper()
	g, err := OpenGroup(ctx(s.t), GroupConfig{Brokers: s.brokers, Group: s.cfg.Group, Input: s.cfg.In[0], Logger: s.cfg.Logger})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(g.Close)
	return g
}

// account asks for a partition.
func (s *scene) account(partition int32) Account {
	s.t.Helper()
	a, err := s.group().Account(ctx(s.t), partition)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// TestGroupTellsItsState of one that does not exist, that runs, and that has
// ended.
func TestGroupTellsItsState(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		if a := s.account(0); a.Course != Begins || a.Committed != -1 || a.Log != nil || a.State != nil {
			t.Errorf("before the group has begun: %+v", a)
		}
		if members, err := s.group().Members(ctx(t)); err != nil || len(members) != 0 {
			t.Errorf("a group that does not exist has members %v, %v", members, err)
		}
		r := s.start()
		s.unique(20)
		s.caughtUp()
		members, err := s.group().Members(ctx(t))
		if err != nil || len(members) != 1 || members[0].Instance != "i" {
			t.Errorf("members %v, %v; want instance i", members, err)
		}
		for range 20 {
			s.unique(1) // so that it commits while it is looked at
			if a := s.account(0); a.Course != FromChangelog {
				t.Fatalf("while it runs: %v, %+v", a.Course, a)
			}
		}
		s.caughtUp()
		if err := s.group().CommitOffsets(ctx(t), map[int32]Place{0: {}}); err == nil {
			t.Error("an offset was committed beside a running member")
		}
		if err := s.group().DeleteOffsets(ctx(t), []int32{0}); err == nil {
			t.Error("offsets of a running group were deleted")
		}
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		a := s.account(1)
		if a.Course != FromChangelog || a.Refused != nil || a.Next != a.End || a.Committed != a.End || a.State == nil ||
			a.Log.Last == nil || a.Log.Last.Next != a.End || a.Settled() != nil {
			t.Errorf("after it has ended: %+v", a)
		}
		var hashes int
		err = s.group().Changes(ctx(t), 1, a.Log.Start, a.Log.Stable, func(_ int64, c *pipeline.Change, _ bool) error {
			for _, run := range c.Learned {
				hashes += len(run.Hashes)
			}
			return nil
		})
		if err != nil || hashes != s.next[1] {
			t.Errorf("the changelog has %d hashes, %v; want %d", hashes, err, s.next[1])
		}
	})
}

// TestGroupAwaitsMarkers: the group's offsets may have the end of a transaction before the
// changelog has. What is said of it then is what both say a moment later.
func TestGroupAwaitsMarkers(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.first(10)
		s.unique(5)
		// As a commit of which the group has its part.
		late := s.client(kgo.TransactionalID("late-"+s.cfg.Group), kgo.TransactionTimeout(10*time.Minute),
			kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err := late.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		change := lastOf(t, s.changes()).Change
		change.Begin, change.Next, change.Learned = 10, 15, nil
		r := &kgo.Record{Topic: ChangelogTopic(s.cfg.Group, s.cfg.In[0]), Value: change.AppendRecords(nil)[0]}
		if err := late.ProduceSync(ctx(t), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		commitAs(t, s, 15, change.State.Metadata())

		looked := make(chan struct{})
		s.wire.set(func(key int16, nth int) fate {
			if key == keyListOffsets && nth == 12 { // three for each look, and two before
				close(looked)
			}
			return pass
		})
		g, err := OpenGroup(ctx(t), GroupConfig{Brokers: brokers, Client: s.cfg.Client, Group: s.cfg.Group, Input: s.cfg.In[0], Logger: s.cfg.Logger})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.Close)
		ended := make(chan error, 1)
		go func() {
			<-looked
			ended <- late.EndTransaction(context.Background(), kgo.TryCommit)
		}()
		a, err := g.Account(ctx(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-looked:
		default:
			t.Fatalf("%v at %d: nobody waited for the markers", a.Course, a.Next)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if a.Course != FromChangelog || a.Next != 15 || a.Settled() != nil {
			t.Errorf("%v at %d, %v; want what the group has committed, from the changelog", a.Course, a.Next, a.Settled())
		}
	})
}

// TestGroupDropsItsState step by step: whatever was done last, a restart neither
// drops a first copy nor goes on without a word.
func TestGroupDropsItsState(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		r := s.start()
		s.unique(10)
		s.caughtUp()
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		g := s.group()
		if err := g.DeleteOffsets(ctx(t), []int32{0}); err != nil {
			t.Fatal(err)
		}
		if a := s.account(0); a.Course != OffsetsExpired || a.Next != 10 {
			t.Errorf("with its offsets gone: %v at %d", a.Course, a.Next)
		}
		r = s.start() // as after a crash
		s.unique(5)
		s.again()
		r.judged(20)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
		s.account(0) // the last transaction's markers are written

		for range 2 { // of a group without offsets, too
			if err := g.DeleteOffsets(ctx(t), []int32{0}); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.ClearChangelog(ctx(t), []int32{0}); err != nil {
			t.Fatal(err)
		}
		if a := s.account(0); a.Course != Begins || a.Log.Start != a.Log.End {
			t.Errorf("with all gone: %v, %+v", a.Course, a.Log)
		}
		r = s.start()
		r.judged(30)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		want := s.wanted()
		for id := range want {
			want[id] = 2 // all is emitted again
		}
		same(t, s.output(s.cfg.Out), want)
	})
}

// TestGroupIsTaught: what is appended to the changelog of a group that has not begun
// is known at its start, and nothing else is.
func TestGroupIsTaught(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.unique(10)
		extractor, err := keys.Parse(s.rules.Keys, s.rules.Seed, s.rules.IDs)
		if err != nil {
			t.Fatal(err)
		}
		var known []filter.Hash
		want := s.wanted()
		for i := range 4 {
			id := fmt.Sprintf("p0-%d", i)
			h, err := extractor.HashText([]byte(id))
			if err != nil {
				t.Fatal(err)
			}
			known = append(known, h)
			delete(want, id)
		}
		print, err := s.rules.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		m := time.Now().UnixMilli()
		state := pipeline.State{Fingerprint: print, Window: window.Taught(s.rules.Window.Slice(), m, m-1000, 0)}
		g := s.group()
		if err := g.EnsureChangelog(ctx(t)); err != nil {
			t.Fatal(err)
		}
		err = g.Append(ctx(t), 0, &pipeline.Change{State: state, Learned: []pipeline.Learned{
			{Rotation: state.Window.Rotation - 2, Until: m, Hashes: known[:2]}, {Rotation: state.Window.Rotation, Until: m, Hashes: known[2:]},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.CommitOffsets(ctx(t), map[int32]Place{0: {State: state}}); err != nil {
			t.Fatal(err)
		}
		if a := s.account(0); a.Course != FromChangelog || a.Next != 0 || a.Refused != nil {
			t.Errorf("%v at %d, %v", a.Course, a.Next, a.Refused)
		}
		r := s.start()
		r.judged(10)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), want)
	})
}

// TestGroupRefusesAStateOfALaterVersion, and says so instead of failing.
func TestGroupRefusesAStateOfALaterVersion(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		commitAs(t, s, 0, "streamdedup/9 whatever")
		if a := s.account(0); a.Course != Refuses || !errors.Is(a.Refused, pipeline.ErrForeignState) || a.Committed != 0 {
			t.Errorf("%v, %v", a.Course, a.Refused)
		}
	})
}
