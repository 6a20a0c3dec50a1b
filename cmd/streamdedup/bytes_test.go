package main

import (
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// What survives is what came in: odd spacing, numbers that a parser would
// rewrite, repeated headers in their order, null and empty told apart, the time.
func TestCase_KEY_22(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 1, nil)
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	h := func(name string, value []byte) kgo.RecordHeader { return kgo.RecordHeader{Key: name, Value: value} }
	records := []*kgo.Record{
		{Key: []byte("k"), Value: []byte(` {"id":"a&b<c>" , "n":1.10,"x":9007199254740993 }` + "\n")},
		{Key: nil, Value: []byte(`{"id":"b"}`), Headers: []kgo.RecordHeader{h("z", []byte("1")), h("a", []byte("2")), h("z", []byte("3"))}},
		{Key: []byte{}, Value: []byte("\x00\x00\x00\x00\x07{\"id\":\"\\u00e9\",\"s\":\"\xff\"}"), Headers: []kgo.RecordHeader{h("n", nil), h("", []byte{})}},
		{Key: []byte("tombstone"), Value: nil},
		{Key: []byte("empty"), Value: []byte{}},
	}
	cl := client(t, brokers, kgo.DefaultProduceTopic(in))
	for i, r := range records {
		r.Timestamp = at.Add(time.Duration(i) * time.Millisecond)
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, runArgs(brokers, in, in+"-out")...)
	reader := client(t, brokers, kgo.ConsumeTopics(in+"-out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.UnknownTopicRetries(-1))
	var got []*kgo.Record
	for len(got) < len(records) {
		fetches := reader.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		got = append(got, fetches.Records()...)
	}
	for i, r := range records {
		g := got[i]
		if !reflect.DeepEqual(g.Key, r.Key) || !reflect.DeepEqual(g.Value, r.Value) || !g.Timestamp.Equal(r.Timestamp) {
			t.Errorf("record %d: key %q, value %q at %s came out, %q, %q at %s went in", i, g.Key, g.Value, g.Timestamp, r.Key, r.Value, r.Timestamp)
		}
		if len(r.Headers) != len(g.Headers) || len(r.Headers) > 0 && !reflect.DeepEqual(g.Headers, r.Headers) {
			t.Errorf("record %d: headers %v came out, %v went in", i, g.Headers, r.Headers)
		}
	}
	if code := p.end(); code != exitOK {
		t.Errorf("exit code %d after a stop, want 0", code)
	}
}
