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
func readAll(t *testing.T, topic *Topic, from, to string) (values []string) {
	t.Helper()
	var points [2]Start
	for i, text := range []string{from, to} {
		var err error
		if points[i], err = ParseStart(text); err != nil {
			t.Fatal(err)
		}
	}
	err := topic.Read(ctx(t), 0, points[0], points[1], func(_ int64, r *pipeline.Record) error {
		values = append(values, string(r.Value))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// A topic is read as a reader of committed records sees it: not the aborted
// ones, nothing past an open transaction, and to the end although that is no
// record but a marker.
func TestTopicReadsWhatIsCommitted(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		name := kafkatest.Topic(t, brokers, 1, nil)
		cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.TransactionalID(name), kgo.DefaultProduceTopic(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		transaction := func(end kgo.TransactionEndTry, values ...string) {
			t.Helper()
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			for _, v := range values {
				r := &kgo.Record{Value: []byte(v), Timestamp: time.UnixMilli(1_764_000_000_000)}
				if err := cl.ProduceSync(ctx(t), r).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			if err := cl.EndTransaction(ctx(t), end); err != nil {
				t.Fatal(err)
			}
		}
		transaction(kgo.TryCommit, "a", "b")
		transaction(kgo.TryAbort, "x", "y")
		transaction(kgo.TryCommit, "c")
		transaction(kgo.TryAbort, "z")

		topic, err := OpenTopic(ctx(t), name, kgo.SeedBrokers(brokers...))
		if err != nil {
			t.Fatal(err)
		}
		defer topic.Close()
		if got := readAll(t, topic, "earliest", "latest"); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("read %q, want a, b, c", got)
		}
		if got := readAll(t, topic, "latest", "latest"); len(got) != 0 {
			t.Errorf("read %q from the end on", got)
		}
		// Its end is a time after all records, where a transaction is open.
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(ctx(t), &kgo.Record{Value: []byte("open")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, topic, "2025-01-01T00:00:00Z", "2200-01-01T00:00:00Z"); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("read %q, want a, b, c", got)
		}
		if err := cl.EndTransaction(ctx(t), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
		if begin, err := topic.Begin(ctx(t), 0); begin != 0 || err != nil {
			t.Errorf("the topic begins at %d, %v", begin, err)
		}
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
	latest, _ := ParseStart("latest")
	stop := errors.New("enough")
	err = topic.Read(ctx(t), 0, Start{}, latest, func(offset int64, r *pipeline.Record) error {
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
