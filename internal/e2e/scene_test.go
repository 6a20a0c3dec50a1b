//go:build unix

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// scene is an input and an output on the tests' Kafka, and what must come out.
type scene struct {
	t          *testing.T
	brokers    []string
	client     *kgo.Client
	admin      *kadm.Client
	in, out    string
	group      string
	partitions int32
	flags      map[string]string
	keys       []string  // key specs, whose flag may be given more than once
	at         time.Time // when the events of ids are of, zero for now

	odds    []string // the marks that records may have
	written int
	// want are the values that must come out, by partition and in order.
	want map[int32][]string
	seen map[int32]map[string]bool
}

// settings are those of a topic.
type settings map[string]string

// topic makes a topic with these settings.
func (s settings) topic(t *testing.T, brokers []string, partitions int32) string {
	t.Helper()
	configs := map[string]*string{}
	for name, value := range s {
		configs[name] = kadm.StringPtr(value)
	}
	return kafkatest.Topic(t, brokers, partitions, configs)
}

// newScene is a scene on a real broker.
func newScene(t *testing.T, partitions int32, in, out settings) *scene {
	t.Helper()
	return newSceneOn(t, kafkatest.Brokers(t), partitions, in, out)
}

// everyBroker runs a test on an embedded broker and, where there is one, on a real one.
func everyBroker(t *testing.T, test func(t *testing.T, brokers []string)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { test(t, kafkatest.Fake(t, kfake.NumBrokers(1)).ListenAddrs()) })
	t.Run("real", func(t *testing.T) { test(t, kafkatest.Brokers(t)) })
}

func newSceneOn(t *testing.T, brokers []string, partitions int32, in, out settings) *scene {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.ProducerBatchMaxBytes(8<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s := &scene{
		t: t, brokers: brokers, client: client, admin: kadm.NewClient(client), partitions: partitions,
		in: in.topic(t, brokers, partitions), out: out.topic(t, brokers, partitions),
		want: map[int32][]string{}, seen: map[int32]map[string]bool{},
	}
	s.group, s.keys = s.out, []string{"json:id"}
	s.deleteAfter(kafkaio.ChangelogTopic(s.group, s.in))
	s.flags = map[string]string{
		"brokers": strings.Join(brokers, ","), "in": s.in, "out": s.out, "group": s.group, "instance": "a",
		"window": "1h", "capacity": "100k", "fpr": "1e-6",
		"session-timeout": "6s", "commit-interval": "50ms", "metrics-addr": "127.0.0.1:0", "summary": "json",
		"state-dir": t.TempDir(), "checkpoint-interval": "300ms",
	}
	return s
}

// deleteAfter deletes topics that a process makes.
func (s *scene) deleteAfter(topics ...string) {
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit) // the test's own has ended
		defer cancel()
		if _, err := s.admin.DeleteTopics(ctx, topics...); err != nil { // not where there is none
			s.t.Error(err)
		}
	})
}

// run starts a processor of the stream. Each of more is a flag as name=value,
// which replaces the scene's.
func (s *scene) run(more ...string) *daemon {
	s.t.Helper()
	flags := maps.Clone(s.flags)
	for _, flag := range more {
		name, value, _ := strings.Cut(flag, "=")
		flags[name] = value
	}
	args := []string{"run"}
	if _, replaced := flags["key"]; !replaced {
		for _, key := range s.keys {
			args = append(args, "--key="+key)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		args = append(args, "--"+name+"="+flags[name])
	}
	d := launch(s.t, args...)
	d.odd = s.odds
	return d
}

// odd lets records have these marks. Without it a mark fails the test.
func (s *scene) odd(marks ...string) { s.odds = marks }

func (s *scene) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	s.t.Cleanup(cancel)
	return ctx
}

// write writes records to the input and waits for them.
func (s *scene) write(records ...*kgo.Record) {
	s.t.Helper()
	for _, r := range records {
		if r.Topic == "" {
			r.Topic = s.in
		}
	}
	if err := s.client.ProduceSync(s.ctx(), records...).FirstErr(); err != nil {
		s.t.Fatalf("write the input: %v", err)
	}
	s.written += len(records)
}

// event is a record with an ID, of now.
func event(partition int32, id string) *kgo.Record {
	return &kgo.Record{Partition: partition, Value: fmt.Appendf(nil, `{"id":%q}`, id), Timestamp: time.Now()}
}

// ids writes an event for each ID to a partition, in this order, and notes that
// first copies must come out.
func (s *scene) ids(partition int32, ids ...string) {
	s.t.Helper()
	var records []*kgo.Record
	for _, id := range ids {
		r := event(partition, id)
		r.Timestamp = cmp.Or(s.at, r.Timestamp)
		records = append(records, r)
		s.expect(partition, string(r.Value))
	}
	s.write(records...)
}

// together is ids in one batch, which is read as one: a client may cut what it is given
// at once.
func (s *scene) together(partition int32, ids ...string) {
	s.t.Helper()
	values := make([][]byte, len(ids))
	for i, id := range ids {
		values[i] = event(partition, id).Value
		s.expect(partition, string(values[i]))
	}
	kafkatest.WriteBatch(s.t, s.brokers, s.in, partition, kafkatest.Batch{
		Records: len(ids), Value: kafkatest.Values(func(i int) []byte { return values[i] })})
	s.written += len(ids)
}

// expect notes that the value must come out of a partition, unless it did.
func (s *scene) expect(partition int32, value string) {
	if s.seen[partition] == nil {
		s.seen[partition] = map[string]bool{}
	}
	if !s.seen[partition][value] {
		s.seen[partition][value] = true
		s.want[partition] = append(s.want[partition], value)
	}
}

// expectAgain notes that a value comes out once more: its first copy is one that
// nobody can remember.
func (s *scene) expectAgain(partition int32, values ...string) {
	s.want[partition] = append(s.want[partition], values...)
}

// series is prefix0, prefix1 and so on.
func series(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = prefix + strconv.Itoa(i)
	}
	return ids
}

// caughtUp waits until the group has committed the end of these partitions of
// the input, of all without any, while the process runs.
func (s *scene) caughtUp(d *daemon, partitions ...int32) {
	s.t.Helper()
	ctx := s.ctx()
	await(s.t, "the group is at the input's end", func() bool {
		ends, err := s.admin.ListCommittedOffsets(ctx, s.in)
		if err != nil {
			s.t.Fatal(err)
		}
		at, err := s.admin.FetchOffsets(ctx, s.group)
		if err != nil {
			return false // there is no group yet
		}
		for p := range s.partitions {
			end, _ := ends.Lookup(s.in, p)
			got, ok := at.Lookup(s.in, p)
			if (len(partitions) == 0 || slices.Contains(partitions, p)) && (!ok || got.At < end.Offset) {
				return false
			}
		}
		return true
	}, d.done)
}

// read reads a topic as a reader of committed records does, up to where it ends once
// its transactions have, with a client that has nothing of ours.
func (s *scene) read(topic string) map[int32][]*kgo.Record {
	s.t.Helper()
	ctx := s.ctx()
	starts, err := s.admin.ListStartOffsets(ctx, topic)
	if err != nil {
		s.t.Fatal(err)
	}
	ends := s.stable(topic)
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		if start, _ := starts.Lookup(topic, end.Partition); start.Offset < end.Offset {
			from[end.Partition] = kgo.NewOffset().At(start.Offset)
			left[end.Partition] = end.Offset
		}
	})
	got := map[int32][]*kgo.Record{}
	if len(left) == 0 {
		return got
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			s.t.Fatalf("read %s: %v", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < ends[topic][r.Partition].Offset && !r.Attrs.IsControl() {
				got[r.Partition] = append(got[r.Partition], r)
			}
			if r.Offset >= left[r.Partition]-1 {
				delete(left, r.Partition)
			}
		})
	}
	return got
}

// stable is where a topic ends, once its transactions have: a commit is done before its
// markers are in every partition, and nobody reads past where one is missing.
func (s *scene) stable(topic string) (ends kadm.ListedOffsets) {
	s.t.Helper()
	ctx := s.ctx()
	await(s.t, "the topic's transactions have ended", func() bool {
		var err error
		if ends, err = s.admin.ListEndOffsets(ctx, topic); err == nil {
			err = ends.Error()
		}
		if err != nil {
			s.t.Fatal(err)
		}
		stable, err := s.admin.ListCommittedOffsets(ctx, topic)
		if err != nil {
			s.t.Fatal(err)
		}
		for p, end := range ends[topic] {
			if at, known := stable.Lookup(topic, p); !known || at.Offset < end.Offset {
				return false
			}
		}
		return true
	}, nil)
	return ends
}

// check compares the output with what must have come out: each value once, in
// order.
func (s *scene) check() {
	s.t.Helper()
	got := s.read(s.out)
	for p := range s.partitions {
		values := make([]string, len(got[p]))
		for i, r := range got[p] {
			values[i] = string(r.Value)
		}
		if !slices.Equal(values, s.want[p]) {
			s.t.Errorf("partition %d of the output: %s", p, difference(values, s.want[p]))
		}
	}
}

// difference names a few of the differences of two lists.
func difference(got, want []string) string {
	times := map[string]int{}
	for _, v := range want {
		times[v]--
	}
	for _, v := range got {
		times[v]++
	}
	var names []string
	for _, v := range slices.Sorted(maps.Keys(times)) {
		if n := times[v]; n != 0 {
			names = append(names, fmt.Sprintf("%.100s %+d", v, n))
		}
	}
	text := fmt.Sprintf("%d records, want %d", len(got), len(want))
	if len(names) == 0 {
		return text + ", in another order"
	}
	return fmt.Sprintf("%s; %d values too often (+) or too rarely (-): %s", text, len(names), strings.Join(names[:min(10, len(names))], ", "))
}
