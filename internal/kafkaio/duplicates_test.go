package kafkaio

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// ends lets a run come to its end and checks what it has counted.
func (r *run) ends() pipeline.Counts {
	r.t.Helper()
	if err := r.finish(); err != nil {
		r.t.Fatal(err)
	}
	counts := r.engine.Snapshot().Counts
	if err := counts.Check(); err != nil {
		r.t.Error(err)
	}
	return counts
}

// aged fails unless a header is the last, and an age as far as generations go.
func (s *scene) aged(r *kgo.Record, name string, want time.Duration) {
	s.t.Helper()
	if len(r.Headers) == 0 || r.Headers[len(r.Headers)-1].Key != name {
		s.t.Errorf("%s has the headers %v, want %s at the end", r.Value, r.Headers, name)
		return
	}
	seconds, err := strconv.Atoi(string(r.Headers[len(r.Headers)-1].Value))
	slice := time.Duration(s.rules.Window.Slice()) * time.Millisecond
	if got := time.Duration(seconds) * time.Second; err != nil || (got-want).Abs() > slice {
		s.t.Errorf("%s has a first copy of %v ago (%v), want %v, give or take %v", r.Value, got, err, want, slice)
	}
}

// Each dropped duplicate has a copy in its topic, with where it was and how old the
// first copy is. Nothing else has, and the output has none of them.
func TestDuplicatesHaveCopies(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		for _, delivery := range []Delivery{ExactlyOnce, AtLeastOnce} {
			s := newScene(t, brokers, 3)
			s.cfg.Delivery = delivery
			s.cfg.Duplicates = kafkatest.Topic(t, brokers, 2, nil)
			old := s.record(0, "old")
			old.Timestamp = s.at.Add(-40 * time.Minute)
			own := s.record(0, "old")
			own.Headers = []kgo.RecordHeader{{Key: HeaderAge, Value: []byte("own")}}
			s.write(old, own)
			s.unique(20)
			s.again()
			r := s.start()
			r.judged(122)
			if c := r.ends(); c.Fates[pipeline.Dropped] != 61 || c.Fates[pipeline.Out] != 61 {
				t.Errorf("%d dropped and %d out, want 61 of both", c.Fates[pipeline.Dropped], c.Fates[pipeline.Out])
			}
			want := s.wanted()
			want["old"] = 1
			same(t, s.output(s.cfg.Out), want)
			same(t, s.output(s.cfg.Duplicates), want)
			for _, r := range s.read(s.cfg.Duplicates) {
				if string(r.Value) == "old" {
					s.aged(r, HeaderAge, 40*time.Minute)
					if len(r.Headers) != 6 || string(r.Headers[0].Value) != "own" {
						t.Errorf("the copy has the headers %v, want its own first", r.Headers)
					}
					continue
				}
				var partition int32
				var n int64
				if _, err := fmt.Sscanf(string(r.Value), "p%d-%d", &partition, &n); err != nil {
					t.Fatal(err)
				}
				at := 20 + n
				if partition == 0 {
					at += 2
				}
				wanted := []kgo.RecordHeader{{Key: HeaderReason, Value: []byte("duplicate")}, {Key: HeaderTopic, Value: []byte(s.cfg.In[0])},
					{Key: HeaderPartition, Value: fmt.Append(nil, partition)}, {Key: HeaderOffset, Value: fmt.Append(nil, at)},
					{Key: HeaderAge, Value: []byte("0")}}
				if !reflect.DeepEqual(r.Headers, wanted) || r.Partition != partition%2 {
					t.Errorf("the copy of %s is in partition %d with the headers %v, want %d and %v", r.Value, r.Partition, r.Headers, partition%2, wanted)
				}
			}
		}
	})
}

// Tagged duplicates come out in their places, with one header more. First copies have
// none.
func TestDuplicatesAreTagged(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		for _, delivery := range []Delivery{ExactlyOnce, AtLeastOnce} {
			s := newScene(t, brokers, 1)
			s.cfg.Delivery = delivery
			s.cfg.Tags, s.rules.OnDuplicate = true, pipeline.TagDuplicates
			old := s.record(0, "a")
			old.Timestamp = s.at.Add(-40 * time.Minute)
			again := s.record(0, "a")
			again.Headers = []kgo.RecordHeader{{Key: "own", Value: []byte("1")}}
			s.write(old, s.record(0, "b"), again, s.record(0, "c"), s.record(0, "b"))
			r := s.start()
			r.judged(5)
			c := r.ends()
			if c.Verdicts[pipeline.Duplicate] != 2 || c.Fates[pipeline.Out] != 5 {
				t.Errorf("%d duplicates and %d out, want 2 and 5", c.Verdicts[pipeline.Duplicate], c.Fates[pipeline.Out])
			}
			got := s.read(s.cfg.Out)
			if len(got) != 5 {
				t.Fatalf("%d records came out, want 5", len(got))
			}
			for i, want := range s.read(s.cfg.In[0]) {
				out := got[i]
				switch i {
				case 2:
					s.aged(out, HeaderDuplicate, 40*time.Minute)
				case 4:
					s.aged(out, HeaderDuplicate, 0)
				}
				own := len(want.Headers)
				if i == 2 || i == 4 {
					own++
				}
				if string(out.Value) != string(want.Value) || !out.Timestamp.Equal(want.Timestamp) || len(out.Headers) != own {
					t.Errorf("record %d is %s %v %v, want %s %v %v", i, out.Value, out.Timestamp, out.Headers, want.Value, want.Timestamp, want.Headers)
				}
			}
		}
	})
}

// A tagged duplicate has a copy as well, which shows what would be dropped: without the
// tag, and with the time that the record came with.
func TestTaggedDuplicatesHaveCopies(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		for _, delivery := range []Delivery{ExactlyOnce, AtLeastOnce} {
			s := newScene(t, brokers, 2)
			s.cfg.Delivery = delivery
			s.cfg.Tags, s.rules.OnDuplicate = true, pipeline.TagDuplicates
			s.cfg.Duplicates = kafkatest.Topic(t, brokers, 1, map[string]*string{"max.message.bytes": kadm.StringPtr("2000")})
			large := strings.Repeat("x", 3000)
			s.unique(20)
			s.write(s.record(1, large))
			again := s.record(0, "p0-7")
			again.Headers = []kgo.RecordHeader{{Key: "own", Value: []byte("1")}}
			again.Timestamp = s.at.Add(-10 * time.Second).Truncate(time.Millisecond)
			s.write(again, s.record(1, large), s.record(1, "p1-0"))
			r := s.start()
			r.judged(44)
			if c := r.ends(); c.Fates[pipeline.Out] != 44 || c.Fates[pipeline.Dropped] != 0 {
				t.Errorf("%d out and %d dropped, want 44 and none", c.Fates[pipeline.Out], c.Fates[pipeline.Dropped])
			}
			if n := r.session.NotCopied(); n != 1 {
				t.Errorf("%d were not copied, want 1", n)
			}
			same(t, s.output(s.cfg.Duplicates), map[string]int{"p0-7": 1, "p1-0": 1})
			for _, c := range s.read(s.cfg.Duplicates) {
				if string(c.Value) != "p0-7" {
					continue
				}
				wanted := []kgo.RecordHeader{{Key: "own", Value: []byte("1")}, {Key: HeaderReason, Value: []byte("duplicate")}, {Key: HeaderTopic, Value: []byte(s.cfg.In[0])},
					{Key: HeaderPartition, Value: []byte("0")}, {Key: HeaderOffset, Value: []byte("20")}, {Key: HeaderAge, Value: []byte("0")}}
				if !reflect.DeepEqual(c.Headers, wanted) || !c.Timestamp.Equal(again.Timestamp) {
					t.Errorf("the copy has time %v and the headers %v, want %v and %v", c.Timestamp, c.Headers, again.Timestamp, wanted)
				}
			}
			tagged := map[string]int{}
			for _, out := range s.read(s.cfg.Out) {
				if n := len(out.Headers); n > 0 && out.Headers[n-1].Key == HeaderDuplicate {
					tagged[string(out.Value)] += n
				}
			}
			same(t, tagged, map[string]int{"p0-7": 2, "p1-0": 1, large: 1})
		}
	})
}

// With a scope of the topic a copy and a tag say where a record was in the input, and
// nothing of the topic between.
func TestDuplicatesOfStages(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 3)
		s.cfg.Duplicates, s.cfg.CreateTopics = s.cfg.Out+"-again", true
		s.deleteAfter(s.cfg.Duplicates)
		s.unique(5)
		r := s.startStages(s.cfg)
		r.judged(15)
		s.write(s.record(2, "p0-3"))
		r.judged(16)
		r.ends()
		copies := s.read(s.cfg.Duplicates)
		want := []kgo.RecordHeader{{Key: HeaderReason, Value: []byte("duplicate")}, {Key: HeaderTopic, Value: []byte(s.cfg.In[0])},
			{Key: HeaderPartition, Value: []byte("2")}, {Key: HeaderOffset, Value: []byte("5")}, {Key: HeaderAge, Value: []byte("0")}}
		if len(copies) != 1 || copies[0].Partition != 2 || !reflect.DeepEqual(copies[0].Headers, want) {
			t.Fatalf("the copies are %+v, want one with %v", copies, want)
		}
		s.cfg.Tags, s.rules.OnDuplicate = true, pipeline.TagDuplicates
		s.write(s.record(1, "p0-3"))
		r = s.startStages(s.cfg)
		r.judged(1)
		r.ends()
		var tagged []*kgo.Record
		for _, r := range s.read(s.cfg.Out) {
			if len(r.Headers) > 0 {
				tagged = append(tagged, r)
			}
		}
		if want := []kgo.RecordHeader{{Key: HeaderDuplicate, Value: []byte("0")}}; len(tagged) != 1 || tagged[0].Partition != 1 ||
			!reflect.DeepEqual(tagged[0].Headers, want) {
			t.Errorf("tagged are %+v, want one in partition 1 with %v", tagged, want)
		}
	})
}

// What is too large for its topic is dropped without a copy, once it is committed it is
// counted, and nobody stops.
func TestDuplicateThatIsTooLargeToCopy(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.cfg.Duplicates = kafkatest.Topic(t, brokers, 1, map[string]*string{"max.message.bytes": kadm.StringPtr("2000")})
		log := s.logged()
		large := strings.Repeat("x", 3000)
		s.write(s.record(0, large), s.record(0, "small"), s.record(0, large), s.record(0, "small"))
		h := s.byHand()
		h.cycle(4)
		h.abort()
		if n := h.session.NotCopied(); n != 0 {
			t.Errorf("%d were not copied in a cycle that was aborted, want none counted", n)
		}
		h.cycle(4)
		if got := h.commit(); got.Settlement != pipeline.Committed {
			t.Fatalf("commit: %+v", got)
		}
		if n := h.session.NotCopied(); n != 1 {
			t.Errorf("%d were not copied, want 1", n)
		}
		log.has(t, "of a duplicate that is too large for it there is no copy", "there is no copy of it", "offset=2", "max_message_bytes=2000")
		same(t, s.output(s.cfg.Out), map[string]int{large: 1, "small": 1})
		same(t, s.output(s.cfg.Duplicates), map[string]int{"small": 1})
	})
}

// A topic for duplicates that refuses what it should take, and one whose limit was
// lowered, hold up nobody.
func TestCopiesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := func(t *testing.T, tags bool) {
		cluster := kafkatest.Fake(t, kfake.NumBrokers(1))
		s := newScene(t, cluster.ListenAddrs(), 1)
		want := map[bool]int{false: 1, true: 2}[tags] // of each of the ten that came again
		if s.cfg.Tags = tags; tags {
			s.rules.OnDuplicate = pipeline.TagDuplicates
		}
		s.cfg.Duplicates = kafkatest.Topic(t, cluster.ListenAddrs(), 1, nil)
		duplicates := extentsOf(t, s, s.cfg.Duplicates).id
		cluster.ControlKey(kmsg.NewPtrProduceRequest().Key(), func(req kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			ours := false
			resp := req.ResponseKind().(*kmsg.ProduceResponse)
			for _, asked := range req.(*kmsg.ProduceRequest).Topics {
				ours = ours || asked.Topic == s.cfg.Duplicates || asked.TopicID == duplicates
				topic := kmsg.ProduceResponseTopic{Topic: asked.Topic, TopicID: asked.TopicID}
				for _, part := range asked.Partitions {
					topic.Partitions = append(topic.Partitions, kmsg.ProduceResponseTopicPartition{
						Partition: part.Partition, ErrorCode: kerr.MessageTooLarge.Code})
				}
				resp.Topics = append(resp.Topics, topic)
			}
			return resp, nil, ours
		})
		s.unique(10)
		again := s.wanted()
		s.again()
		r := s.start()
		r.judged(20)
		s.unique(1)
		r.judged(21)
		r.ends()
		if n := r.session.NotCopied(); n != 10 {
			t.Errorf("%d were not copied, want 10", n)
		}
		if n := len(r.session.copies.refused); n != 0 {
			t.Errorf("%d refusals are kept behind the partition's position", n)
		}
		wanted := s.wanted()
		for id := range again {
			wanted[id] = want
		}
		same(t, s.output(s.cfg.Out), wanted)
	}
	t.Run("for no reason", func(t *testing.T) { f(t, false) })
	t.Run("for no reason, and tagged", func(t *testing.T) { f(t, true) })
	t.Run("of a lowered limit", func(t *testing.T) {
		s := newScene(t, kafkatest.Brokers(t), 1)
		s.cfg.Duplicates = kafkatest.Topic(t, s.brokers, 1, nil)
		s.cfg.Compression = "none"
		large := strings.Repeat("x", 3000)
		s.write(s.record(0, large), s.record(0, large))
		r := s.start()
		r.judged(2)
		s.lower(s.cfg.Duplicates, 2000)
		s.write(s.record(0, large), s.record(0, "b"), s.record(0, "b"))
		r.judged(5)
		r.ends()
		if n := r.session.NotCopied(); n != 1 {
			t.Errorf("%d were not copied, want 1", n)
		}
		same(t, s.output(s.cfg.Out), map[string]int{large: 1, "b": 1})
		same(t, s.output(s.cfg.Duplicates), map[string]int{large: 1, "b": 1})
	})
}

// A time that the topic for duplicates would refuse is moved; that is no mark of the
// record.
func TestTimesOfCopiesAreMoved(t *testing.T) {
	t.Parallel()
	s := newScene(t, kafkatest.Brokers(t), 1)
	hour := "3600000"
	s.cfg.Duplicates = kafkatest.Topic(t, s.brokers, 1, map[string]*string{"message.timestamp.before.max.ms": &hour})
	long := s.record(0, "a")
	long.Timestamp = time.Now().Add(-5 * time.Hour)
	s.write(s.record(0, "a"), long)
	r := s.start()
	r.judged(2)
	if c := r.ends(); c.Marked(pipeline.Retimed) != 0 {
		t.Errorf("%d records were retimed, want none", c.Marked(pipeline.Retimed))
	}
	copies := s.read(s.cfg.Duplicates)
	if len(copies) != 1 || copies[0].Timestamp.Before(s.at.Add(-time.Hour)) {
		t.Errorf("the copies are %+v, want one of less than an hour before %v", copies, s.at)
	}
}

// A client may know less of a topic than we do, such as partitions that are new: a
// broker that has not heard of them has told it. It asks again, and not after minutes.
func TestPartitionsThatTheClientDoesNotKnow(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.cfg.Duplicates = kafkatest.Topic(t, brokers, 1, nil)
		s.unique(1)
		s.again()
		h := s.byHand()
		h.cycle(4)
		h.commits()
		s.grow(2, s.cfg.Duplicates)
		h.session.found.outputs.duplicates.partitions = 2
		s.again()
		until(t, "the copies are written", func() bool {
			h.cycle(2)
			return h.commit().Settlement == pipeline.Committed
		})
		same(t, s.output(s.cfg.Duplicates), map[string]int{"p0-0": 2, "p1-0": 2})
	})
}

// A compacted topic would take no copy without a key, and keep one of each.
func TestOpenRefusesACompactedTopicForDuplicates(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.cfg.Duplicates = "nowhere"
		s.refuses("--create-topics", `"nowhere" does not exist`)
		s.cfg.Duplicates = kafkatest.Topic(t, brokers, 1, map[string]*string{"cleanup.policy": kadm.StringPtr("compact")})
		s.refuses("cleanup.policy=delete", s.cfg.Duplicates, "compact")
		for _, taken := range []string{s.cfg.In[0], s.cfg.Out} {
			s.cfg.Duplicates = taken
			if _, err := Open(ctx(t), s.cfg); err == nil || !strings.Contains(err.Error(), "Duplicates is "+strconv.Quote(taken)) {
				t.Errorf("duplicates to %s: %v", taken, err)
			}
		}
	})
}

// A record that only its tag makes too large for the output is too large where
// duplicates are tagged, and nowhere else.
func TestTagCountsIntoTheSize(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		for _, tags := range []bool{false, true} {
			s := newScene(t, brokers, 1)
			s.cfg.Out = kafkatest.Topic(t, brokers, 1, map[string]*string{"max.message.bytes": kadm.StringPtr("2000")})
			s.cfg.Tags = tags
			if tags {
				s.rules.OnDuplicate = pipeline.TagDuplicates
			}
			s.write(s.record(0, strings.Repeat("x", 1900)))
			r := s.start()
			if !tags {
				r.judged(1)
				r.ends()
				continue
			}
			var stop *pipeline.Stop
			if err := <-r.end; !errors.As(err, &stop) || stop.Reason != pipeline.ReasonTooLarge {
				t.Errorf("the engine ended with %v, want too_large", err)
			}
			close(r.end)
		}
	})
}
