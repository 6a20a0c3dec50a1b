package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// A partition can be taken away in the middle of a cycle, while a worker has a
// batch of it or when some of it was delivered. Its memory is given back only when
// the worker is done, and what it has in the cycle does not come out: whoever
// reads it next reads it again.
func TestLossInTheMiddleOfACycle(t *testing.T) {
	for _, test := range []struct {
		name  string
		polls int // after the first batch
	}{{"a worker has its batch", 1}, {"its batch was delivered", 3}} {
		t.Run(test.name, func(t *testing.T) {
			s := newStream(1)
			for i := range 100 {
				s.add(0, fmt.Sprint(i), epoch0)
			}
			busy := &busySet{entered: make(chan struct{})}
			cfg := engineConfig()
			newSet := cfg.Rules.NewSet
			cfg.Rules.NewSet = func() (set filter.Set, err error) {
				if busy.Set != nil {
					return newSet()
				}
				busy.Set, err = newSet()
				return busy, err
			}
			cfg.CommitInterval = 100 * time.Millisecond
			m := newMember(s, 1, 10, nil)
			m.poll = takeAway(m, busy.entered, test.polls)
			if _, err := run(t, s, m, cfg); err != nil {
				t.Fatal(err)
			}
			var want []int64
			for i := range 100 {
				want = append(want, int64(i))
			}
			checkOutput(t, s, map[Partition][]int64{p0: want})
			if busy.early.Load() {
				t.Error("the memory of a shard was given back while a worker used it")
			}
		})
	}
}

// The memory of a lost partition is given back beside the others, however long that
// takes. A partition that comes then has to wait for it, and so has the engine's end.
func TestGivingBackMemoryHoldsUpNobody(t *testing.T) {
	s := newStream(2)
	for i := range 2000 {
		s.add(i%2, fmt.Sprint(i), epoch0)
	}
	freed := &slowToFree{release: make(chan struct{})}
	cfg := engineConfig()
	newSet := cfg.Rules.NewSet
	cfg.Rules.NewSet = func() (filter.Set, error) {
		if n := freed.made.Add(1); n > 2 && freed.closed.Load() == 0 {
			t.Errorf("memory %d was made before the lost one was given back", n)
		}
		set, err := newSet()
		return slowSet{set, freed}, err
	}
	m := newMember(s, 1, 10, nil)
	p1 := Partition{"in", 1}
	taken, released := false, false
	m.poll = func(_ context.Context, polled Polled) Polled {
		if !taken && len(s.out[p0]) > 0 && len(s.out[p1]) > 0 {
			taken = true
			delete(m.reading, p0)
			delete(m.epochs, p0)
			m.announce = append(m.announce, p0)
			polled.Lost = append(polled.Lost, p0)
		}
		// All of the other partition comes out while the memory is given back.
		if taken && !released && len(s.out[p1]) == 1000 {
			released = true
			close(freed.release)
		}
		return polled
	}
	if _, err := run(t, s, m, cfg); err != nil {
		t.Fatal(err)
	}
	if made, closed := freed.made.Load(), freed.closed.Load(); made != 3 || closed != 3 {
		t.Errorf("%d memories were made, %d given back, want 3", made, closed)
	}
	if n := len(s.out[p0]); n != 1000 {
		t.Errorf("%d records of the partition that came back, want 1000", n)
	}
}

// slowToFree is what slowSets have in common.
type slowToFree struct {
	release      chan struct{}
	made, closed atomic.Int32
}

// slowSet is given back only once it may. An engine that waits for that waits for ever.
type slowSet struct {
	filter.Set
	of *slowToFree
}

func (s slowSet) Close() error {
	<-s.of.release
	s.of.closed.Add(1)
	return s.Set.Close()
}

// A restore may notice before the session says so that the partition is gone. That
// ends nothing: whoever has it now restores it.
func TestLossDuringARestore(t *testing.T) {
	s := newStream(1)
	s.add(0, "a", epoch0)
	refused := make(chan struct{})
	var once atomic.Bool
	s.notOurs = func() bool {
		if !once.CompareAndSwap(false, true) {
			return false
		}
		close(refused)
		return true
	}
	m := newMember(s, 1, 10, nil)
	taken := 0
	m.poll = func(_ context.Context, polled Polled) Polled {
		if taken++; taken == 2 {
			<-refused
		}
		// Many polls later the engine has surely taken the restore's end.
		if taken != 1000 {
			return polled
		}
		m.announce = append(m.announce, p0)
		return Polled{Lost: []Partition{p0}}
	}
	if _, err := run(t, s, m, engineConfig()); err != nil {
		t.Fatal(err)
	}
	checkOutput(t, s, map[Partition][]int64{p0: {0}})
}

// takeAway takes the partition of m away so many polls after its first batch, when
// a worker has begun with that, and gives it back with the next poll.
func takeAway(m *member, entered <-chan struct{}, polls int) func(context.Context, Polled) Polled {
	n, taken := -1, false
	return func(_ context.Context, polled Polled) Polled {
		if n >= 0 || len(polled.Batches) > 0 {
			n++
		}
		if taken || n < polls {
			return polled
		}
		<-entered
		taken = true
		delete(m.reading, p0)
		delete(m.epochs, p0)
		m.announce = append(m.announce, p0)
		return Polled{Lost: []Partition{p0}}
	}
}

// takeAwayAny takes a partition of m away, and gives it back, in one of n polls.
func takeAwayAny(m *member, rng *rand.Rand, n int) func(context.Context, Polled) Polled {
	// Bounded: a poll may be so much faster than a restore that all partitions are
	// never there at once.
	left := 40
	return func(_ context.Context, polled Polled) Polled {
		if left == 0 || rng.IntN(n) > 0 {
			return polled
		}
		p := Partition{"in", int32(rng.IntN(len(m.s.in)))}
		if _, ok := m.reading[p]; ok {
			delete(m.reading, p)
			delete(m.epochs, p)
			m.announce = append(m.announce, p)
			polled.Lost = append(polled.Lost, p)
			left--
		}
		return polled
	}
}

// busySet takes its time and notices when it is closed meanwhile.
type busySet struct {
	filter.Set
	entered       chan struct{}
	once          bool
	closed, early atomic.Bool
}

func (b *busySet) TestAndAdd(hashes []filter.Hash, learn []bool, room uint64, ages []uint8) uint64 {
	if !b.once {
		b.once = true
		close(b.entered)
		for range 10_000 {
			runtime.Gosched()
		}
	}
	if b.closed.Load() {
		b.early.Store(true)
		return 0
	}
	return b.Set.TestAndAdd(hashes, learn, room, ages)
}

func (b *busySet) Close() error {
	b.closed.Store(true)
	return b.Set.Close()
}

// A source may stop a partition in a cycle that aborts before the partition's own
// records were delivered: they are read again, and so is what the source stopped at.
func TestStopOfASourceInAnAbortedCycle(t *testing.T) {
	s := newStream(2)
	p1 := Partition{"in", 1}
	for i := range 10 {
		s.add(0, fmt.Sprint(i), epoch0)
		s.add(1, fmt.Sprint(i), epoch0)
	}
	m := newMember(s, 1, 1, nil)
	stopped, failed := false, false
	m.fault = func(int) fault {
		if !stopped || failed {
			return faultNone
		}
		failed = true
		return faultDeliver
	}
	m.poll = func(_ context.Context, polled Polled) Polled {
		if len(m.reading) < 2 { // not before both are restored
			for _, b := range polled.Batches {
				m.reading[b.Partition] = b.First
			}
			polled.Batches = nil
		}
		slices.SortFunc(polled.Batches, func(a, b *Batch) int { return b.Partition.compare(a.Partition) })
		if len(polled.Batches) == 2 && !stopped { // that of the other is the first to fail
			stopped = true
			m.Halt(p0)
			polled.Stopped = []*Stop{{Partition: p0, Offset: polled.Batches[1].Next}}
		}
		return polled
	}
	if _, err := run(t, s, m, engineConfig()); err != nil {
		t.Fatal(err)
	}
	want := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	checkOutput(t, s, map[Partition][]int64{p0: want, p1: want})
	if !failed {
		t.Error("no cycle failed: the test shows nothing")
	}
}

// A restore that was told to give up may have its memory for a while longer. The next one
// of its partition waits for that: there may be no room for both.
func TestARestoreThatGivesUpHoldsNoMemoryBesideTheNext(t *testing.T) {
	s := newStream(1)
	s.add(0, "a", epoch0)
	alive, calls := &slowToFree{release: make(chan struct{})}, atomic.Int32{}
	close(alive.release)
	entered, lost, second := make(chan struct{}), make(chan struct{}), make(chan struct{})
	cfg := engineConfig()
	newSet := cfg.Rules.NewSet
	cfg.Rules.NewSet = func() (filter.Set, error) {
		switch calls.Add(1) {
		case 1:
			close(entered)
			<-lost
			select {
			case <-second:
			case <-time.After(100 * time.Millisecond): // the next one waits, as it should
			}
		case 2:
			close(second)
			if alive.closed.Load() != 1 {
				t.Error("a memory was made before that of the restore that was given up was given back")
			}
		}
		set, err := newSet()
		return slowSet{set, alive}, err
	}
	m := newMember(s, 1, 10, nil)
	var once sync.Once
	m.poll = func(_ context.Context, polled Polled) Polled {
		select {
		case <-entered:
			once.Do(func() {
				m.announce = append(m.announce, p0)
				polled = Polled{Lost: []Partition{p0}}
			})
		default:
		}
		if len(polled.Assigned) > 0 && calls.Load() > 0 {
			close(lost)
		}
		return polled
	}
	if _, err := run(t, s, m, cfg); err != nil {
		t.Fatal(err)
	}
	checkOutput(t, s, map[Partition][]int64{p0: {0}})
	if made, closed := calls.Load(), alive.closed.Load(); made != 2 || closed != 2 {
		t.Errorf("%d memories were made, %d given back, want 2", made, closed)
	}
}

// A partition for whose filter there is no memory waits, and the others go on. It is read
// once there is.
func TestAPartitionWaitsForMemory(t *testing.T) {
	s := newStream(2)
	var want []int64
	for i := range 100 {
		s.add(0, fmt.Sprint(i), epoch0)
		s.add(1, fmt.Sprint(i), epoch0)
		want = append(want, int64(i))
	}
	p1 := Partition{"in", 1}
	var made, refused atomic.Int32
	var room atomic.Bool
	cfg := engineConfig()
	newSet := cfg.Rules.NewSet
	cfg.Rules.NewSet = func() (filter.Set, error) {
		if made.Add(1) > 1 && !room.Load() {
			refused.Add(1)
			return nil, fmt.Errorf("%w: a test", ErrNoRoom)
		}
		return newSet()
	}
	m := newMember(s, 1, 10, nil)
	m.poll = func(_ context.Context, polled Polled) Polled {
		if len(s.out[p0]) == 100 || len(s.out[p1]) == 100 {
			room.Store(true)
		}
		return polled
	}
	if _, err := run(t, s, m, cfg); err != nil {
		t.Fatal(err)
	}
	checkOutput(t, s, map[Partition][]int64{p0: want, p1: want})
	if refused.Load() == 0 {
		t.Error("there was room at once: the test has lost its fault")
	}
}
