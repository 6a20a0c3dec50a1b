//go:build unix

package e2e

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sameRecord fails unless a record came out as it went in: its bytes, its
// headers in order, its time. Null and empty differ.
func sameRecord(t *testing.T, got, want *kgo.Record) {
	t.Helper()
	equal := func(what string, got, want []byte) {
		t.Helper()
		if !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s is %q (null: %t), want %q (null: %t)", what, got, got == nil, want, want == nil)
		}
	}
	equal("the key", got.Key, want.Key)
	equal("the value", got.Value, want.Value)
	if !got.Timestamp.Equal(want.Timestamp) || got.Attrs.TimestampType() != 0 {
		t.Errorf("the time is %v of type %d, want %v of type 0, the creator's", got.Timestamp, got.Attrs.TimestampType(), want.Timestamp)
	}
	if len(got.Headers) != len(want.Headers) {
		t.Errorf("the headers are %v, want %v", got.Headers, want.Headers)
		return
	}
	for i := range want.Headers {
		if got.Headers[i].Key != want.Headers[i].Key {
			t.Errorf("header %d is %q, want %q", i, got.Headers[i].Key, want.Headers[i].Key)
		}
		equal(fmt.Sprintf("header %d", i), got.Headers[i].Value, want.Headers[i].Value)
	}
}

// sameRecords is sameRecord for each of a partition's.
func sameRecords(t *testing.T, got, want []*kgo.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records came out, want %d", len(got), len(want))
	}
	for i := range want {
		sameRecord(t, got[i], want[i])
	}
}

// TestCase_KEY_22: what passes is what came, byte for byte.
func TestCase_KEY_22(t *testing.T) {
	at := time.UnixMilli(time.Now().UnixMilli() - 1234)
	headers := []kgo.RecordHeader{
		{Key: "trace", Value: []byte("b")}, {Key: "a", Value: []byte{0, 0xff}}, {Key: "trace", Value: []byte("a")},
	}
	records := []*kgo.Record{
		{Key: []byte("k\x00\xff"), Value: []byte("{\"u\":\"a&b<c>\",\"n\":1.10,\"x\":9007199254740993 }"), Headers: headers, Timestamp: at},
		{Key: nil, Value: []byte(" {\t\"u\" : \"\\u00e9\\/\" ,\r\n \"id\":18446744073709551616, \"n\":1e400 } "), Timestamp: at.Add(time.Millisecond)},
		{Key: []byte{}, Value: []byte{}, Headers: []kgo.RecordHeader{{Key: "", Value: nil}, {Key: "", Value: []byte{}}}, Timestamp: at},
		{Key: []byte("only"), Value: nil, Timestamp: at},
		{Key: nil, Value: nil, Timestamp: at},
		{Key: []byte("bad"), Value: []byte("{\"u\":\xff\xfe"), Timestamp: at},
	}
	for _, codec := range []string{"none", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			s := newScene(t, 1, nil, nil)
			s.flags["compression"] = codec
			s.flags["key"] = "json:u"
			var again []*kgo.Record
			for _, r := range append(slices.Clone(records), records[:2]...) {
				c := *r
				c.Topic = ""
				again = append(again, &c)
			}
			s.write(again...)
			d := s.run()
			s.caughtUp(d)
			sum := d.stop()
			if sum.In != 8 || sum.Unique != 2 || sum.Duplicate != 2 || sum.Invalid != 1 || sum.Missing != 3 {
				t.Errorf("the summary is %+v, want 2 unique, 2 duplicate, 3 missing, 1 invalid of 8", sum)
			}
			sameRecords(t, s.read(s.out)[0], records)
		})
	}
}

// TestCase_KEY_26: null and empty stay apart, and a tombstone is never parsed.
func TestCase_KEY_26(t *testing.T) {
	run := func(t *testing.T, key string, in, want []*kgo.Record, unique, duplicate, missing uint64) {
		t.Helper()
		s := newScene(t, 1, nil, nil)
		s.flags["key"] = key
		s.write(in...)
		d := s.run()
		s.caughtUp(d)
		sum := d.stop()
		if sum.Unique != unique || sum.Duplicate != duplicate || sum.Missing != missing || sum.Invalid != 0 {
			t.Errorf("the summary is %+v, want %d unique, %d duplicate, %d missing", sum, unique, duplicate, missing)
		}
		sameRecords(t, s.read(s.out)[0], want)
	}
	at := time.UnixMilli(time.Now().UnixMilli())
	record := func(key, value []byte, headers ...string) *kgo.Record {
		r := &kgo.Record{Key: key, Value: value, Timestamp: at}
		for _, h := range headers {
			name, v, _ := strings.Cut(h, "=")
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(v)})
		}
		return r
	}
	t.Run("value", func(t *testing.T) {
		in := []*kgo.Record{
			record(nil, nil), record(nil, nil), record(nil, []byte{}), record(nil, []byte{}),
			record(nil, []byte("v")), record(nil, []byte("v")),
		}
		run(t, "value", in, in[:5], 1, 1, 4)
	})
	t.Run("json", func(t *testing.T) {
		in := []*kgo.Record{record([]byte("k"), nil), record([]byte("k"), nil)}
		run(t, "json:id", in, in, 0, 0, 2)
	})
	t.Run("key", func(t *testing.T) {
		in := []*kgo.Record{
			record(nil, []byte("1")), record(nil, []byte("2")), record([]byte{}, []byte("3")), record([]byte{}, []byte("4")),
			record([]byte("k"), []byte("5")), record([]byte("k"), nil), record([]byte("t"), nil), record([]byte("t"), nil),
		}
		run(t, "key", in, []*kgo.Record{in[0], in[1], in[2], in[3], in[4], in[6]}, 2, 2, 4)
	})
	t.Run("header", func(t *testing.T) {
		in := []*kgo.Record{
			record(nil, []byte("1")), record(nil, []byte("2")),
			record(nil, []byte("3"), "ce_id="), record(nil, []byte("4"), "ce_id="),
			record(nil, []byte("5"), "ce_id=a", "ce_id=b"), record(nil, nil, "ce_id=b"), record(nil, nil, "ce_id=a"),
		}
		run(t, "header:ce_id", in, append(slices.Clone(in[:5]), in[6]), 2, 1, 4)
	})
}

// TestCase_KEY_01: null is no ID, and three policies say what becomes of it.
func TestCase_KEY_01(t *testing.T) {
	values := []string{`{"event_id":null,"n":1}`, `{"event_id":null,"n":2}`, `{"event_id":"<nil>","n":3}`}
	filled := func(t *testing.T) *scene {
		s := newScene(t, 1, nil, nil)
		s.flags["key"] = "json:event_id"
		for _, v := range values {
			s.write(&kgo.Record{Value: []byte(v), Timestamp: time.Now()})
		}
		return s
	}
	expect := func(s *scene, topic string, want ...string) {
		s.t.Helper()
		var got []string
		for _, r := range s.read(topic)[0] {
			got = append(got, string(r.Value))
		}
		if !slices.Equal(got, want) {
			s.t.Errorf("topic %s has %q, want %q", topic, got, want)
		}
	}
	t.Run("pass", func(t *testing.T) {
		s := filled(t)
		d := s.run()
		s.caughtUp(d)
		if sum := d.stop(); sum.Missing != 2 || sum.Out != 3 {
			t.Errorf("%d missing and %d out, want 2 and 3", sum.Missing, sum.Out)
		}
		expect(s, s.out, values...)
	})
	t.Run("divert", func(t *testing.T) {
		s := filled(t)
		aside := settings{}.topic(t, s.brokers, 1)
		d := s.run("on-missing=divert", "divert-topic="+aside)
		s.caughtUp(d)
		if sum := d.stop(); sum.Missing != 2 || sum.Out != 1 || sum.Diverted != 2 {
			t.Errorf("%d missing, %d out and %d diverted, want 2, 1 and 2", sum.Missing, sum.Out, sum.Diverted)
		}
		expect(s, s.out, values[2])
		expect(s, aside, values[0], values[1])
		for i, r := range s.read(aside)[0] {
			origin(t, r, "missing", s.in, 0, int64(i))
		}
	})
	t.Run("drop", func(t *testing.T) {
		s := filled(t)
		d := s.run("on-missing=drop")
		s.caughtUp(d)
		if sum := d.stop(); sum.Missing != 2 || sum.Out != 1 || sum.Dropped != 2 {
			t.Errorf("%d missing, %d out and %d dropped, want 2, 1 and 2", sum.Missing, sum.Out, sum.Dropped)
		}
		expect(s, s.out, values[2])
	})
	t.Run("fail", func(t *testing.T) {
		s := filled(t)
		s.write(&kgo.Record{Value: []byte(`{"event_id":"next"}`), Timestamp: time.Now()})
		d := s.run("on-missing=fail")
		d.ends(1) // it was the only partition
		d.line("error: ", fmt.Sprintf("%s/0", s.in), "offset 0", "record without an ID")
		d.line("hint: ", "--on-missing pass")
		if strings.Contains(d.stderr.String(), `{"in":`) {
			t.Error("it sums up a run that committed nothing")
		}
		expect(s, s.out)
	})
}

// origin fails unless a diverted record says why it is there and where it was.
func origin(t *testing.T, r *kgo.Record, reason, topic string, partition int32, offset int64) {
	t.Helper()
	want := map[string]string{
		"streamdedup-reason": reason, "streamdedup-topic": topic,
		"streamdedup-partition": fmt.Sprint(partition), "streamdedup-offset": fmt.Sprint(offset),
	}
	for _, h := range r.Headers {
		if value, ok := want[h.Key]; ok {
			if value != string(h.Value) {
				t.Errorf("header %s is %q, want %q", h.Key, h.Value, value)
			}
			delete(want, h.Key)
		}
	}
	if len(want) > 0 {
		t.Errorf("headers are absent: %v", want)
	}
}
