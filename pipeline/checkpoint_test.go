package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// slowly makes the body of a checkpoint larger than the buffers between a worker and
// the disk, so that a disk that stands still stops the copying.
func slowly(cfg *EngineConfig) {
	cfg.Rules.NewSet = func() (filter.Set, error) {
		return filter.NewSliced(filter.Params{Lines: 2 * copyBuffers * copyStep / filter.LineBytes, LinesPerKey: 4, CellsPerLine: 4})
	}
}

// until makes a run go on until ok, and not only until everything is committed.
func (m *member) until(ok func() bool) {
	m.halted = func() bool {
		for p := range m.s.in {
			if m.s.positions[p].Next < int64(len(m.s.in[p])) {
				return false
			}
		}
		return ok()
	}
}

func count(s *stream, p int, n int) {
	for i := range n {
		s.add(p, fmt.Sprint(i), epoch0)
	}
}

// everyRecord is what comes out of a stream of first copies.
func everyRecord(s *stream) map[Partition][]int64 {
	want := map[Partition][]int64{}
	for p := range s.in {
		for i := range s.in[p] {
			want[p] = append(want[p], int64(i))
		}
	}
	return want
}

// Transactions abort while a checkpoint is being written, and when it is done the
// process is killed: what they had taught is in no checkpoint, so their records come
// out.
func TestAbortWhileACheckpointIsWritten(t *testing.T) {
	s, cfg := durable(t, 1)
	count(s, 0, 400)
	x, shelf := newTruth(t, s, cfg.Rules), s.log.checkpoints
	shelf.finished = x.check
	m, aborts := newMember(s, 1, 50, nil), 0
	m.fault = func(n int) fault {
		switch {
		case n == 0:
			return faultNone
		case shelf.counted("finish") > 0:
			return faultCrash
		}
		aborts++
		return faultAbort
	}
	if _, err := run(t, s, m, cfg); !errors.Is(err, errCrash) {
		t.Fatalf("the first run ended with %v", err)
	}
	at := s.positions[p0].Next
	if aborts < 3 || at == 400 {
		t.Fatalf("%d transactions aborted, offset %d is committed: the test shows nothing", aborts, at)
	}
	if _, err := run(t, s, newMember(s, 2, 50, nil), cfg); err != nil {
		t.Fatal(err)
	}
	checkOutput(t, s, everyRecord(s))
	if shelf.counted("loaded") != 1 {
		t.Error("the second run did not restore from the checkpoint")
	}
}

// A window may rotate while it is copied, as often as the filter can tell from the
// copy. What takes longer is given up, and tried again; the stream never waits.
func TestCheckpointAcrossRotations(t *testing.T) {
	classic := func() (filter.Set, error) {
		return filter.NewClassic(filter.ClassicParams{Bits: 8 * copyStep, Hashes: 3}) // eight of them
	}
	for _, test := range []struct {
		name      string
		newSet    func() (filter.Set, error)
		rotations int
		given     string // why it was given up
	}{
		{name: "as many as the filter can tell", rotations: 32},
		{name: "one more", rotations: 33, given: "the window moved on by 33 generations"},
		{name: "a filter that can tell none", newSet: classic, rotations: 0},
		{name: "a filter that can tell none, and one", newSet: classic, rotations: 1, given: "the window moved on by 1 generations"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, cfg := durable(t, 1)
			slowly(&cfg)
			if test.newSet != nil {
				cfg.Rules.Kind, cfg.Rules.NewSet = "classic", test.newSet
			}
			slice := cfg.Rules.Window.Slice()
			for i := range test.rotations + 1 {
				s.add(0, fmt.Sprint(i), epoch0+int64(i)*slice)
			}
			x, shelf := newTruth(t, s, cfg.Rules), s.log.checkpoints
			shelf.finished = x.check
			all := make(chan struct{}) // is committed
			shelf.before = func(step string) error {
				if step == "write" {
					<-all
				}
				return nil
			}
			var ends []error
			cfg.Events.Checkpointed = func(_ Partition, _ time.Duration, _ uint64, err error) { ends = append(ends, err) }
			m := newMember(s, 1, 1, nil)
			committed := sync.OnceFunc(func() { close(all) })
			m.until(func() bool {
				committed()
				return len(ends) > 0 && ends[len(ends)-1] == nil
			})
			if _, err := run(t, s, m, cfg); err != nil {
				t.Fatal(err)
			}
			checkOutput(t, s, everyRecord(s))
			first := fmt.Sprint(ends[0])
			if given := ends[0] != nil; given != (test.given != "") || given && !strings.Contains(first, test.given) {
				t.Errorf("the first checkpoint ended with %s, want %q", first, test.given)
			}
		})
	}
}

// A disk that takes no checkpoint costs checkpoints and nothing else: it is said, and
// tried again.
func TestCheckpointsThatFail(t *testing.T) {
	for _, step := range []string{"create", "write", "finish"} {
		t.Run(step, func(t *testing.T) {
			s, cfg := durable(t, 2)
			count(s, 0, 500)
			count(s, 1, 500)
			shelf := s.log.checkpoints
			shelf.finished = newTruth(t, s, cfg.Rules).check
			var failures int // of the goroutine that writes; one writes at a time
			shelf.before = func(at string) error {
				if at == step && failures < 3 {
					failures++
					return errors.New("no space left on purpose")
				}
				return nil
			}
			log, text := logged()
			cfg.Logger = log
			var failed, done int
			cfg.Events.Checkpointed = func(_ Partition, _ time.Duration, _ uint64, err error) {
				if err != nil {
					failed++
				} else {
					done++
				}
			}
			m := newMember(s, 1, 20, nil)
			m.until(func() bool { return done > 0 })
			if _, err := run(t, s, m, cfg); err != nil {
				t.Fatal(err)
			}
			checkOutput(t, s, everyRecord(s))
			if failed != 3 {
				t.Errorf("%d checkpoints failed, want 3", failed)
			}
			line := lineWith(text.String(), "no checkpoint")
			if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "partition=in/") || !strings.Contains(line, "no space left on purpose") {
				t.Errorf("the log says %q", line)
			}
			if aborts := shelf.counted("abort"); step == "write" && aborts < 3 {
				t.Errorf("%d of three begun checkpoints were cleaned up", aborts)
			}
		})
	}
}

// A partition is lost, and an engine ends, in the middle of a copy: nothing is left
// of that, and nobody waits for it before the end.
func TestCheckpointThatNobodyEnds(t *testing.T) {
	for _, lost := range []bool{true, false} {
		t.Run(fmt.Sprintf("lost=%t", lost), func(t *testing.T) {
			s, cfg := durable(t, 1)
			slowly(&cfg)
			count(s, 0, 100)
			shelf := s.log.checkpoints
			shelf.finished = func(b *boxed) { t.Errorf("%s was finished", b.Name()) }
			writing, gone := make(chan struct{}), make(chan struct{})
			began := sync.OnceFunc(func() { close(writing) })
			ended := sync.OnceFunc(func() { close(gone) })
			shelf.before = func(step string) error {
				if step == "write" {
					began()
					<-gone
				}
				return nil
			}
			m := newMember(s, 1, 10, nil)
			if lost {
				take := takeAway(m, writing, 20)
				m.poll = func(ctx context.Context, polled Polled) Polled {
					polled = take(ctx, polled)
					if len(polled.Lost) > 0 {
						shelf.finished = newTruth(t, s, cfg.Rules).check
						defer ended()
					}
					return polled
				}
			}
			m.until(func() bool {
				if lost {
					return shelf.counted("abort") > 0
				}
				<-writing
				defer ended()
				return true
			})
			e, err := run(t, s, m, cfg)
			if err != nil {
				t.Fatal(err)
			}
			checkOutput(t, s, everyRecord(s))
			if shelf.counted("abort") == 0 {
				t.Error("what was given up was not cleaned up")
			}
			if e.copying != nil {
				t.Error("a copy goes on after the end")
			}
		})
	}
}

// Checkpoints that were given up hold buffers of some megabytes no longer than it
// takes the disk to notice.
func TestGivenUpCheckpointsAreLetGo(t *testing.T) {
	s, cfg := durable(t, 1)
	slowly(&cfg)
	count(s, 0, 20)
	const times = 30
	shelf, m := s.log.checkpoints, newMember(s, 1, 10, nil)
	// The disk stands still until the partition whose checkpoint it writes is lost.
	var taken atomic.Int64
	lost := sync.NewCond(&sync.Mutex{})
	lose := func(n int64) {
		lost.L.Lock()
		defer lost.L.Unlock()
		taken.Add(n)
		lost.Broadcast()
	}
	shelf.before = func(step string) error {
		lost.L.Lock()
		defer lost.L.Unlock()
		for step == "write" && int64(shelf.counted("create")) > taken.Load() {
			lost.Wait()
		}
		return nil
	}
	m.poll = func(_ context.Context, polled Polled) Polled {
		if _, ok := m.reading[p0]; !ok || taken.Load() >= times || int64(shelf.counted("create")) <= taken.Load() {
			return polled
		}
		lose(1)
		delete(m.reading, p0)
		delete(m.epochs, p0)
		m.announce = append(m.announce, p0)
		return Polled{Lost: []Partition{p0}}
	}
	m.halted = func() bool {
		if taken.Load() >= times {
			lose(times)
			return true
		}
		// A partition that is given back has a checkpoint only once it has moved.
		if at := s.positions[p0].Next; at == int64(len(s.in[p0])) {
			s.add(0, fmt.Sprint(at), epoch0)
		}
		return false
	}
	e, err := run(t, s, m, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if given := shelf.counted("abort"); given < times || len(e.left) > times/5 {
		t.Errorf("%d checkpoints were given up, and %d are still held", given, len(e.left))
	}
}

// What is learned while a checkpoint is copied may be in it, and is in the changelog.
// It counts once for the load of its generation, which is more than half full here: a
// restart that counted it twice would have no room for it.
func TestWhatIsCopiedAndLoggedCountsOnce(t *testing.T) {
	s, cfg := durable(t, 1)
	slowly(&cfg)
	const ids = 600
	cfg.Rules.Window.GenerationCapacity = 1000
	cfg.CheckpointInterval = time.Nanosecond
	count(s, 0, ids)
	read := make(chan struct{})
	shelf := s.log.checkpoints
	shelf.before = func(step string) error {
		if step == "write" {
			<-read // so all but the first records come while the body is copied
		}
		return nil
	}
	var once sync.Once
	finished := false
	cfg.Events.Checkpointed = func(_ Partition, _ time.Duration, _ uint64, err error) { finished = finished || err == nil }
	m := newMember(s, 1, 10, nil)
	m.until(func() bool {
		once.Do(func() { close(read) })
		return finished
	})
	if _, err := run(t, s, m, cfg); err != nil {
		t.Fatal(err)
	}
	count(s, 0, ids) // each once more
	if _, err := run(t, s, newMember(s, 2, 50, nil), cfg); err != nil {
		t.Fatal(err)
	}
	if shelf.counted("loaded") == 0 {
		t.Error("no checkpoint was loaded")
	}
	if n := len(s.out[p0]); n != ids {
		t.Errorf("%d records came out, want %d", n, ids)
	}
}
