//go:build unix

package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// TestCase_EOS_10: an open transaction of another producer holds up its partition
// and no other, which shows. What it ends as decides what comes out.
func TestCase_EOS_10(t *testing.T) {
	t.Parallel()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		t.Run(fmt.Sprintf("committed=%t", bool(end)), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, 2, nil, nil)
			d := s.run()
			d.ready(2)
			s.ids(0, "before")
			s.caughtUp(d, 0)
			foreign, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.TransactionalID(s.in), kgo.RecordPartitioner(kgo.ManualPartitioner()),
				kgo.TransactionTimeout(10*time.Minute)) // it does not end by itself
			if err != nil {
				t.Fatal(err)
			}
			defer foreign.Close()
			if err := foreign.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			for _, id := range series("open", 100) {
				r := event(0, id)
				r.Topic = s.in
				if err := foreign.ProduceSync(s.ctx(), r).FirstErr(); err != nil {
					t.Fatal(err)
				}
				if end == kgo.TryCommit {
					s.expect(0, string(r.Value))
				}
			}
			s.ids(0, series("after", 500)...)
			s.ids(0, series("open", 100)...) // first copies, if the transaction is aborted
			s.ids(1, series("other", 500)...)
			s.caughtUp(d, 1)
			blocked := func(p int) float64 {
				return d.metric("streamdedup_input_blocked_by_open_txn", fmt.Sprintf(`partition="%d"`, p))
			}
			await(t, "the partition is said to be blocked", func() bool { return blocked(0) == 1 }, d.done)
			if blocked(1) != 0 {
				t.Error("the other partition is said to be blocked, too")
			}
			status, page := d.get("/healthz")
			if want := "degraded: 1 partition waiting for a transaction of another producer\n"; status != 200 || !strings.HasPrefix(page, want) ||
				!strings.Contains(page, "\nwarning: partition "+s.in+"/0 waits at offset 1 for a transaction") {
				t.Errorf("health is %d, want 200 and %q: %s", status, want, page)
			}
			d.says("a transaction of another producer is open")
			d.line("level=WARN", "a transaction of another producer is open", s.in+"/0", "offset=1")
			if got := s.read(s.out)[0]; len(got) != 1 {
				t.Errorf("%d records came out of the partition that waits, want 1", len(got))
			}
			if err := foreign.EndTransaction(s.ctx(), end); err != nil {
				t.Fatal(err)
			}
			await(t, "the transaction's marker is written", func() bool {
				ends, err := s.admin.ListEndOffsets(s.ctx(), s.in)
				if err != nil {
					t.Fatal(err)
				}
				stable, err := s.admin.ListCommittedOffsets(s.ctx(), s.in)
				return err == nil && stable[s.in][0].Offset == ends[s.in][0].Offset
			}, d.done)
			s.caughtUp(d)
			await(t, "nothing is blocked any more", func() bool { return blocked(0) == 0 }, d.done)
			if _, page := d.get("/healthz"); !strings.HasPrefix(page, "alive\n") {
				t.Errorf("health is %s", page)
			}
			d.stop()
			s.check()
		})
	}
}

// TestTwoInputs: an ID belongs to its topic.
func TestTwoInputs(t *testing.T) {
	s := newScene(t, 1, nil, nil)
	second := kafkatest.Topic(t, s.brokers, 1, nil)
	s.ids(0, "a", "b", "a")
	other := event(0, "a")
	other.Topic = second
	again := event(0, "a")
	again.Topic = second
	s.write(other, again)
	d := s.run("in=" + s.in + "," + second)
	await(t, "all is committed", func() bool { return d.metric("streamdedup_records_total") == 5 }, d.done)
	if sum := d.stop(); sum.Unique != 3 || sum.Duplicate != 2 {
		t.Errorf("%d unique and %d duplicate, want 3 and 2", sum.Unique, sum.Duplicate)
	}
	count := map[string]int{}
	for _, r := range s.read(s.out)[0] {
		count[string(r.Value)]++
	}
	if a, b := count[string(other.Value)], count[string(event(0, "b").Value)]; a != 2 || b != 1 {
		t.Errorf("a came out %d times and b %d times, want 2 and 1", a, b)
	}
}

// TestNewPartitions: a partition that the input gets later is read from its
// beginning, wherever the group began.
func TestNewPartitions(t *testing.T) {
	s := newScene(t, 1, nil, nil)
	s.write(event(0, "before"))
	d := s.run("start=latest")
	d.ready(1)
	s.ids(0, "a")
	s.caughtUp(d)
	d.stop()
	for _, topic := range []string{s.in, s.out} {
		answers, err := s.admin.CreatePartitions(s.ctx(), 1, topic)
		if err == nil {
			err = answers.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.partitions = 2
	s.awaitPartition(1, s.out)
	s.ids(1, "a", "b", "a")
	s.ids(0, "a", "c")
	refused := s.run("start=latest")
	refused.ends(1)
	refused.line("error: ", "changelog topic", "has 1 partitions, want 2")
	refused.line("hint: ", "--fix-topics")
	d = s.run("start=latest", "fix-topics=true")
	s.caughtUp(d)
	d.stop()
	s.check()
}

// awaitPartition waits until a new partition of the input, and of other topics that got
// one, can be written, and all before it.
func (s *scene) awaitPartition(p int32, others ...string) {
	s.t.Helper()
	for _, topic := range append(others, s.in) {
		await(s.t, fmt.Sprintf("partition %d of %s is served", p, topic), func() bool {
			ends, err := s.admin.ListEndOffsets(s.ctx(), topic)
			if err != nil {
				return false
			}
			return ends.Error() == nil && len(ends[topic]) == int(p)+1
		}, nil)
	}
	s.client.PurgeTopicsFromClient(s.in) // what it knew of the topic is old
}

// TestCase_EOS_16: two copies in two partitions are two first copies. An input that
// gets more partitions ends the process within seconds, with both counts and the way
// out, since IDs may move; the next one needs an output of the same count, warns, and
// reads the new partitions from their beginning.
func TestCase_EOS_16(t *testing.T) {
	t.Parallel()
	s := newScene(t, 6, nil, nil)
	s.ids(1, "x", "y", "x")
	s.ids(4, "x", "x") // a producer without keys
	d := s.run("start=latest")
	d.ready(6)
	s.want, s.seen = map[int32][]string{}, map[int32]map[string]bool{} // before the start
	s.ids(1, "x", "y", "x")
	s.ids(4, "x", "x")
	s.caughtUp(d)
	s.check()

	s.addPartitions(s.in, 12)
	d.ends(1)
	d.line("error: ", fmt.Sprintf("input topic %q had 6 partitions, now it has 12", s.in))
	d.line("hint: ", "start again to go on", "--fix-topics", "--scope topic", "must have 12 partitions")
	refused := s.run("start=latest")
	refused.ends(1)
	refused.line("error: ", s.out, "has 6 partitions", s.in, "has 12")
	s.addPartitions(s.out, 12)

	s.ids(1, "y", "z")
	s.ids(10, "x", "x", "w") // x moved: it passes once more
	d = s.run("start=latest", "fix-topics=true")
	s.caughtUp(d)
	d.line("level=WARN", "partitions that the group has not seen", "partitions_before=6 partitions=12")
	d.stop()
	s.check()
}

// addPartitions gives the input more partitions, or another topic as many, and waits
// until they are served.
func (s *scene) addPartitions(topic string, count int32) {
	s.t.Helper()
	answers, err := s.admin.UpdatePartitions(s.ctx(), int(count), topic)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if topic == s.in {
		s.partitions = count
	}
	s.awaitPartition(count-1, topic)
}

// TestInputDeleted: a topic that is gone ends the process that reads it.
func TestInputDeleted(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2, nil, nil)
	s.ids(0, series("a", 10)...)
	d := s.run()
	d.ready(2)
	s.caughtUp(d)
	if _, err := s.admin.DeleteTopic(s.ctx(), s.in); err != nil {
		t.Fatal(err)
	}
	d.ends(1)
	d.line("error: ", s.in, "was deleted")
	d.line("hint: ", "state reset", "--group")
	s.check()
}

// TestInputLosesRecords: records that retention takes under a running process are
// named, and not passed over.
func TestInputLosesRecords(t *testing.T) {
	t.Parallel()
	s := newScene(t, 1, nil, nil)
	p := newProxy(t, s.brokers[0])
	d := s.run("brokers=" + p.address())
	d.ready(1)
	s.ids(0, "a", "b")
	s.caughtUp(d)
	// A reader that is slower than retention: it learns of the next record late.
	held := p.hold(kmsg.NewPtrFetchRequest())
	held.wait(t, d)
	s.write(event(0, "c"), event(0, "d"), event(0, "e"))
	s.deleteBefore(0, 4)
	held.let()
	d.ends(1)
	d.line("error: ", s.in+"/0 stopped before offset 2", "records from offset 2 to 3 were deleted before they were read")
	d.line("hint: ", "--reset-offsets")
	s.check()
}

// TestCase_EOS_24: a connector that sends again after its restart sends duplicates;
// a snapshot's row is an event of its own although the row is the same.
func TestCase_EOS_24(t *testing.T) {
	sample, err := os.ReadFile("../keys/testdata/debezium_envelope.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(sample)), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"op":"c"`) || !strings.Contains(lines[1], `"op":"u"`) {
		t.Fatalf("the sample is not a creation and an update: %q", lines)
	}
	later := strings.NewReplacer(`"lsn":24023129`, `"lsn":24023200`, `"txId":555`, `"txId":556`)
	third := strings.Replace(later.Replace(lines[1]), `"status":"paid"`, `"status":"sent"`, 1)
	snapshot := strings.NewReplacer(`"op":"u"`, `"op":"r"`, `"snapshot":"false"`, `"snapshot":"true"`,
		`"lsn":24023200`, `"lsn":24023999`).Replace(third)
	// The same again in every point that makes the event; when it was sent differs.
	again := strings.NewReplacer(`"op":"c","ts_ms":1767225600100`, `"op":"c","ts_ms":1767225660100`,
		`"op":"u","ts_ms":1767225600100`, `"op":"u","ts_ms":1767225660100`)

	s := newScene(t, 1, nil, nil)
	s.keys = []string{"json:source.lsn", "json:source.txId", "json:after.id"}
	for _, value := range []string{lines[0], lines[1], third, snapshot} {
		s.expect(0, value)
	}
	var records []*kgo.Record
	for _, value := range []string{lines[0], lines[1], third, again.Replace(lines[1]), again.Replace(third), snapshot} {
		records = append(records, &kgo.Record{Value: []byte(value), Timestamp: time.Now()})
	}
	if again.Replace(third) == third {
		t.Fatal("the sample has changed: what is sent again is the same to the byte")
	}
	s.write(records...)
	d := s.run()
	s.caughtUp(d)
	if sum := d.stop(); sum.Unique != 4 || sum.Duplicate != 2 {
		t.Errorf("%d unique and %d duplicate, want 4 and 2", sum.Unique, sum.Duplicate)
	}
	s.check()
}

// TestInputMadeAnew: a topic that was deleted and made again under its name is
// another topic. Nothing of it is read with the old one's positions.
func TestInputMadeAnew(t *testing.T) {
	t.Parallel()
	s := newScene(t, 1, nil, nil)
	s.ids(0, series("a", 10)...)
	d := s.run()
	s.caughtUp(d)
	if _, err := s.admin.DeleteTopic(s.ctx(), s.in); err != nil {
		t.Fatal(err)
	}
	await(t, "the topic is gone", func() bool { // else we write to the old one
		topics, err := s.admin.ListTopics(s.ctx(), s.in)
		return err == nil && errors.Is(topics[s.in].Err, kerr.UnknownTopicOrPartition)
	}, nil)
	if _, err := s.admin.CreateTopic(s.ctx(), 1, -1, nil, s.in); err != nil {
		t.Fatal(err)
	}
	s.awaitPartition(0)
	s.write(event(0, "b"), event(0, "c"))
	d.ends(1)
	d.line("error: ", s.in, "deleted and made again: its ID was ", ", now it is ")
	d.line("hint: ", "--group")
	s.check()
}
