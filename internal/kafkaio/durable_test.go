package kafkaio

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamdedup/streamdedup/pipeline"
)

var (
	keyListOffsets = kmsg.NewPtrListOffsetsRequest().Key()
)

// cutLog deletes the changelog of partition 0 before an offset.
func (s *scene) cutLog(before int64) {
	s.t.Helper()
	var cut kadm.Offsets
	cut.Add(kadm.Offset{Topic: ChangelogTopic(s.cfg.Group, s.cfg.In[0]), At: before})
	answers, err := kadm.NewClient(s.client()).DeleteRecords(ctx(s.t), cut)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// A checkpoint is behind what is committed: what came after it is learned from the
// changelog, and nothing of it comes out. Or it is ahead, because the broker has lost
// what it had committed: then it is refused by name.
func TestCase_STATE_03(t *testing.T) {
	t.Run("behind", func(t *testing.T) {
		everyBroker(t, func(t *testing.T, brokers []string) {
			s := newScene(t, brokers, 1)
			s.checkpoints = newShelf()
			p := pipeline.Partition{Topic: s.cfg.In[0]}
			r := s.start()
			s.unique(900)
			r.judged(900)
			s.unique(100)
			r.judged(1000)
			until(t, "there is a checkpoint at 1,000", func() bool { return s.checkpoints.at(p) == 1000 })
			s.checkpoints.close()
			s.unique(500)
			r.judged(1500)
			s.kill(r)
			// Most of what came before it only the checkpoint knows.
			for _, c := range s.changes() {
				if c.Next == 900 {
					s.cutLog(c.offset + 1)
				}
			}
			s.cfg.WarmUp = false
			r = s.repeats(1500)
			same(t, s.output(s.cfg.Out), s.wanted())
			if got := r.engine.Snapshot().Partitions[0].Window.Coverage; got != 1 || s.checkpoints.opened != 1 {
				t.Errorf("coverage %v, the checkpoint was opened %d times", got, s.checkpoints.opened)
			}
		})
	})
	t.Run("ahead", func(t *testing.T) {
		everyBroker(t, func(t *testing.T, brokers []string) {
			// Of another group, which has gone further in a topic of the same content.
			further := newScene(t, brokers, 1)
			further.checkpoints = newShelf()
			from := pipeline.Partition{Topic: further.cfg.In[0]}
			further.unique(1500)
			r := further.start()
			r.judged(1500)
			until(t, "there is a checkpoint at 1,500", func() bool { return further.checkpoints.at(from) == 1500 })
			if err := r.finish(); err != nil {
				t.Fatal(err)
			}
			s := newScene(t, brokers, 1)
			s.first(1400)
			s.checkpoints = further.checkpoints
			s.checkpoints.close()
			s.checkpoints.boxes[pipeline.Partition{Topic: s.cfg.In[0]}] = s.checkpoints.of(from)
			heard := s.listen()
			s.first(100)
			same(t, s.output(s.cfg.Out), s.wanted())
			if heard.line("level=WARN", "a checkpoint is of no use", "file=box", "up to offset 1500", "newer") == "" {
				t.Errorf("nothing is said of it:\n%s", &heard.text)
			}
		})
	})
}

// The process is killed when 40% of a restore are done, and started again: the next
// one begins at its beginning and is whole, and no partition has what is another's.
func TestCase_STATE_04_killed(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.checkpoints = newShelf()
		s.unique(500)
		r := s.start()
		r.judged(1000)
		until(t, "there are checkpoints", func() bool {
			return s.checkpoints.at(pipeline.Partition{Topic: s.cfg.In[0]}) == 500 &&
				s.checkpoints.at(pipeline.Partition{Topic: s.cfg.In[0], Number: 1}) == 500
		})
		s.checkpoints.close()
		s.unique(100)
		r.judged(1200)
		s.kill(r)

		partial, dead := make(chan bool, 2), make(chan struct{})
		s.checkpoints.open = func(b *boxed) io.Reader {
			return io.MultiReader(strings.NewReader(string(b.body[:len(b.body)*2/5])), stuck{partial, dead})
		}
		r = s.start()
		<-partial
		<-partial
		if r.engine.Snapshot().Counts.In != 0 {
			t.Error("something was judged by a memory that is not whole")
		}
		s.kill(r)
		close(dead)
		s.checkpoints.open = nil

		// The IDs of each partition, and then those of the other.
		s.again()
		for p := range s.next {
			for i := range s.next[p] {
				s.write(s.record(1-p, fmt.Sprintf("p%d-%d", p, i)))
			}
		}
		r = s.start()
		r.judged(2400)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		want := s.wanted()
		for id := range want {
			want[id] = 2 // once in each partition
		}
		same(t, s.output(s.cfg.Out), want)
	})
}

// stuck says that it is read, and gives nothing until the end.
type stuck struct {
	read chan<- bool
	end  <-chan struct{}
}

func (w stuck) Read([]byte) (int, error) {
	w.read <- true
	<-w.end
	return 0, errors.New("the process is dead")
}

// foreign opens a transaction on the changelog, as an owner that died has left it.
func (s *scene) foreign() *kgo.Client {
	s.t.Helper()
	cl := s.client(kgo.TransactionalID("dead-"+s.cfg.Group), kgo.TransactionTimeout(10*time.Minute),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.BeginTransaction(); err != nil {
		s.t.Fatal(err)
	}
	lost := pipeline.Change{Begin: 9000, Next: 9999, State: stateAt(1)}
	r := &kgo.Record{Topic: ChangelogTopic(s.cfg.Group, s.cfg.In[0]), Value: lost.AppendRecords(nil)[0]}
	if err := cl.ProduceSync(ctx(s.t), r).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
	return cl
}

// An owner died with a transaction open on the changelog, and what was committed
// lies above it. The next one waits for its end, and then has all of it; where it
// does not end, it says which partition it is about.
func TestCase_STATE_05(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.unique(100)
		r := s.start()
		r.judged(100)
		dead := s.foreign()
		s.unique(100)
		r.judged(200)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		s.again()

		session, err := Open(ctx(t), s.cfg)
		if err != nil {
			t.Fatal(err)
		}
		restorer := NewRestorer(session, nil)
		restorer.patience = 300 * time.Millisecond
		p := pipeline.Partition{Topic: s.cfg.In[0]}
		_, err = restorer.Restore(ctx(t), p, builder{s.rules, p})
		if err == nil || !strings.Contains(err.Error(), "restore "+p.String()+": a transaction is open at offset") || hintOf(err) == "" {
			t.Errorf("a restore that waits in vain ends with %v (hint %q)", err, hintOf(err))
		}
		if err := session.Close(ctx(t), true); err != nil {
			t.Fatal(err)
		}

		// Each look asks for three ends of the changelog, so it has looked some times.
		looks := make(chan int, 1000)
		s.wire.set(func(key int16, nth int) fate {
			if key == keyListOffsets {
				select {
				case looks <- nth:
				default:
				}
			}
			return pass
		})
		r = s.start()
		for nth := 0; nth < 15; nth = <-looks {
		}
		if got := r.engine.Snapshot().Counts.In; got != 0 {
			t.Errorf("%d records were judged while a part of the state could not be read", got)
		}
		if err := dead.EndTransaction(ctx(t), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
		r.judged(200)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// The changelog was made by somebody, with settings under which it loses what the
// window must know, or with too few partitions. Expected and found are named, and
// --fix-topics corrects them.
func TestCase_STATE_07(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		text := func(s string) *string { return &s }
		for _, test := range []struct {
			name       string
			partitions int32
			settings   map[string]*string
			want       []string
		}{
			{"an hour", 12, map[string]*string{"cleanup.policy": text("delete"), "retention.ms": text("3600000")},
				[]string{"retention.ms is 3600000, want -1"}},
			{"compacted", 12, map[string]*string{"cleanup.policy": text("compact"), "retention.ms": text("-1")},
				[]string{"cleanup.policy is compact, want delete"}},
			{"one partition", 1, map[string]*string{"retention.ms": text("-1")}, []string{"has 1 partitions, want 12"}},
		} {
			t.Run(test.name, func(t *testing.T) {
				s := newScene(t, brokers, 12)
				name := ChangelogTopic(s.cfg.Group, s.cfg.In[0])
				if _, err := kadm.NewClient(s.client()).CreateTopic(ctx(t), test.partitions, -1, test.settings, name); err != nil {
					t.Fatal(err)
				}
				_, err := Open(ctx(t), s.cfg)
				for _, want := range append(test.want, name) {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("open: %v, want %q in it", err, want)
					}
				}
				if !strings.Contains(hintOf(err), "--fix-topics") {
					t.Errorf("the hint is %q", hintOf(err))
				}
				s.cfg.FixTopics = true
				s.unique(5)
				r := s.start()
				r.judged(60)
				if err := r.finish(); err != nil {
					t.Fatal(err)
				}
				s.cfg.FixTopics = false // nothing is left to correct
				s.again()
				r = s.start()
				r.judged(60)
				if err := r.finish(); err != nil {
					t.Fatal(err)
				}
				same(t, s.output(s.cfg.Out), s.wanted())
			})
		}
	})
}

// What is deleted from the output stays known, with a restart and without.
func TestCase_STATE_13(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.unique(100)
		r := s.start()
		r.judged(100)
		e, err := extentOf(ctx(t), s.client(), s.cfg.Out)
		if err != nil {
			t.Fatal(err)
		}
		var all kadm.Offsets
		all.Add(kadm.Offset{Topic: s.cfg.Out, At: e.ends[0]})
		if _, err := kadm.NewClient(s.client()).DeleteRecords(ctx(t), all); err != nil {
			t.Fatal(err)
		}
		s.again()
		r.judged(200)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		s.repeats(100)
		if got := s.output(s.cfg.Out); len(got) != 0 {
			t.Errorf("%d IDs came out again", len(got))
		}
	})
}

// The stream stood still for five weeks. What the changelog holds is as old, and a
// copy that comes one second later in stream time is caught.
func TestStopOfFiveWeeks(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		const stop = 5 * 7 * 24 * time.Hour
		then := time.Now().Add(-stop)
		old := func(n int) []*kgo.Record {
			var records []*kgo.Record
			for i := range n {
				r := s.record(0, fmt.Sprintf("p0-%d", i))
				r.Timestamp = then.Add(time.Duration(i) * time.Millisecond)
				records = append(records, r)
			}
			return records
		}
		s.next[0] = 500
		s.write(old(500)...)
		r := s.start()
		r.judged(500)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}

		// A topic that we made ourselves, with the records as they would be by now, in
		// segments that are closed.
		name := ChangelogTopic(s.cfg.Group, s.cfg.In[0])
		records := s.read(name)
		s.remove(name)
		var session *Session
		until(t, "the changelog is made again", func() bool {
			var err error
			session, err = Open(ctx(t), s.cfg)
			return err == nil
		})
		if err := session.Close(ctx(t), true); err != nil {
			t.Fatal(err)
		}
		small := []kadm.AlterConfig{{Name: "segment.ms", Value: kadm.StringPtr("1")}}
		if _, err := kadm.NewClient(s.client()).AlterTopicConfigs(ctx(t), small, name); err != nil {
			t.Fatal(err)
		}
		writer := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for _, r := range records {
			again := &kgo.Record{Topic: name, Key: r.Key, Value: r.Value, Timestamp: then}
			if err := writer.ProduceSync(ctx(t), again).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		s.cfg.WarmUp = false // the input may be gone by now
		late := old(500)
		for _, r := range late {
			r.Timestamp = then.Add(500*time.Millisecond + time.Second)
		}
		s.write(late...)
		r = s.start()
		r.judged(500)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
		if log := s.changes(); log[0].offset != 0 {
			t.Errorf("the changelog begins at offset %d", log[0].offset)
		}
	})
}

// The owner before us trims the changelog while we restore from it: what it deletes
// is forgotten.
func TestRestoreWhileTheLogIsTrimmed(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.unique(20)
		r := s.start()
		r.judged(20)
		for i := range 5 {
			s.unique(20)
			r.judged(20 * (i + 2))
		}
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		log := s.changes()
		if len(log) < 6 {
			t.Fatalf("only %d changes", len(log))
		}
		h := s.byHand()
		restorer := NewRestorer(h.session, nil)
		p := pipeline.Partition{Topic: s.cfg.In[0]}
		x, err := restorer.past(ctx(t), p)
		if err != nil {
			t.Fatal(err)
		}
		s.cutLog(log[2].offset + 1)
		last, err := h.session.lastChange(ctx(t), p, x.log.start, x.log.stable)
		if err != nil || last == nil || last.Next != 120 {
			t.Errorf("the last change is %v, %v", last, err)
		}
		course, err := x.course()
		if err != nil {
			t.Fatal(err)
		}
		m := &memory{restorer: restorer, partition: p, builder: builder{s.rules, p}, past: x, course: course, ends: ends{0, 120}}
		shard, err := m.restore(ctx(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := shard.Close(); err != nil {
			t.Error(err)
		}
		if want := log[3].Begin; m.first != want {
			t.Errorf("the changelog is known from offset %d, want %d", m.first, want)
		}
	})
}
