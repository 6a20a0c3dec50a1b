package kafkaio

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// readAll reads the values of a partition between two points.
func readAll(t *testing.T, topic *Topic, from, to int64) (values []string) {
	t.Helper()
	err := topic.Read(ctx(t), 0, from, to, func(_ int64, r *pipeline.Record) error {
		values = append(values, string(r.Value))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// at resolves a point of partition 0 as --start is written.
func at(t *testing.T, topic *Topic, text string) int64 {
	t.Helper()
	start, err := ParseStart(text)
	if err != nil {
		t.Fatal(err)
	}
	offset, err := topic.Find(ctx(t), 0, start)
	if err != nil {
		t.Fatal(err)
	}
	return offset
}

// written is where partition 0 ends, open transactions included.
func written(t *testing.T, topic *Topic) int64 {
	t.Helper()
	end, err := topic.Written(ctx(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// producer writes transactions to partition 0 of a topic.
type producer struct {
	t  *testing.T
	cl *kgo.Client
}

func newProducer(t *testing.T, brokers []string, topic string) producer {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic),
		kgo.TransactionTimeout(10*time.Minute)) // none ends by itself
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return producer{t, cl}
}

// begin leaves a transaction open.
func (p producer) begin(values ...string) {
	p.t.Helper()
	if err := p.cl.BeginTransaction(); err != nil {
		p.t.Fatal(err)
	}
	for _, v := range values {
		r := &kgo.Record{Value: []byte(v), Timestamp: time.UnixMilli(1_764_000_000_000)}
		if err := p.cl.ProduceSync(ctx(p.t), r).FirstErr(); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p producer) end(how kgo.TransactionEndTry) {
	p.t.Helper()
	if err := p.cl.EndTransaction(ctx(p.t), how); err != nil {
		p.t.Fatal(err)
	}
}

func (p producer) transaction(how kgo.TransactionEndTry, values ...string) {
	p.t.Helper()
	p.begin(values...)
	p.end(how)
}

// A topic is read as a reader of committed records sees it: not the aborted
// ones, and to the end although that is no record but a marker. What an open
// transaction holds is there, and cannot be read yet.
func TestTopicReadsWhatIsCommitted(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		name := kafkatest.Topic(t, brokers, 1, nil)
		p := newProducer(t, brokers, name)
		p.transaction(kgo.TryCommit, "a", "b") // marker at 2
		p.transaction(kgo.TryAbort, "x", "y")  // 5
		p.transaction(kgo.TryCommit, "c")      // 7
		p.transaction(kgo.TryAbort, "z")       // 9

		topic, err := OpenTopic(ctx(t), name, kgo.SeedBrokers(brokers...))
		if err != nil {
			t.Fatal(err)
		}
		defer topic.Close()
		if got := readAll(t, topic, at(t, topic, "earliest"), written(t, topic)); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("read %q, want a, b, c", got)
		}
		if got := readAll(t, topic, at(t, topic, "latest"), written(t, topic)); len(got) != 0 {
			t.Errorf("read %q from the end on", got)
		}
		p.begin("open")
		if stable, all := at(t, topic, "latest"), written(t, topic); stable != 10 || all != 11 {
			t.Errorf("%d can be read and %d is written, want 10 and 11", stable, all)
		}
		if got := at(t, topic, "2025-01-01T00:00:00Z"); got != 0 {
			t.Errorf("a time before all records is at %d, want 0", got)
		}
		// A time after all records is where reading ends, not where writing does.
		if got := at(t, topic, "2200-01-01T00:00:00Z"); got != 10 {
			t.Errorf("a time after all records is at %d, want 10", got)
		}
		p.end(kgo.TryAbort)
		if begin, err := topic.Begin(ctx(t), 0); begin != 0 || err != nil {
			t.Errorf("the topic begins at %d, %v", begin, err)
		}
	})
}

// What is written up to the end is read, also what lies in and behind a
// transaction that is open at first, and it is said once what is waited for.
func TestTopicWaitsForAnOpenTransaction(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		name := kafkatest.Topic(t, brokers, 1, nil)
		p := newProducer(t, brokers, name)
		p.transaction(kgo.TryCommit, "a") // marker at 1
		p.begin("b")
		other, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(name))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if err := other.ProduceSync(ctx(t), &kgo.Record{Value: []byte("c")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		topic, err := OpenTopic(ctx(t), name, kgo.SeedBrokers(brokers...))
		if err != nil {
			t.Fatal(err)
		}
		defer topic.Close()
		end := written(t, topic)
		waits := 0
		topic.OnWait = func(w OpenTransaction) {
			waits++
			if w.Partition != (pipeline.Partition{Topic: name}) || w.Offset != 2 || w.Patience != openPatience {
				t.Errorf("waits for %+v, want offset 2 and %v", w, openPatience)
			}
			p.end(kgo.TryCommit)
			p.transaction(kgo.TryCommit, "after")
		}
		if got := readAll(t, topic, 0, end); !slices.Equal(got, []string{"a", "b", "c"}) || waits != 1 {
			t.Errorf("read %q after %d waits, want a, b, c after 1", got, waits)
		}
	})
}

// A transaction that does not end is an error that names it, and never a shorter
// topic.
func TestTopicGivesUpAnOpenTransaction(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		name := kafkatest.Topic(t, brokers, 1, nil)
		p := newProducer(t, brokers, name)
		p.transaction(kgo.TryCommit, "a")
		p.begin("b")
		topic, err := OpenTopic(ctx(t), name, kgo.SeedBrokers(brokers...))
		if err != nil {
			t.Fatal(err)
		}
		defer topic.Close()
		topic.patience = time.Millisecond
		err = topic.Read(ctx(t), 0, 0, written(t, topic), func(int64, *pipeline.Record) error { return nil })
		want := "read " + name + "/0: the transaction that is open at offset 2 has not ended in 1ms"
		if err == nil || err.Error() != want {
			t.Errorf("the error is %v, want %s", err, want)
		}
		var hinted *Error
		if !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), "time out") {
			t.Errorf("the error has no hint: %v", err)
		}
		p.end(kgo.TryAbort)
	})
}

func TestTopicViews(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	name := kafkatest.Topic(t, brokers, 1, nil)
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(name))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	sent := &kgo.Record{Key: []byte("k"), Timestamp: time.UnixMilli(1_764_000_000_123),
		Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "h", Value: nil}}}
	if err := cl.ProduceSync(ctx(t), sent).FirstErr(); err != nil {
		t.Fatal(err)
	}
	topic, err := OpenTopic(ctx(t), name, kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Close()
	n := 0
	stop := errors.New("enough")
	err = topic.Read(ctx(t), 0, 0, written(t, topic), func(offset int64, r *pipeline.Record) error {
		n++
		if offset != 0 || string(r.Key) != "k" || r.Value != nil || r.Time != 1_764_000_000_123 {
			t.Errorf("offset %d, record %+v", offset, r)
		}
		if len(r.Headers) != 2 || r.Headers[1].Name != "h" || !bytes.Equal(r.Headers[0].Value, []byte("1")) || r.Headers[1].Value != nil {
			t.Errorf("headers are %+v", r.Headers)
		}
		return stop
	})
	if n != 1 || !errors.Is(err, stop) {
		t.Errorf("%d records and error %v, want 1 and the function's own", n, err)
	}
}

func TestOpenTopicThatDoesNotExist(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	_, err := OpenTopic(ctx(t), "nosuch", kgo.SeedBrokers(brokers...))
	if err == nil || !strings.Contains(err.Error(), `topic "nosuch" does not exist`) {
		t.Errorf("opening a topic that does not exist gave %v", err)
	}
}
