//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// TestCase_EOS_10: an open transaction of another producer holds up its partition
// and no other. What it ends as decides what comes out.
func TestCase_EOS_10(t *testing.T) {
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		t.Run(fmt.Sprintf("committed=%t", bool(end)), func(t *testing.T) {
			s := newScene(t, 2, nil, nil)
			d := s.run()
			d.ready(2)
			s.ids(0, "before")
			s.caughtUp(d, 0)
			foreign, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.TransactionalID(s.in), kgo.RecordPartitioner(kgo.ManualPartitioner()))
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
			if status, page := d.get("/healthz"); status != 200 || strings.Contains(page, "warning") {
				t.Errorf("health is %d: %s", status, page)
			}
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
	s.awaitPartition(1)
	s.ids(1, "a", "b", "a")
	s.ids(0, "a", "c")
	d = s.run("start=latest")
	s.caughtUp(d)
	d.stop()
	s.check()
}

// awaitPartition waits until a new partition of the input can be written.
func (s *scene) awaitPartition(p int32) {
	s.t.Helper()
	await(s.t, fmt.Sprintf("partition %d is served", p), func() bool {
		ends, err := s.admin.ListEndOffsets(s.ctx(), s.in)
		if err != nil {
			return false
		}
		end, ok := ends.Lookup(s.in, p)
		return ok && end.Err == nil
	}, nil)
	s.client.PurgeTopicsFromClient(s.in) // what it knew of the topic is old
}

// TestInputMadeAnew: a topic that was deleted and made again under its name is
// another topic. Nothing of it is read with the old one's positions.
func TestInputMadeAnew(t *testing.T) {
	s := newScene(t, 1, nil, nil)
	s.ids(0, series("a", 10)...)
	d := s.run()
	s.caughtUp(d)
	if _, err := s.admin.DeleteTopic(s.ctx(), s.in); err != nil {
		t.Fatal(err)
	}
	await(t, "the topic is made again", func() bool {
		_, err := s.admin.CreateTopic(s.ctx(), 1, -1, nil, s.in)
		return err == nil
	}, nil)
	s.awaitPartition(0)
	s.write(event(0, "b"), event(0, "c"))
	d.ends(1)
	d.line("error: ", s.in, "deleted and made again: its ID was ", ", now it is ")
	d.line("hint: ", "--group")
	s.check()
}
