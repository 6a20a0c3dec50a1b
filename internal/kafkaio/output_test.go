package kafkaio

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
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

func TestAccept(t *testing.T) {
	const now, slack = int64(1_700_000_000_000), int64(5_000)
	f := func(o output, in, want int64) {
		t.Helper()
		if got := o.accept(in, now, slack); got != want {
			t.Errorf("accept(%d) with %+v = %d, want %d", in, o, got, want)
		}
	}
	hour := output{clock: true, before: math.MaxInt64, after: 3_600_000}
	f(hour, now, now)
	f(hour, 0, 0)
	f(hour, -5, -5)
	f(hour, noTimestamp, noTimestamp)
	f(hour, now+3_000_000, now+3_000_000)
	f(hour, now+3_600_001, now+3_600_000-slack)
	f(hour, math.MaxInt64, now+3_600_000-slack)
	f(output{clock: true, before: 1000, after: math.MaxInt64}, now-5000, now)
	f(output{clock: true, before: 60_000, after: math.MaxInt64}, now-70_000, now-60_000+slack)
	f(output{before: 1, after: 1}, now+5000, now+5000) // the broker's clock replaces it
	f(output{clock: true, before: math.MaxInt64, after: math.MaxInt64}, math.MaxInt64, maxMillis)
	f(output{clock: true, before: math.MaxInt64, after: math.MaxInt64}, math.MinInt64, -maxMillis)
}

// What our own arithmetic lets through, the client and the broker take; one byte
// more is refused by both.
func TestTooLargeIsWhatTheBrokerRefuses(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	small := "2000"
	topic := kafkatest.Topic(t, brokers, 1, map[string]*string{"max.message.bytes": &small})
	s := &scene{t: t, brokers: brokers}
	o := &output{topic: topic, partitions: 1, maxBytes: 2000}
	ours := s.client(kgo.ProducerBatchMaxBytesFn(outputs{out: o}.batchLimit), kgo.ProducerBatchCompression(kgo.NoCompression()))
	plain := s.client(kgo.ProducerBatchCompression(kgo.NoCompression()))
	// The client counts for the longest request while it does not know the broker's.
	if err := ours.ProduceSync(ctx(t), &kgo.Record{Topic: topic}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for _, headers := range [][]kgo.RecordHeader{nil, {{Key: "a", Value: []byte("b")}, {Key: "a"}}} {
		for size := 1880; size < 1960; size++ {
			r := func() *kgo.Record {
				return &kgo.Record{Topic: topic, Value: bytes.Repeat([]byte("v"), size), Headers: headers}
			}
			large := o.tooLarge(r())
			if got := ours.ProduceSync(ctx(t), r()).FirstErr() != nil; got != large {
				t.Errorf("value of %d bytes, %d headers: our client refuses it: %v, we say %v", size, len(headers), got, large)
			}
			if got := plain.ProduceSync(ctx(t), r()).FirstErr() != nil; got != large {
				t.Errorf("value of %d bytes, %d headers: the broker refuses it: %v, we say %v", size, len(headers), got, large)
			}
		}
	}
}

// P6: what passes has its own bytes.
func TestBytesAreUntouched(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.rules.Keys = []string{"header:id"}
		s.cfg.Headers = true
		at := time.UnixMilli(time.Now().UnixMilli())
		id := func(n int) kgo.RecordHeader {
			return kgo.RecordHeader{Key: "id", Value: fmt.Appendf(nil, "%d", n)}
		}
		in := []*kgo.Record{
			{Key: nil, Value: nil, Headers: []kgo.RecordHeader{id(0)}},
			{Key: []byte{}, Value: []byte{}, Headers: []kgo.RecordHeader{id(1)}},
			{Key: []byte("k"), Value: []byte{0, 255, '\n'}, Headers: []kgo.RecordHeader{
				{Key: "b", Value: []byte("2")}, {Key: "a"}, {Key: "b", Value: []byte{}}, id(2), {Key: "", Value: []byte("x")}}},
			{Value: []byte("old"), Headers: []kgo.RecordHeader{id(3)}, Timestamp: time.UnixMilli(1)},
			{Value: []byte("none"), Headers: []kgo.RecordHeader{id(4)}, Timestamp: time.UnixMilli(-1)},
		}
		for _, r := range in {
			r.Topic, r.Partition = s.cfg.In[0], 1
			if r.Timestamp.IsZero() {
				r.Timestamp = at
			}
		}
		s.write(in...)
		r := s.start()
		r.judged(len(in))
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		got := s.read(s.cfg.Out)
		if len(got) != len(in) {
			t.Fatalf("%d records came out, want %d", len(got), len(in))
		}
		// The input as its readers see it: what the broker keeps of an empty header
		// value is its own affair.
		for i, want := range s.read(s.cfg.In[0]) {
			out := got[i]
			if out.Partition != want.Partition || !out.Timestamp.Equal(want.Timestamp) {
				t.Errorf("record %d: partition %d, time %v; want %d, %v", i, out.Partition, out.Timestamp, want.Partition, want.Timestamp)
			}
			if !reflect.DeepEqual(out.Key, want.Key) || !reflect.DeepEqual(out.Value, want.Value) || !reflect.DeepEqual(out.Headers, want.Headers) {
				t.Errorf("record %d is %q %q %v, want %q %q %v", i, out.Key, out.Value, out.Headers, want.Key, want.Value, want.Headers)
			}
		}
		if n := r.engine.Snapshot().Counts.Marked(pipeline.Retimed); n != 0 {
			t.Errorf("%d records were retimed, want none", n)
		}
	})
}

// A time that the output would refuse is moved, marked, and stops nobody.
func TestRetimed(t *testing.T) {
	s := newScene(t, kafkatest.Brokers(t), 1)
	far := s.record(0, "far")
	far.Timestamp = time.Now().Add(3 * time.Hour)
	free := fmt.Sprint(int64(math.MaxInt64))
	s.cfg.In = []string{kafkatest.Topic(t, s.brokers, 1, map[string]*string{"message.timestamp.after.max.ms": &free})}
	far.Topic = s.cfg.In[0]
	s.write(far, s.record(0, "near"))
	r := s.start()
	r.judged(2)
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	if n := r.engine.Snapshot().Counts.Marked(pipeline.Retimed); n != 1 {
		t.Errorf("%d records were retimed, want 1", n)
	}
	for _, out := range s.read(s.cfg.Out) {
		if ahead := time.Until(out.Timestamp); ahead > time.Hour {
			t.Errorf("%s lies %v ahead", out.Value, ahead)
		}
	}
	same(t, s.output(s.cfg.Out), map[string]int{"far": 1, "near": 1})
}

// One record that is too large for the output goes to the divert topic with where
// it came from, or stops its partition and no other.
func TestCase_EOS_18(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		small := "10000"
		limits := map[string]*string{"max.message.bytes": &small}
		prepare := func(t *testing.T) *scene {
			s := newScene(t, brokers, 2)
			s.cfg.Out = kafkatest.Topic(t, brokers, 2, limits)
			log := s.logged()
			t.Cleanup(func() { log.has(t, "takes smaller records than the input", "max_message_bytes=10000", s.cfg.In[0]) })
			s.unique(200)
			big := s.record(0, strings.Repeat("x", 50_000))
			big.Headers = []kgo.RecordHeader{{Key: "own", Value: []byte("1")}}
			s.write(big)
			s.unique(300)
			return s
		}
		t.Run("divert", func(t *testing.T) {
			s := prepare(t)
			s.cfg.Divert = kafkatest.Topic(t, brokers, 1, nil)
			s.rules.Diverts = true
			r := s.start()
			r.judged(1001)
			if err := r.finish(); err != nil {
				t.Fatal(err)
			}
			same(t, s.output(s.cfg.Out), s.wanted())
			diverted := s.read(s.cfg.Divert)
			if len(diverted) != 1 || len(diverted[0].Value) != 50_000 {
				t.Fatalf("%d records were diverted, want the large one", len(diverted))
			}
			want := []kgo.RecordHeader{{Key: "own", Value: []byte("1")}, {Key: HeaderReason, Value: []byte("too_large")},
				{Key: HeaderTopic, Value: []byte(s.cfg.In[0])}, {Key: HeaderPartition, Value: []byte("0")}, {Key: HeaderOffset, Value: []byte("200")}}
			if !reflect.DeepEqual(diverted[0].Headers, want) {
				t.Errorf("its headers are %v, want %v", diverted[0].Headers, want)
			}
		})
		t.Run("refused by both", func(t *testing.T) {
			s := prepare(t)
			s.cfg.Divert = kafkatest.Topic(t, brokers, 1, limits)
			s.rules.Diverts = true
			stopsAtLarge(t, s)
		})
		t.Run("stop", func(t *testing.T) { stopsAtLarge(t, prepare(t)) })
	})
}

func stopsAtLarge(t *testing.T, s *scene) {
	t.Helper()
	r := s.start()
	r.judged(700)
	for i := range 50 { // its neighbour goes on
		s.write(s.record(1, fmt.Sprintf("p1-%d", 500+i)))
	}
	r.judged(750)
	err := r.finish()
	var stop *pipeline.Stop
	if !errors.As(err, &stop) || stop.Offset != 200 || stop.Partition.Number != 0 || stop.Reason != pipeline.ReasonTooLarge {
		t.Errorf("the engine ended with %v, want partition 0 stopped before offset 200: too large", err)
	}
	s.next[1] += 50
	want := s.wanted()
	for i := 200; i < 500; i++ {
		delete(want, fmt.Sprintf("p0-%d", i))
	}
	same(t, s.output(s.cfg.Out), want)
}

// A limit that is lowered while we run is noticed; nobody is blamed for it.
func TestLoweredLimit(t *testing.T) {
	t.Parallel()
	s := newScene(t, kafkatest.Brokers(t), 1)
	r := s.start()
	value := strings.Repeat("v", 4000)
	want := map[string]int{}
	write := func(round int) {
		var records []*kgo.Record
		for i := range 100 {
			id := fmt.Sprintf("%s-%d-%d", value, round, i)
			want[id] = 1
			records = append(records, s.record(0, id))
		}
		s.write(records...)
	}
	write(0)
	r.judged(100)
	s.lower(s.cfg.Out, 20000)
	write(1)
	r.judged(200)
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	same(t, s.output(s.cfg.Out), want)
}

// What is refused for good ends the process, which says what to do. A retry would
// be refused for ever.
func TestRefusedForGood(t *testing.T) {
	t.Parallel()
	t.Run("records without a key", func(t *testing.T) {
		s := newScene(t, kafkatest.Brokers(t), 2)
		compact := "compact"
		s.cfg.Out = kafkatest.Topic(t, s.brokers, 2, map[string]*string{"cleanup.policy": &compact})
		endsRefused(t, s, kerr.InvalidRecord)
	})
	t.Run("an output that is another", func(t *testing.T) {
		s := newScene(t, kafkatest.Brokers(t), 2)
		r := s.start()
		s.unique(10)
		r.judged(20)
		adm := kadm.NewClient(s.client())
		if _, err := adm.DeleteTopic(ctx(t), s.cfg.Out); err != nil {
			t.Fatal(err)
		}
		until(t, "the name is free", func() bool {
			_, err := adm.CreateTopic(ctx(t), 2, 1, nil, s.cfg.Out)
			return err == nil
		})
		s.unique(10)
		// The broker says it first, or the watcher of the topics does.
		r.endsFor(kerr.UnknownTopicID, "was deleted and made again")
	})
	t.Run("the group's offsets", func(t *testing.T) {
		cluster := kafkatest.Fake(t, kfake.NumBrokers(1))
		cluster.ControlKey(kmsg.NewPtrTxnOffsetCommitRequest().Key(), func(req kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
			for _, asked := range req.(*kmsg.TxnOffsetCommitRequest).Topics {
				topic := kmsg.TxnOffsetCommitResponseTopic{Topic: asked.Topic, TopicID: asked.TopicID}
				for _, part := range asked.Partitions {
					topic.Partitions = append(topic.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{
						Partition: part.Partition, ErrorCode: kerr.GroupAuthorizationFailed.Code})
				}
				resp.Topics = append(resp.Topics, topic)
			}
			return resp, nil, true
		})
		endsRefused(t, newScene(t, cluster.ListenAddrs(), 2), kerr.GroupAuthorizationFailed)
	})
}

func endsRefused(t *testing.T, s *scene, refusal error) {
	t.Helper()
	s.unique(10)
	s.start().endsRefused(refusal)
	same(t, s.output(s.cfg.Out), map[string]int{})
}

func (r *run) endsRefused(refusal error) {
	r.t.Helper()
	r.endsFor(refusal, "")
}

// endsFor waits for an end with the refusal, or with an error that says the words.
func (r *run) endsFor(refusal error, words string) {
	r.t.Helper()
	select {
	case err := <-r.end:
		close(r.end)
		var hinted *Error
		said := words != "" && err != nil && strings.Contains(err.Error(), words)
		if !errors.Is(err, refusal) && !said || !errors.As(err, &hinted) || hinted.Hint() == "" {
			r.t.Errorf("the engine ended with %v, want %v and a hint", err, refusal)
		}
	case <-time.After(limit):
		r.t.Error("the engine goes on")
	}
}
