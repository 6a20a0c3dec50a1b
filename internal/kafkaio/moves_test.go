package kafkaio

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// checked is a session that gives up its first commit and one in ten after it, and fails
// the test where a batch does not follow the one before it, or the group's committed
// offset.
type checked struct {
	*Session
	t      *testing.T
	random *rand.Rand
	aborts int

	next, committed map[pipeline.Partition]int64
}

func (c *checked) Poll(ctx context.Context, wait time.Duration) (pipeline.Polled, error) {
	polled, err := c.Session.Poll(ctx, wait)
	for _, p := range polled.Lost {
		delete(c.next, p)
	}
	for _, b := range polled.Batches {
		if next, ours := c.next[b.Partition]; !ours || b.First != next {
			c.t.Errorf("a batch of %s begins at %d, the one before it ended at %d (ours: %t)", b.Partition, b.First, next, ours)
		}
		c.next[b.Partition] = b.Next
	}
	return polled, err
}

func (c *checked) Resume(p pipeline.Partition, next int64) uint64 {
	got, err := c.Session.committed(context.Background(), p)
	if err != nil {
		c.t.Error(err)
	}
	// Where it is not ours any more, the next owner may have moved on.
	if at := got.of(p).next; at != next && c.member.Load().ours(p) {
		c.t.Errorf("reading of %s begins at %d, the group has %d", p, next, at)
	}
	c.next[p], c.committed[p] = next, next
	return c.Session.Resume(p, next)
}

func (c *checked) Commit(ctx context.Context, positions []pipeline.Position) (pipeline.CommitResult, error) {
	if c.aborts == 0 || c.random.IntN(10) == 0 {
		c.aborts++
		return c.Abort(ctx)
	}
	result, err := c.Session.Commit(ctx, positions)
	if result.Settlement == pipeline.Committed {
		for _, at := range positions {
			c.committed[at.Partition] = at.Next
		}
	}
	c.settled(result)
	return result, err
}

// Abort is the engine's own, too: of a cycle that lost a partition half-way.
func (c *checked) Abort(ctx context.Context) (pipeline.CommitResult, error) {
	result, err := c.Session.Abort(ctx)
	c.settled(result)
	return result, err
}

// settled notes where reading goes on.
func (c *checked) settled(result pipeline.CommitResult) {
	switch result.Settlement {
	case pipeline.Aborted:
		for p := range result.Epochs {
			c.next[p] = c.committed[p]
		}
	case pipeline.Lost:
		clear(c.next)
	}
	for _, p := range result.Gone {
		delete(c.next, p)
	}
}

// flowing writes to all partitions, new IDs and the latest ones again, until it is told
// to stop and has stopped. It may last for minutes.
func (s *scene) flowing() (stop func()) {
	var once sync.Once
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			s.unique(1)
			s.latest(50)
			time.Sleep(20 * time.Millisecond) // a stream, not a flood
		}
	}()
	stop = func() { once.Do(func() { cancel(); <-done }) }
	s.t.Cleanup(stop)
	return stop
}

// Instances come and go while records flow and one transaction in ten is given up.
// Every batch follows the one before it, or the committed offset, and the output is
// exact. Five minutes in the long run.
func TestCase_EOS_01_ThroughRebalances(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		const partitions = 12
		s := newScene(t, brokers, partitions)
		rng := random(t)
		var sessions []*checked
		s.around = func(session *Session, r pipeline.Restorer) (pipeline.Session, pipeline.Restorer) {
			c := &checked{Session: session, t: t, random: rand.New(rand.NewPCG(rng.Uint64(), 1)),
				next: map[pipeline.Partition]int64{}, committed: map[pipeline.Partition]int64{}}
			sessions = append(sessions, c)
			return c, r
		}
		a := s.start()
		stop := s.flowing()
		other := s.cfg
		other.Instance = "other"
		for round, began := 0, time.Now(); round < 4 || long() && time.Since(began) < 5*time.Minute; round++ {
			b := s.startAs(other)
			until(t, "the other has partitions and gives verdicts", func() bool {
				snapshot := b.engine.Snapshot()
				return len(snapshot.Partitions) == partitions/2 && snapshot.Ready() && snapshot.Counts.In > 0
			})
			if err := b.finish(); err != nil {
				t.Fatal(err)
			}
			until(t, "all is back", func() bool {
				snapshot := a.engine.Snapshot()
				return len(snapshot.Partitions) == partitions && snapshot.Ready()
			})
		}
		stop()
		s.again()
		s.caughtUp()
		if err := a.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
		aborts := 0
		for _, c := range sessions {
			aborts += c.aborts
		}
		if aborts == 0 {
			t.Error("no transaction was given up: the test has lost its fault")
		}
		t.Logf("%d transactions were given up; those of the first by settlement: %v", aborts, a.engine.Snapshot().Settled)
	})
}

// restores counts how often each partition was restored.
type restores struct {
	pipeline.Restorer
	mu sync.Mutex
	of map[pipeline.Partition]int
}

func (r *restores) Restore(ctx context.Context, p pipeline.Partition, b pipeline.Builder) (pipeline.Restored, error) {
	r.mu.Lock()
	r.of[p]++
	r.mu.Unlock()
	return r.Restorer.Restore(ctx, p, b)
}

// A partition goes to another, who judges 1,000 records, and comes back: it is
// restored, and what the other has seen is known. Its old memory would let that pass.
func TestCase_EOS_13(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		count := &restores{of: map[pipeline.Partition]int{}}
		s.around = func(session *Session, r pipeline.Restorer) (pipeline.Session, pipeline.Restorer) {
			count.Restorer = r
			return session, count
		}
		s.unique(100)
		a := s.start()
		a.judged(200)
		s.around = nil
		other := s.cfg
		other.Instance = "b"
		b := s.startAs(other)
		var moved pipeline.Partition
		until(t, "each has a partition", func() bool {
			of := b.engine.Snapshot().Partitions
			if len(of) == 1 {
				moved = of[0].Partition
			}
			return len(of) == 1 && of[0].Restored && len(a.engine.Snapshot().Partitions) == 1
		})
		left := time.Now()
		s.unique(1000)
		b.judged(1000)
		if err := b.finish(); err != nil {
			t.Fatal(err)
		}
		until(t, "both are back", func() bool {
			snapshot := a.engine.Snapshot()
			return len(snapshot.Partitions) == 2 && snapshot.Ready()
		})
		t.Logf("%s was away for %v", moved, time.Since(left).Round(time.Millisecond))
		s.again()
		s.caughtUp()
		if err := a.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
		stayed := pipeline.Partition{Topic: moved.Topic, Number: 1 - moved.Number}
		if count.of[moved] != 2 || count.of[stayed] != 1 {
			t.Errorf("%s was restored %d times, and %s %d times; want 2, and once the one that stayed",
				moved, count.of[moved], stayed, count.of[stayed])
		}
	})
}

// A partition that was paused, and was taken away and given back, is read again: a
// pause of an earlier assignment is none of this one's.
func TestCase_EOS_14(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 4)
		s.cfg.Instance = "a"
		h := s.byHand()
		h.assigned(4)
		paused := pipeline.Partition{Topic: s.cfg.In[0], Number: 3}
		h.session.Halt(paused)
		s.unique(10)
		h.cycle(30)
		h.commit()
		for range 3 {
			for _, b := range h.poll() {
				t.Fatalf("a batch of %s came although it is paused, or once too often", b.Partition)
			}
			h.session.Release()
		}

		// As a silence beyond the session timeout.
		leave := kadm.LeaveGroup(s.cfg.Group).InstanceIDs("a")
		if _, err := kadm.NewClient(s.client()).LeaveGroup(ctx(t), leave); err != nil {
			t.Fatal(err)
		}
		other := s.cfg
		other.Instance = "b"
		b := s.startAs(other)
		until(t, "the partitions are shared", func() bool {
			h.turn()
			snapshot := b.engine.Snapshot()
			return h.lost >= 4 && len(h.shards) == 2 && len(snapshot.Partitions) == 2 && snapshot.Ready()
		})
		if err := b.finish(); err != nil {
			t.Fatal(err)
		}
		until(t, "all are back", func() bool {
			h.turn()
			return len(h.shards) == 4
		})
		s.unique(10)
		back := time.Now()
		until(t, "the records of all four are committed", func() bool {
			h.turn()
			got, err := h.session.committed(ctx(t))
			for p := range int32(4) {
				if err != nil || got.of(pipeline.Partition{Topic: s.cfg.In[0], Number: p}).next < 20 {
					return false
				}
			}
			return true
		})
		t.Logf("they were after %v", time.Since(back).Round(time.Millisecond))
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// Records that the client had when all was paused are not judged, polls go on, and
// reading goes on where it ended. An engine whose workers have all they can hold
// goes on, too.
func TestCase_EOS_15(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 3)
		h := s.byHand()
		h.assigned(3)
		s.unique(200)
		h.cycle(1) // and what comes with it; the rest is in the client, or on its way
		for p := range h.shards {
			h.session.Halt(p)
		}
		h.commit()
		s.unique(200)
		for range 10 {
			for _, b := range h.poll() {
				t.Errorf("%d records of %s from %d came after the pause", len(b.Records), b.Partition, b.First)
			}
			h.session.Release()
		}
		left := 3 * 400
		for p, shard := range h.shards {
			next := shard.Position().Next
			left -= int(next)
			h.epochs[p] = h.session.Resume(p, next)
		}
		h.cycle(left)
		h.commit()
		same(t, s.output(s.cfg.Out), s.wanted())
	})
	t.Run("full workers", func(t *testing.T) {
		const partitions = 80 // more batches in a poll than a worker's ring has places
		s := newScene(t, kafkatest.Fake(t, kfake.NumBrokers(1)).ListenAddrs(), partitions)
		s.unique(20)
		r := s.start()
		r.judged(20 * partitions)
		s.again()
		r.judged(40 * partitions)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// held is a restorer that waits.
type held struct {
	pipeline.Restorer
	until <-chan struct{}
}

func (r held) Restore(ctx context.Context, p pipeline.Partition, b pipeline.Builder) (pipeline.Restored, error) {
	select {
	case <-r.until:
	case <-ctx.Done():
		return pipeline.Restored{}, ctx.Err()
	}
	return r.Restorer.Restore(ctx, p, b)
}

// A restore that takes longer than a transaction may last holds none open: there is
// none before the first record. Two minutes in the long run.
func TestCase_EOS_09_Restore(t *testing.T) {
	// Of the transaction itself a loaded machine may take seconds.
	const lasts = 10 * time.Second
	takes := lasts + 2*time.Second
	if long() {
		takes = 2 * time.Minute
	}
	everyBroker(t, func(t *testing.T, brokers []string) {
		t.Parallel()
		s := newScene(t, brokers, 1)
		s.cfg.TxnTimeout = lasts
		restored := make(chan struct{})
		s.around = func(session *Session, r pipeline.Restorer) (pipeline.Session, pipeline.Restorer) {
			return session, held{r, restored}
		}
		s.unique(100)
		r := s.start()
		adm := kadm.NewClient(s.client())
		for began := time.Now(); time.Since(began) < takes; time.Sleep(50 * time.Millisecond) {
			described, err := adm.DescribeTransactions(ctx(t), s.cfg.transactionalID())
			if err != nil {
				t.Fatal(err)
			}
			if state := described[s.cfg.transactionalID()].State; state == "Ongoing" {
				t.Fatal("a transaction is open while the partition is restored")
			}
		}
		close(restored)
		r.judged(100)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		if undone := r.engine.Snapshot().Settled; undone[pipeline.Aborted]+undone[pipeline.Lost] != 0 {
			t.Errorf("transactions by settlement: %v, want no other than committed", undone)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}
