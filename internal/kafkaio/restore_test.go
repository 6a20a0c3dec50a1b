package kafkaio

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// Another instance, with nothing of its own, knows what the first one saw.
func TestCase_STATE_12(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.unique(300)
		a := s.start()
		a.judged(600)
		if err := a.finish(); err != nil {
			t.Fatal(err)
		}
		s.again()
		s.unique(10)
		s.cfg.Instance = "b"
		b := s.start()
		b.judged(620)
		if err := b.finish(); err != nil {
			t.Fatal(err)
		}
		if got := b.engine.Snapshot().Counts.Verdicts[pipeline.Duplicate]; got != 600 {
			t.Errorf("the second instance found %d duplicates, want 600", got)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// Of two instances one is killed. The other takes its partitions, and knows from the
// changelog alone what came out of them, before it judges anything of theirs.
func TestCase_STATE_12_killed(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.cfg.WarmUp = false
		s.cfg.Instance = "a"
		s.unique(100)
		a := s.start()
		a.judged(200)
		other := s.cfg
		other.Instance, other.Client = "b", nil
		b := s.startAs(other)
		until(t, "each has a partition", func() bool {
			return len(a.engine.Snapshot().Partitions) == 1 && len(b.engine.Snapshot().Partitions) == 1 && b.engine.Snapshot().Ready()
		})
		s.unique(100)
		until(t, "all of it is judged", func() bool {
			return a.engine.Snapshot().Counts.In+b.engine.Snapshot().Counts.In == 400
		})
		s.kill(a)
		before := b.engine.Snapshot().Counts.In
		s.again()
		until(t, "the other has judged it", func() bool { return b.engine.Snapshot().Counts.In == before+400 })
		if got := b.engine.Snapshot(); len(got.Partitions) != 2 || got.Partitions[0].Window.Coverage != 1 || got.Partitions[1].Window.Coverage != 1 {
			t.Errorf("the other has %+v", got.Partitions)
		}
		if err := b.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// ended waits until an engine ends by itself.
func (r *run) ended() error {
	r.t.Helper()
	select {
	case err := <-r.end:
		close(r.end)
		return err
	case <-time.After(limit):
		r.t.Fatal("the engine goes on")
		return nil
	}
}

// hintOf is the hint in an error, empty if there is none.
func hintOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Hint()
	}
	return ""
}

// A group whose state is gone starts only when that is allowed; what it does not
// know passes.
func TestCase_STATE_16(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.unique(50)
		commitAs(t, s, 50, "")
		if err := s.start().ended(); !errors.Is(err, pipeline.ErrNoState) || !strings.Contains(hintOf(err), "--allow-cold-start") {
			t.Errorf("start without state: %v (hint %q)", err, hintOf(err))
		}
		s.cfg.AllowColdStart = true
		s.again()
		r := s.start()
		r.judged(50)
		if got := r.engine.Snapshot().Partitions[0].Window.Coverage; got >= 1 {
			t.Errorf("coverage after a cold start is %v", got)
		}
		s.again()
		r.judged(100)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// The changelog is deleted, and so is what was on the disk. The input still knows;
// where it must not be asked, a cold start needs leave, and its coverage climbs as the
// stream moves on.
func TestCase_STATE_16_changelog(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.rules.Window.Span = 70 * time.Second
		begin := time.Now().Add(-time.Hour).Truncate(time.Second)
		judged := 0
		at := func(r *run, second int, ids ...string) float64 {
			t.Helper()
			for _, id := range ids {
				record := s.record(0, id)
				record.Timestamp = begin.Add(time.Duration(second) * time.Second)
				s.write(record)
			}
			judged += len(ids)
			r.judged(judged)
			return r.engine.Snapshot().Partitions[0].Window.Coverage
		}
		restart := func(r *run) *run {
			t.Helper()
			if err := r.finish(); err != nil {
				t.Fatal(err)
			}
			if _, err := kadm.NewClient(s.client()).DeleteTopic(ctx(t), ChangelogTopic(s.cfg.Group, s.cfg.In[0])); err != nil {
				t.Fatal(err)
			}
			until(t, "the changelog is gone", func() bool {
				topics, err := kadm.NewClient(s.client()).ListTopics(ctx(t))
				return err == nil && !topics.Has(ChangelogTopic(s.cfg.Group, s.cfg.In[0]))
			})
			judged = 0
			return s.start()
		}
		r := s.start()
		at(r, 0, "a", "b")
		r = restart(r)
		if got := at(r, 1, "a", "c"); got != 1 {
			t.Errorf("coverage after a restore from the input is %v", got)
		}
		s.cfg.WarmUp = false
		err := restart(r).ended()
		if err == nil || !strings.Contains(err.Error(), "restore "+s.cfg.In[0]+"/0") || !strings.Contains(hintOf(err), "--allow-cold-start") {
			t.Errorf("start without changelog and input: %v (hint %q)", err, hintOf(err))
		}
		s.cfg.AllowColdStart = true
		r = s.start()
		var coverages []float64
		for second := 2; second <= 82; second += 20 {
			coverages = append(coverages, at(r, second, "b", fmt.Sprint(second)))
		}
		if coverages[0] > 0.1 || !slices.IsSorted(coverages) || coverages[2] <= coverages[1] || coverages[4] != 1 {
			t.Errorf("the coverage was %v", coverages)
		}
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		// b passes once more after the cold start, and again eight generations after that.
		same(t, s.output(s.cfg.Out), map[string]int{"a": 1, "b": 3, "c": 1, "2": 1, "22": 1, "42": 1, "62": 1, "82": 1})
	})
}

// State of other settings is refused, with the way out.
func TestCase_STATE_11(t *testing.T) {
	t.Parallel()
	s := newScene(t, kafkatest.Fake(t).ListenAddrs(), 1)
	s.unique(50)
	r := s.start()
	r.judged(50)
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	s.rules.Keys = []string{"value", "key"}
	err := s.start().ended()
	if !errors.Is(err, pipeline.ErrForeignState) || !strings.Contains(hintOf(err), "--group") {
		t.Errorf("start with another key: %v (hint %q)", err, hintOf(err))
	}
}

// A coordinator that says once that a group has nothing is asked again: its
// partitions do not begin anew.
func TestCase_STATE_04(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Fake(t, kfake.NumBrokers(1))
	s := newScene(t, cluster.ListenAddrs(), 2)
	s.unique(50)
	r := s.start()
	r.judged(100)
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	s.again()
	denied := false
	cluster.ControlKey(keyOffsetFetch, func(req kmsg.Request) (kmsg.Response, error, bool) {
		fetch := req.(*kmsg.OffsetFetchRequest)
		cluster.KeepControl()
		if denied || len(fetch.Groups) != 1 || fetch.Groups[0].Topics != nil {
			return nil, nil, false
		}
		denied = true
		resp := fetch.ResponseKind().(*kmsg.OffsetFetchResponse)
		group := kmsg.NewOffsetFetchResponseGroup()
		group.Group = s.cfg.Group
		resp.Groups = append(resp.Groups, group)
		return resp, nil, true
	})
	r = s.start()
	r.judged(100)
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	if !denied {
		t.Fatal("the coordinator was not asked in the way that the test expects")
	}
	same(t, s.output(s.cfg.Out), s.wanted())
	if got := r.engine.Snapshot().Counts.Verdicts[pipeline.Duplicate]; got != 100 {
		t.Errorf("%d duplicates, want 100", got)
	}
}

// The start is resolved once, and committed before the first record is read; a
// partition that is made later begins at its beginning.
func TestStartLatest(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.cfg.Start = Start{latest: true}
		s.unique(20) // nobody wants these
		old := s.wanted()
		r := s.start()
		until(t, "the start is resolved", func() bool { snapshot := r.engine.Snapshot(); return snapshot.Ready() && len(snapshot.Partitions) == 2 })
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		if got := committedOf(t, s, 1); got.next != 20 || got.metadata == "" {
			t.Errorf("the start is %+v, want offset 20 with metadata", got)
		}
		s.unique(5)
		s.grow(3, s.cfg.In[0], s.cfg.Out)
		s.next = append(s.next, 0)
		s.writer = s.client(kgo.RecordPartitioner(kgo.ManualPartitioner())) // the old one knows two
		s.write(s.record(2, "p2-0"))
		s.next[2] = 1
		s.cfg.FixTopics = true // the changelog needs the new partition, too
		r = s.start()
		r.judged(11)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		want := s.wanted()
		for id := range old {
			delete(want, id)
		}
		same(t, s.output(s.cfg.Out), want)
	})
}

// Records that were deleted before they were read are not passed over in silence.
func TestRestoreRefusesAPositionThatIsGone(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.unique(50)
		r := s.start()
		r.judged(50)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		s.unique(50)
		before := kadm.Offsets{}
		before.Add(kadm.Offset{Topic: s.cfg.In[0], Partition: 0, At: 80})
		if _, err := kadm.NewClient(s.client()).DeleteRecords(ctx(t), before); err != nil {
			t.Fatal(err)
		}
		err := s.start().ended()
		if err == nil || !strings.Contains(err.Error(), "from offset 50 to 79 were deleted") || hintOf(err) == "" {
			t.Errorf("start below the log: %v (hint %q)", err, hintOf(err))
		}
	})
}

// What retention has taken from the input is known from the changelog. Without one
// it is not, which is said; what is left is.
func TestRestoreAfterRetention(t *testing.T) {
	for _, logged := range []bool{true, false} {
		t.Run(fmt.Sprintf("changelog=%t", logged), func(t *testing.T) { restoreAfterRetention(t, logged) })
	}
}

func restoreAfterRetention(t *testing.T, logged bool) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.cfg.Changelog = logged
		s.unique(100)
		r := s.start()
		r.judged(100)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		before := kadm.Offsets{}
		before.Add(kadm.Offset{Topic: s.cfg.In[0], Partition: 0, At: 40})
		if _, err := kadm.NewClient(s.client()).DeleteRecords(ctx(t), before); err != nil {
			t.Fatal(err)
		}
		s.again()
		r = s.start()
		r.judged(100)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		want := s.wanted()
		for i := 0; i < 40 && !logged; i++ {
			want[fmt.Sprintf("p0-%d", i)] = 2
		}
		same(t, s.output(s.cfg.Out), want)
	})
}
