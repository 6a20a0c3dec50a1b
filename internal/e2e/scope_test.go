//go:build unix

package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkaio"
)

// anyTime lets records of all times into a topic, and the batches of our client.
func anyTime() settings {
	const any = "9223372036854775807"
	return settings{"message.timestamp.before.max.ms": any, "message.timestamp.after.max.ms": any, "max.message.bytes": "16000000"}
}

// newAcross is a scene whose scope is the topic, and which takes away what that
// leaves behind.
func newAcross(t *testing.T, partitions int32) *scene {
	s := newScene(t, partitions, anyTime(), anyTime())
	s.flags["scope"] = "topic"
	between := kafkaio.RepartitionTopic(s.group, s.in)
	s.deleteAfter(between, kafkaio.ChangelogTopic(s.group, between))
	return s
}

// behind is how many offsets both stages have to read.
func (s *scene) behind() int64 {
	s.t.Helper()
	ctx, total := s.ctx(), int64(0)
	for group, topic := range map[string]string{
		kafkaio.RepartitionGroup(s.group): s.in, s.group: kafkaio.RepartitionTopic(s.group, s.in),
	} {
		ends, err := s.admin.ListCommittedOffsets(ctx, topic)
		if err != nil {
			s.t.Fatal(err)
		}
		at, err := s.admin.FetchOffsets(ctx, group)
		if err != nil {
			return 1 << 40 // there is no group yet
		}
		for p := range s.partitions {
			end, _ := ends.Lookup(topic, p)
			got, _ := at.Lookup(topic, p)
			total += end.Offset - max(0, got.At)
		}
	}
	return total
}

// throughBoth waits until both stages have read all, while the process runs.
func (s *scene) throughBoth(d *daemon) {
	s.t.Helper()
	await(s.t, "both stages are at the end", func() bool { return s.behind() <= 0 }, d.done)
}

// TestCase_EOS_16_scope: copies in two partitions are seen with --scope topic and not
// with --scope partition. What comes out is what came in, and in the partition that
// it had. When the input gets more partitions the process stops, and after a start
// knows IDs wherever they have moved.
func TestCase_EOS_16_scope(t *testing.T) {
	for scope, copies := range map[string]int{"partition": 2, "topic": 1} {
		t.Run(scope, func(t *testing.T) {
			s := newAcross(t, 6)
			s.flags["scope"] = scope
			s.flags["key"] = "header:id"
			s.odd("ahead")
			// Of the two copies the first that was read comes out.
			first := &kgo.Record{Partition: 1, Value: []byte("one"), Timestamp: time.UnixMilli(time.Now().UnixMilli() - 5),
				Headers: []kgo.RecordHeader{{Key: "b"}, {Key: "id", Value: []byte("the same")}, {Key: "b", Value: []byte{0}}}}
			second := *first
			second.Partition, second.Timestamp = 4, time.UnixMilli(time.Now().AddDate(10, 0, 0).UnixMilli())
			s.write(first)
			d := s.run()
			s.settle(d, scope)
			s.write(&second)
			s.settle(d, scope)
			sum := d.stop()
			if sum.In != 2 || sum.Out != uint64(copies) || sum.Ahead != 1 {
				t.Errorf("the summary is %+v, want 2 in, %d out, one ahead of the clock", sum, copies)
			}
			got := s.read(s.out)
			sameRecords(t, got[1], []*kgo.Record{first})
			sameRecords(t, got[4], []*kgo.Record{&second}[:copies-1])
			if scope == "topic" {
				s.grow(first)
			}
		})
	}
}

// settle waits until all is judged.
func (s *scene) settle(d *daemon, scope string) {
	s.t.Helper()
	if scope == "topic" {
		s.throughBoth(d)
		return
	}
	s.caughtUp(d)
}

// grow gives the input and the output more partitions, and writes a known ID to a
// new one.
func (s *scene) grow(known *kgo.Record) {
	s.t.Helper()
	d := s.run()
	d.ready(12) // six of the input, six between the stages
	s.addPartitions(s.in, 12)
	s.addPartitions(s.out, 12)
	d.ends(1)
	d.line("error: ", s.in, "had 6 partitions, now it has 12")
	d = s.run()
	copied := *known
	copied.Partition = 9
	s.write(&copied)
	d.ready(18)
	s.throughBoth(d)
	if sum := d.stop(); sum.In != 1 || sum.Duplicate != 1 {
		s.t.Errorf("the ID that moved to a new partition: %+v, want one duplicate", sum)
	}
}

// TestScopeTopicLeavesNoPartitionBehind reads a backlog of ninety minutes with a window
// of seven minutes, in two instances, of which one dies in the middle of it. One
// partition's records are large, so that its reading is slow. Copies lie up to six
// minutes apart, in two partitions: a window less the generation that partitions may
// be ahead of each other. Each ID comes out once.
func TestScopeTopicLeavesNoPartitionBehind(t *testing.T) {
	const partitions, span, far, events = 4, 90 * time.Minute, 6 * time.Minute, 6000
	random := rand.New(rand.NewPCG(seed(t), 3))
	s := newAcross(t, partitions)
	s.flags["window"], s.flags["commit-interval"], s.flags["state-dir"] = "7m", "20ms", "off"
	s.odd("jump")
	begin := time.Now().Add(-span - time.Hour)
	var records []*kgo.Record
	want := map[string]bool{}
	add := func(p int32, id string, at time.Duration) {
		r := event(p, id)
		if p == 0 {
			r.Value = fmt.Appendf(nil, `{"id":%q,"pad":%q}`, id, strings.Repeat("x", 4000))
		}
		r.Timestamp = begin.Add(at).Truncate(time.Millisecond)
		records = append(records, r)
	}
	for i := range events {
		id, at := fmt.Sprint("id-", i), span*time.Duration(i)/events
		want[id] = true
		p := random.Int32N(partitions)
		add(p, id, at)
		if i%2 == 0 {
			add((p+1+random.Int32N(partitions-1))%partitions, id, at+time.Duration(random.Int64N(int64(2*far)))-far)
		}
	}
	slices.SortStableFunc(records, func(a, b *kgo.Record) int { return cmp.Compare(a.Timestamp.UnixMilli(), b.Timestamp.UnixMilli()) })
	s.write(records...)

	a, b := s.run("txn-timeout=6s"), s.run("instance=b", "txn-timeout=6s")
	await(t, "a third is through", func() bool { return s.behind() < int64(len(records))*2/3 }, a.done)
	a.kill()
	a = s.run("txn-timeout=6s")
	s.throughBoth(a)
	a.stop()
	b.stop()

	got := map[string]int{}
	for _, records := range s.read(s.out) {
		for _, r := range records {
			got[idOf(r)]++
		}
	}
	missed, lost := 0, 0
	for id := range want {
		switch {
		case got[id] == 0:
			lost++
		case got[id] > 1:
			missed++
		}
	}
	if missed > 0 || lost > 0 || len(got) != len(want) {
		t.Errorf("%d IDs came out, want %d: %d more than once, %d never", len(got), len(want), missed, lost)
	}
}

// idOf is the ID of an event, found without a JSON parser.
func idOf(r *kgo.Record) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(string(r.Value), `{"id":"`), `"`)
	return id
}
