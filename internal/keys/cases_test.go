package keys

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Null is absence, the text "<nil>" is an ID.
func TestCase_KEY_01(t *testing.T) {
	got := countJSON(mustParse(t, "json:event_id"),
		`{"event_id":null,"n":1}`, `{"event_id":null,"n":2}`, `{"event_id":"<nil>","n":3}`)
	if want := (tally{unique: 1, missing: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// An empty ID is missing, one of spaces is an ID.
func TestCase_KEY_02(t *testing.T) {
	e := mustParse(t, "json:event_id")
	got := countJSON(e, `{"event_id":"","n":1}`, `{"event_id":"","n":2}`, `{"event_id":"   ","n":3}`)
	if want := (tally{unique: 1, missing: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	got = countJSON(e, `{"event_id":"   "}`, `{"event_id":"  "}`, `{"event_id":"\t"}`)
	if want := (tally{unique: 3}); got != want {
		t.Errorf("spaces: got %+v, want %+v", got, want)
	}
}

// Numbers are their digits.
func TestCase_KEY_04(t *testing.T) {
	literals := []string{"9007199254740992", "9007199254740993", "18446744073709551616"}
	for n := 228930314431312337; n <= 228930314431312367; n++ {
		literals = append(literals, fmt.Sprint(n))
	}
	var values []string
	for _, l := range append(literals, literals...) {
		values = append(values, `{"id":`+l+`}`)
	}
	if got, want := countJSON(mustParse(t, "json:id"), values...), (tally{unique: 34, duplicate: 34}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Every spelling of a number is an ID of its own.
func TestCase_KEY_05(t *testing.T) {
	got := countJSON(mustParse(t, "json:id"), `{"id":1000000}`, `{"id":"1000000"}`, `{"id":1e6}`, `{"id":1000000.0}`, `{"id":1E6}`, `{"id":1e+6}`)
	if want := (tally{unique: 6}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Types differ; arrays and objects are no IDs.
func TestCase_KEY_06(t *testing.T) {
	got := countJSON(mustParse(t, "json:id"),
		`{"id":1}`, `{"id":"1"}`, `{"id":true}`, `{"id":"true"}`, `{"id":[1]}`, `{"id":{"a":1}}`, `{"id":false}`, `{"id":"false"}`)
	if want := (tally{unique: 6, unsupported: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A pointer names a member whose name has dots and slashes; dots do not.
func TestCase_KEY_07(t *testing.T) {
	values := []string{`{"com.example/trace.id":"a"}`, `{"com.example/trace.id":"a"}`,
		`{"com":{"example/trace":{"id":"b"}}}`, `{"com":{"example/trace":{"id":"b"}}}`}
	for _, spec := range []string{"json:/com.example~1trace.id", "json:com.example/trace.id"} {
		if got, want := countJSON(mustParse(t, spec), values...), (tally{unique: 1, duplicate: 1, missing: 2}); got != want {
			t.Errorf("%s: got %+v, want %+v", spec, got, want)
		}
	}
}

// The first of equal names counts.
func TestCase_KEY_09(t *testing.T) {
	e := mustParse(t, "json:id")
	a, _ := e.Hash(jsonRecord(`{"id":"a","id":"b"}`))
	b, _ := e.Hash(jsonRecord(`{"id":"b"}`))
	if first, _ := e.Hash(jsonRecord(`{"id":"a"}`)); first != a || first == b {
		t.Errorf("got %x for a, b, %x for b, %x for a", a, b, first)
	}
	y, _ := e.Hash(jsonRecord(`{"ID":"x","id":"y"}`))
	if want, _ := e.Hash(jsonRecord(`{"id":"y"}`)); y != want {
		t.Errorf("ID beside id: got %x, want %x", y, want)
	}
	if _, o := e.Hash(jsonRecord(`{"id":null,"id":"b"}`)); o != Missing {
		t.Errorf("null first: got %v, want missing", o)
	}
}

// Parts keep their borders.
func TestCase_KEY_13(t *testing.T) {
	got := countJSON(mustParse(t, "json:a", "json:b"), `{"a":"doc-7","b":"12"}`, `{"a":"doc-71","b":"2"}`,
		`{"a":"a","b":"b|c"}`, `{"a":"a|b","b":"c"}`, `{"a":"","b":"x"}`, `{"a":"x","b":""}`)
	if want := (tally{unique: 4, missing: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	pair := mustParse(t, "key", "value")
	got = count(pair, &Record{Key: []byte("a"), Value: []byte("bc")}, &Record{Key: []byte("ab"), Value: []byte("c")})
	if want := (tally{unique: 2}); got != want {
		t.Errorf("key and value: got %+v, want %+v", got, want)
	}
}

// The whole value is its bytes: the order of members counts.
func TestCase_KEY_18(t *testing.T) {
	values := []string{`{"a":1,"b":2}`, `{"b":2,"a":1}`, `{"a":1,"b":2}`}
	if got, want := countJSON(mustParse(t, "value"), values...), (tally{unique: 2, duplicate: 1}); got != want {
		t.Errorf("value: got %+v, want %+v", got, want)
	}
	if got, want := countJSON(mustParse(t, "json:a"), values...), (tally{unique: 1, duplicate: 2}); got != want {
		t.Errorf("json:a: got %+v, want %+v", got, want)
	}
}

// Keys, headers and tombstones.
func TestCase_KEY_26(t *testing.T) {
	f := func(spec string, r Record, want Outcome) {
		t.Helper()
		if _, got := mustParse(t, spec).Hash(&r); got != want {
			t.Errorf("%s of %+v: got %v, want %v", spec, r, got, want)
		}
	}
	headers := func(values ...string) (h []Header) {
		for _, v := range values {
			h = append(h, Header{"other", []byte("o")}, Header{"ce_id", []byte(v)})
		}
		return h
	}
	f("header:ce_id", Record{}, Missing)
	f("header:ce_id", Record{Headers: headers("")}, Missing)
	f("header:ce_id", Record{Headers: []Header{{"ce_id", nil}}}, Missing)
	f("header:ce_id", Record{Headers: headers("a")}, Found)
	f("header:CE_ID", Record{Headers: headers("a")}, Missing)
	f("header:ce_id", Record{Headers: headers("a", "")}, Missing) // the last counts

	e := mustParse(t, "header:ce_id")
	ab, _ := e.Hash(&Record{Headers: headers("a", "b")})
	if e.RepeatedHeaders() != 1 {
		t.Errorf("repeated headers: got %d, want 1", e.RepeatedHeaders())
	}
	if b, _ := e.Hash(&Record{Headers: headers("b")}); b != ab {
		t.Errorf("header a, b: got %x, want that of b, %x", ab, b)
	}
	if e.RepeatedHeaders() != 1 {
		t.Errorf("repeated headers after a single one: got %d, want 1", e.RepeatedHeaders())
	}

	two := mustParse(t, "header:ce_id", "header:tenant")
	two.Hash(&Record{Headers: append(headers("a", "b"), Header{"tenant", []byte("t")})})
	two.Hash(&Record{Headers: append(headers("a"), Header{"tenant", []byte("t")}, Header{"tenant", []byte("t")})})
	two.Hash(&Record{Headers: append(headers("a", "b"), Header{"tenant", []byte("t")}, Header{"tenant", []byte("t")})})
	if two.RepeatedHeaders() != 3 {
		t.Errorf("records with repeated headers: got %d, want 3", two.RepeatedHeaders())
	}

	f("key", Record{Key: nil}, Missing)
	f("key", Record{Key: []byte{}}, Missing)
	f("key", Record{Key: []byte("k")}, Found)
	for _, value := range [][]byte{nil, {}} {
		f("value", Record{Key: []byte("k"), Value: value}, Missing)
		f("json:id", Record{Key: []byte("k"), Value: value}, Missing)
		f("key", Record{Key: []byte("k"), Value: value}, Found)
		f("header:ce_id", Record{Headers: headers("a"), Value: value}, Found)
	}
}

// Only the exact name matches.
func TestCase_KEY_29(t *testing.T) {
	got := countJSON(mustParse(t, "json:messageId"), `{"messageId":"m"}`, `{"message_id":"m"}`, `{"MessageId":"m"}`, `{"messageid":"m"}`, `{"messageId":"m"}`)
	if want := (tally{unique: 1, duplicate: 1, missing: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestSamples finds the IDs in records in the formats of real sources.
func TestSamples(t *testing.T) {
	f := func(file string, want tally, specs ...string) {
		t.Helper()
		var records []*Record
		for _, line := range sampleLines(t, file) {
			records = append(records, &Record{Value: line})
		}
		if got := count(mustParse(t, specs...), records...); got != want {
			t.Errorf("%s by %q: got %+v, want %+v", file, specs, got, want)
		}
	}
	same, differ := tally{unique: 1, duplicate: 1}, tally{unique: 2}
	f("segment_track.ndjson", same, "json:messageId")
	f("segment_track.ndjson", differ, "json:messageId", "json:receivedAt")
	f("posthog_capture.ndjson", same, "json:uuid")
	f("posthog_capture.ndjson", differ, "json:uuid", "json:timestamp")
	f("gharchive.ndjson", differ, "json:id")
	f("wikimedia_recentchange.ndjson", differ, "json:/meta/id")
	f("wikimedia_recentchange.ndjson", differ, "json:meta.id")
	f("wikimedia_recentchange.ndjson", tally{unique: 1, missing: 1}, "json:id")
	f("cloudevents_structured.ndjson", differ, "json:source", "json:id")
	f("cloudevents_structured.ndjson", same, "json:id")
	f("otlp_logs.ndjson", differ, "value")
	f("otlp_logs.ndjson", differ, "json:/resourceLogs/0/scopeLogs/0/logRecords/0/attributes/0/value/stringValue")
	f("otlp_logs.ndjson", same, "json:/resourceLogs/0/scopeLogs/0/logRecords/0/attributes/1/value/intValue")
	f("ga4_bigquery_export.ndjson", same, "json:user_pseudo_id", "json:event_timestamp")
	f("ga4_bigquery_export.ndjson", differ, "json:user_pseudo_id", "json:event_name", "json:event_timestamp",
		"json:batch_page_id", "json:batch_ordering_id", "json:batch_event_index")
	f("debezium_envelope.ndjson", differ, "json:source.lsn")
	f("debezium_envelope.ndjson", same, "json:after.id")
	f("sendgrid_webhook_array.ndjson", tally{missing: 2}, "json:sg_event_id")
	f("sendgrid_webhook_array.ndjson", same, "json:/0/sg_event_id")
	f("sendgrid_webhook_array.ndjson", tally{unique: 1, missing: 1}, "json:/1/sg_event_id")
	f("nginx.log", differ, "value")
	f("clickstream.tsv", differ, "value")
	f("nginx.log", tally{invalid: 2}, "json:id")

	f = func(file string, want tally, specs ...string) {
		t.Helper()
		var records []*Record
		for _, line := range sampleLines(t, file) {
			records = append(records, &Record{Value: line})
		}
		if got := count(parseWith(t, Options{Table: tsvTable}, specs...), records...); got != want {
			t.Errorf("%s by %q: got %+v, want %+v", file, specs, got, want)
		}
	}
	f("snowplow.tsv", same, "column:7")
	f("snowplow.tsv", differ, "column:7", "column:3")
	f("criteo.tsv", differ, "column:16")
	f("clickstream.tsv", differ, "column:1", "column:2")
	f("clickstream.tsv", same, "column:2")
}

func sampleLines(t *testing.T, file string) (lines [][]byte) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		if line = bytes.TrimRight(line, "\n"); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	if len(lines) != 2 {
		t.Fatalf("%s: got %d lines, want 2", file, len(lines))
	}
	return lines
}
