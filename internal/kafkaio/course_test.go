package kafkaio

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

// stateAt is a state that can be told from others.
func stateAt(rotation uint64) pipeline.State {
	return pipeline.State{Fingerprint: "00000000000000ab", Window: window.State{
		StreamTime: 75, Slice: 10, Believed: true, Rotation: rotation,
		Generations: []window.Generation{{Number: 6, FirstOffset: 20}, {Number: 7, FirstOffset: 130}},
	}}
}

// What the group says and what the changelog says decide how a restore goes.
func TestCourse(t *testing.T) {
	change := func(begin, next int64, acknowledged bool) *loggedChange {
		return &loggedChange{last: true, Change: pipeline.Change{Begin: begin, Next: next, Acknowledged: acknowledged, State: stateAt(4)}}
	}
	ours := stateAt(9)
	later := strings.Replace(ours.Metadata(), fmt.Sprintf("/%d ", pipeline.MetadataVersion), fmt.Sprintf("/%d ", pipeline.MetadataVersion+1), 1)
	for _, test := range []struct {
		name     string
		next     int64
		metadata string
		last     *loggedChange
		want     course
		err      error
	}{
		{name: "no changelog", next: 200, metadata: ours.Metadata(), want: course{why: fromInput, state: ours, next: 200, known: -1}},
		{name: "no changelog, and nothing of ours", next: 200, err: pipeline.ErrNoState},
		{name: "no changelog, and a later version's", next: 200, metadata: later, err: pipeline.ErrForeignState},
		{name: "they agree", next: 150, last: change(100, 150, false), want: course{why: asCommitted, state: stateAt(4), next: 150, known: 150}},
		{name: "they agree, whatever the metadata says", next: 150, metadata: later, last: change(100, 150, false),
			want: course{why: asCommitted, state: stateAt(4), next: 150, known: 150}},
		{name: "no offset", next: -1, last: change(100, 150, false), want: course{why: offsetsExpired, state: stateAt(4), next: 150, known: 150}},
		{name: "moved forward", next: 200, last: change(100, 150, false), want: course{why: movedForward, state: stateAt(4).Forward(200), next: 200, known: 150}},
		{name: "moved forward, with a text of another's", next: 200, metadata: "theirs", last: change(100, 150, true),
			want: course{why: movedForward, state: stateAt(4).Forward(200), next: 200, known: 150}},
		{name: "moved forward by us", next: 200, metadata: ours.Metadata(), last: change(100, 150, false),
			want: course{why: tailLost, state: ours, next: 200, known: 150}},
		{name: "moved forward by a later version", next: 200, metadata: later, last: change(100, 150, false), err: pipeline.ErrForeignState},
		{name: "moved back into the last change", next: 120, last: change(100, 150, false), want: course{why: movedBack, state: stateAt(4).Rewind(120), next: 120, known: 150}},
		{name: "moved back to its beginning", next: 100, metadata: ours.Metadata(), last: change(100, 150, false),
			want: course{why: movedBack, state: stateAt(4).Rewind(100), next: 100, known: 150}},
		{name: "the output is done, the offsets are not", next: 100, metadata: ours.Metadata(), last: change(100, 150, true),
			want: course{why: notCommitted, state: stateAt(4), next: 150, known: 150}},
		{name: "the same, further on", next: 149, last: change(100, 150, true), want: course{why: notCommitted, state: stateAt(4), next: 150, known: 150}},
		{name: "moved back before it", next: 99, last: change(100, 150, true), want: course{why: movedBack, state: stateAt(4).Rewind(99), next: 99, known: 150}},
	} {
		x := past{at: committed{next: test.next, metadata: test.metadata}, last: test.last}
		got, err := x.course()
		if !errors.Is(err, test.err) || test.err == nil && fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: got %+v, %v; want %+v, %v", test.name, got, err, test.want, test.err)
		}
	}
}

// Of the changes at the end of a changelog the right one says what the state is.
func TestDecisiveChange(t *testing.T) {
	change := func(begin, next, streamTime int64) loggedChange {
		c := loggedChange{last: true, Change: pipeline.Change{Begin: begin, Next: next}}
		c.State.Window = window.State{Believed: true, StreamTime: streamTime, Rotation: uint64(streamTime / 10)}
		return c
	}
	acknowledged := func(begin, next, streamTime int64) loggedChange {
		c := change(begin, next, streamTime)
		c.Acknowledged = true
		return c
	}
	byClock := acknowledged(0, 100, 1000)
	byClock.State.Window.Believed, byClock.State.Window.Rotation = false, 2
	for _, test := range []struct {
		name    string
		changes []loggedChange
		want    int // -1 for none
	}{
		{"there is none", nil, -1},
		{"the last", []loggedChange{change(0, 100, 10), change(100, 200, 20)}, 1},
		{"moved back, and on since", []loggedChange{change(100, 200, 20), change(40, 60, 20), change(60, 70, 20)}, 2},
		{"moved back, and as far as before", []loggedChange{change(100, 200, 20), change(50, 200, 20)}, 1},
		{"acknowledged", []loggedChange{acknowledged(0, 100, 10), acknowledged(100, 200, 20)}, 1},
		{"another wrote late", []loggedChange{acknowledged(100, 150, 20), acknowledged(150, 210, 30), acknowledged(100, 200, 29)}, 1},
		{"another wrote late, and more", []loggedChange{acknowledged(100, 150, 20), acknowledged(100, 200, 25)}, 1},
		{"another wrote before", []loggedChange{acknowledged(100, 200, 25), acknowledged(100, 150, 20)}, 0},
		{"another wrote late, at the same stream time", []loggedChange{acknowledged(100, 210, 20), acknowledged(100, 200, 20)}, 0},
		{"moved back, and on since, with acknowledgement", []loggedChange{acknowledged(100, 200, 20), acknowledged(40, 60, 21)}, 1},
		{"a delivery that was changed", []loggedChange{acknowledged(100, 200, 30), change(200, 300, 30)}, 1},
		{"the first believed time", []loggedChange{byClock, acknowledged(100, 200, 20)}, 1},
	} {
		got := decisive(test.changes)
		if (got == nil) != (test.want < 0) || got != nil && got != &test.changes[test.want] {
			t.Errorf("%s: got %+v, want the one at %d", test.name, got, test.want)
		}
	}
}

// A group that was moved back to where an earlier change ended goes on from the last
// one all the same: what is known stays known.
func TestCourseBackToTheEndOfAChange(t *testing.T) {
	at := func(begin, next int64, rotation uint64) loggedChange {
		c := loggedChange{last: true, Change: pipeline.Change{Begin: begin, Next: next}}
		c.State.Window = window.State{Believed: true, Slice: 10, StreamTime: int64(10 * rotation), Rotation: rotation}
		return c
	}
	changes := []loggedChange{at(0, 100, 4), at(100, 200, 14)}
	x := past{at: committed{next: 100}, last: decisive(changes)}
	got, err := x.course()
	if err != nil || got.why != movedBack || got.next != 100 || got.state.Window.Rotation != 14 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// What is open on the changelog may be what the group has committed.
func TestSettled(t *testing.T) {
	last := &loggedChange{last: true, Change: pipeline.Change{Begin: 100, Next: 150}}
	for _, test := range []struct {
		name string
		past past
		want bool
	}{
		{"nothing is open", past{at: committed{next: 200}, last: last, log: logBounds{0, 9, 9}}, true},
		{"the changelog has what is committed", past{at: committed{next: 150}, last: last, log: logBounds{0, 7, 9}}, true},
		{"it has not", past{at: committed{next: 200}, last: last, log: logBounds{0, 7, 9}}, false},
		{"nothing is committed", past{at: committed{next: -1}, last: last, log: logBounds{0, 7, 9}}, false},
		{"nothing can be read yet", past{at: committed{next: 200}, log: logBounds{0, 0, 9}}, false},
		// The group went back, and on since: an earlier change ends where the open one may.
		{"less is committed than was", past{at: committed{next: 120}, last: last, log: logBounds{0, 7, 9}}, false},
	} {
		if got := test.past.settled(); got != test.want {
			t.Errorf("%s: settled is %v", test.name, got)
		}
	}
}

// first writes n IDs to partition 0, lets them be judged, and stops.
func (s *scene) first(n int) {
	s.t.Helper()
	s.unique(n)
	r := s.start()
	r.judged(n)
	if err := r.finish(); err != nil {
		s.t.Fatal(err)
	}
}

// repeats writes all IDs so far once more and lets n records be judged.
func (s *scene) repeats(n int) *run {
	s.t.Helper()
	s.again()
	r := s.start()
	r.judged(n)
	if err := r.finish(); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// Records that an operator has passed over never came out, and teach nothing.
func TestRestoreMovedForward(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.first(100)
		s.unique(50)
		commitAs(t, s, 120, "")
		heard := s.listen()
		s.repeats(30 + 150)
		same(t, s.output(s.cfg.Out), s.wanted())
		if heard.line("level=WARN", "moved forward", "from=100", "to=119") == "" {
			t.Errorf("nothing is said of it:\n%s", &heard.text)
		}
		s.repeats(150) // what is not logged is not taken for a loss
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// Records that are read again on purpose are known.
func TestRestoreMovedBack(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.first(100)
		commitAs(t, s, 40, "")
		heard := s.listen()
		s.repeats(60 + 100)
		same(t, s.output(s.cfg.Out), s.wanted())
		if heard.line("level=WARN", "moved back", "from=40", "to=99") == "" {
			t.Errorf("nothing is said of it:\n%s", &heard.text)
		}
		s.repeats(100)
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// A group that was moved back further than the window reaches reads records that are
// forgotten: they are not learned from the input before they are judged.
func TestRestoreMovedBackBehindTheWindow(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.rules.Window.Span = 7 * time.Second
		const seconds, each = 30, 10
		begin := time.Now().Add(-time.Hour).Truncate(time.Second)
		r := s.start()
		for i := range seconds {
			for k := range each {
				record := s.record(0, fmt.Sprintf("%d-%d", i, k))
				record.Timestamp = begin.Add(time.Duration(i) * time.Second)
				s.write(record)
			}
			if i%10 == 9 {
				r.judged(each * (i + 1))
			}
		}
		r.trimmed(pipeline.Partition{Topic: s.cfg.In[0]})
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		if log := s.changes(); len(log) == 0 || log[0].offset == 0 {
			t.Fatal("the changelog was not trimmed: the test shows nothing")
		}
		commitAs(t, s, 0, "")
		r = s.start()
		r.judged(seconds * each)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		want := map[string]int{}
		for i := range seconds {
			for k := range each {
				want[fmt.Sprintf("%d-%d", i, k)] = 1
				if seconds-1-i > 7 {
					want[fmt.Sprintf("%d-%d", i, k)] = 2
				}
			}
		}
		same(t, s.output(s.cfg.Out), want)
	})
}

// A change that says that its output is durable counts, although its offsets were
// not committed any more.
func TestRestoreNotCommitted(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.cfg.Delivery = AtLeastOnce
		s.unique(100)
		r := s.start()
		r.judged(100)
		s.wire.set(func(key int16, _ int) fate {
			if key == keyOffsetCommit {
				return loseRequest
			}
			return pass
		})
		s.unique(20)
		until(t, "the change is logged", func() bool {
			return lastOf(t, s.changes()).Next == 120
		})
		s.kill(r)
		if got := committedOf(t, s, 0).next; got != 100 {
			t.Fatalf("offset %d is committed: the test shows nothing", got)
		}
		heard := s.listen()
		s.repeats(120)
		same(t, s.output(s.cfg.Out), s.wanted())
		if heard.line("not committed: going on after it", "next=120", "from=100") == "" {
			t.Errorf("nothing is said of it:\n%s", &heard.text)
		}
	})
}

// changes are the changelog's records.
func (s *scene) changes() []loggedChange {
	s.t.Helper()
	var changes []loggedChange
	for _, r := range s.read(ChangelogTopic(s.cfg.Group, s.cfg.In[0])) {
		c, last, err := pipeline.ParseRecord(r.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		changes = append(changes, loggedChange{c, last, r.Offset})
	}
	return changes
}

func lastOf(t *testing.T, log []loggedChange) loggedChange {
	t.Helper()
	if len(log) == 0 {
		t.Fatal("the changelog is empty")
	}
	return log[len(log)-1]
}

// What the changelog has lost, or never had, is learned from the input. The next
// restore finds the same gap, and so does the one after it.
func TestRestoreTailLost(t *testing.T) {
	for _, checkpoint := range []bool{false, true} {
		t.Run(fmt.Sprintf("checkpoint=%t", checkpoint), func(t *testing.T) { restoreTailLost(t, checkpoint) })
	}
}

func restoreTailLost(t *testing.T, checkpoint bool) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		if checkpoint { // of before
			s.checkpoints = newShelf()
		}
		s.unique(100)
		r := s.start()
		r.judged(100)
		if checkpoint {
			until(t, "there is a checkpoint", func() bool { return s.checkpoints.at(pipeline.Partition{Topic: s.cfg.In[0]}) == 100 })
			s.checkpoints.close()
		}
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		s.cfg.Changelog = false
		s.first(50)
		s.cfg.Changelog = true
		heard := s.listen()
		s.repeats(150)
		same(t, s.output(s.cfg.Out), s.wanted())
		if heard.line("level=WARN", "the changelog has lost its end", "from=100", "to=149") == "" {
			t.Errorf("nothing is said of it:\n%s", &heard.text)
		}
		for range 2 {
			s.repeats(150)
			same(t, s.output(s.cfg.Out), s.wanted())
		}
	})
}

// The group's offsets are gone, after an idle time or by hand: the changelog says
// where to go on.
func TestCase_EOS_22(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.unique(500)
		r := s.start()
		r.judged(1000)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		s.forgetOffsets()
		s.unique(10)
		s.again()
		heard := s.listen()
		r = s.start()
		r.judged(20 + 1020)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
		if got := r.engine.Snapshot().Counts.In; got != 1040 {
			t.Errorf("%d records were judged, want 1040: none of the old ones", got)
		}
		for p := range 2 {
			if heard.line("level=WARN", "the offsets expired", fmt.Sprintf("partition=%s/%d", s.cfg.In[0], p), "next=500") == "" {
				t.Errorf("nothing is said of partition %d:\n%s", p, &heard.text)
			}
		}
	})
}

// forgetOffsets deletes the offsets of the group, which must be empty.
func (s *scene) forgetOffsets() {
	s.t.Helper()
	var set kadm.TopicsSet
	for p := range s.next {
		committedOf(s.t, s, int32(p)) // what is on its way would come back
		set.Add(s.cfg.In[0], int32(p))
	}
	answers, err := kadm.NewClient(s.client()).DeleteOffsets(ctx(s.t), s.cfg.Group, set)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		s.t.Fatalf("delete the offsets: %v", err)
	}
	if got := committedOf(s.t, s, 0); got.next >= 0 {
		s.t.Fatalf("offset %d is still there", got.next)
	}
}

// The state of the release before this had no changelog: it is made from the input,
// and from then on logged, while half of the window is from before.
func TestRestoreFromVersion1(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		for _, test := range []struct {
			name  string
			later time.Duration
			warm  bool
			times int // that the IDs from before come out
		}{
			{name: "half a window later", later: 3 * time.Second, warm: true, times: 1},
			{name: "when nothing from before is left", later: 20 * time.Second, times: 2},
		} {
			t.Run(test.name, func(t *testing.T) {
				s := newScene(t, brokers, 1)
				s.rules.Window.Span = 7 * time.Second
				s.cfg.Changelog = false
				begin := time.Now().Add(-time.Hour).Truncate(time.Second)
				batch := func(name string, at time.Duration) {
					for i := range 50 {
						record := s.record(0, fmt.Sprint(name, i))
						record.Timestamp = begin.Add(at)
						s.write(record)
					}
				}
				judge := func(n int) *run {
					r := s.start()
					r.judged(n)
					if err := r.finish(); err != nil {
						t.Fatal(err)
					}
					return r
				}
				batch("old", 0)
				judge(50)
				commitAs(t, s, 50, version1(t, committedOf(t, s, 0).metadata))
				s.cfg.Changelog = true
				batch("new", test.later)
				judge(50)
				s.cfg.WarmUp = test.warm
				batch("old", test.later)
				batch("new", test.later)
				r := judge(100)
				want := map[string]int{}
				for i := range 50 {
					want[fmt.Sprint("old", i)], want[fmt.Sprint("new", i)] = test.times, 1
				}
				same(t, s.output(s.cfg.Out), want)
				if got := r.engine.Snapshot().Partitions[0].Window.Coverage; got != 1 {
					t.Errorf("coverage is %v", got)
				}
			})
		}
	})
}

// version1 is offset metadata as the first release wrote it: without a rotation.
func version1(t *testing.T, metadata string) string {
	t.Helper()
	words := strings.Fields(metadata)
	if len(words) < 8 || words[0] != "streamdedup/2" {
		t.Fatalf("the metadata is %q", metadata)
	}
	words[0] = "streamdedup/1"
	return strings.Join(append(words[:7:7], words[8:]...), " ")
}

// A topic of the same name is not the input that the changelog is about.
func TestRestoreRefusesAnotherInput(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.first(50)
		s.remake(s.cfg.In[0], 1, nil)
		s.writer = s.client(kgo.RecordPartitioner(kgo.ManualPartitioner())) // the old one knows the old topic
		s.unique(60)
		until(t, "the broker knows of the records in the new topic", func() bool {
			ends, err := kadm.NewClient(s.client()).ListEndOffsets(ctx(t), s.cfg.In[0])
			at, is := ends.Lookup(s.cfg.In[0], 0)
			return err == nil && is && at.Err == nil && at.Offset >= 60
		})
		err := s.start().ended()
		if !errors.Is(err, errOtherInput) || !strings.Contains(hintOf(err), "state reset") || !strings.Contains(err.Error(), s.cfg.In[0]+"/0") {
			t.Errorf("start on a topic that was made anew: %v (hint %q)", err, hintOf(err))
		}
	})
}
