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

// Records without the field have no ID, and neither has a composite with one part
// missing: all of them pass.
func TestCase_KEY_03(t *testing.T) {
	const records = 10_000
	without := func(every int) (values []string) {
		for i := range records {
			if i%every == 0 {
				values = append(values, fmt.Sprintf(`{"n":%d}`, i))
			} else {
				values = append(values, fmt.Sprintf(`{"n":%d,"msg":"m%d"}`, i, i))
			}
		}
		return values
	}
	f := func(every int, want tally, specs ...string) {
		t.Helper()
		if got := countJSON(mustParse(t, specs...), without(every)...); got != want {
			t.Errorf("%q, 1 in %d without the field: got %+v, want %+v", specs, every, got, want)
		}
	}
	f(1, tally{missing: records}, "json:msg")
	f(100, tally{unique: records - 100, missing: 100}, "json:msg")
	f(100, tally{unique: records - 100, missing: 100}, "json:n", "json:msg")
}

// Nothing is normalised: names and IDs that look alike stay apart.
func TestCase_KEY_11(t *testing.T) {
	composed, decomposed := "caf\xc3\xa9", "cafe\xcc\x81"
	values := []string{`{"id":"` + composed + `"}`, `{"id":"` + decomposed + `"}`, "{\"id\":\"\u212a\"}", `{"id":"K"}`}
	if got, want := countJSON(mustParse(t, "json:id"), append(values, values...)...), (tally{unique: 4, duplicate: 4}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	got := countJSON(mustParse(t, "json:"+composed), `{"`+composed+`":"1"}`, `{"`+decomposed+`":"2"}`)
	if want := (tally{unique: 1, missing: 1}); got != want {
		t.Errorf("names: got %+v, want %+v", got, want)
	}
	got = countJSON(mustParse(t, "sha256:json"), values...)
	if want := (tally{unique: 4}); got != want {
		t.Errorf("canonical: got %+v, want %+v", got, want)
	}
}

// An ID of its source is one together with that.
func TestCase_KEY_14(t *testing.T) {
	var values []string
	for _, line := range sampleLines(t, "cloudevents_structured.ndjson") {
		values = append(values, string(line))
	}
	if got, want := countJSON(mustParse(t, "json:id"), values...), (tally{unique: 1, duplicate: 1}); got != want {
		t.Errorf("id alone: got %+v, want %+v", got, want)
	}
	preset, err := LookupPreset("cloudevents")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := countJSON(mustParse(t, preset.Specs...), values...), (tally{unique: 2}); got != want {
		t.Errorf("%q: got %+v, want %+v", preset.Specs, got, want)
	}
}

// Where an ID has several payloads, the payload can be a part of it.
func TestCase_KEY_15(t *testing.T) {
	values := []string{`{"event_id":"f2d4","ua":"Googlebot","page":"/a"}`, `{"event_id":"f2d4","ua":"Googlebot","page":"/b"}`, `{"event_id":"f2d4","ua":"Googlebot","page":"/a"}`}
	if got, want := countJSON(mustParse(t, "json:event_id"), values...), (tally{unique: 1, duplicate: 2}); got != want {
		t.Errorf("event_id: got %+v, want %+v", got, want)
	}
	for _, content := range []string{"value", "sha256:value", "sha256:json"} {
		if got, want := countJSON(mustParse(t, "json:event_id", content), values...), (tally{unique: 2, duplicate: 1}); got != want {
			t.Errorf("event_id and %s: got %+v, want %+v", content, got, want)
		}
	}
}

// A fingerprint leaves out what changes from copy to copy; sparse records stay
// apart, and none gets a random one.
func TestCase_KEY_16(t *testing.T) {
	values := []string{
		`{"page":"/a","user":null,"received_at":"2026-01-01T00:00:00Z"}`, `{"received_at":"2026-01-01T00:00:01Z","user":null,"page":"/a"}`,
		`{"bot":"x","user":null,"received_at":"2026-01-01T00:00:02Z"}`, `{"bot":"y","user":null,"received_at":"2026-01-01T00:00:03Z"}`,
	}
	if got, want := countJSON(mustParse(t, "sha256:json"), values...), (tally{unique: 4}); got != want {
		t.Errorf("with received_at: got %+v, want %+v", got, want)
	}
	e := parseWith(t, Options{Exclude: []string{"received_at"}}, "sha256:json")
	if got, want := countJSON(e, values...), (tally{unique: 3, duplicate: 1}); got != want {
		t.Errorf("without received_at: got %+v, want %+v", got, want)
	}
	// What has nothing else is no event's fingerprint.
	if got, want := countJSON(e, `{"received_at":1}`, `{"received_at":2}`), (tally{missing: 2}); got != want {
		t.Errorf("nothing but received_at: got %+v, want %+v", got, want)
	}
}

// The whole value is hashed, in 64 bits or more.
func TestCase_KEY_17(t *testing.T) {
	head := `{"id":"` + fmt.Sprintf("%0120d", 0) + `","n":"`
	long := func(tail string) string { return fmt.Sprintf("%s%0*s\"}", head, 200-len(head)-2, tail) }
	values := []string{"evt-020", "evt-101", long("1"), long("2")}
	if a, b := values[2], values[3]; len(a) != 200 || len(b) != 200 || a[:128] != b[:128] {
		t.Fatalf("want two values of 200 bytes with the same first 128: %q, %q", a, b)
	}
	for _, spec := range []string{"value", "sha256:value"} {
		if got, want := countJSON(mustParse(t, spec), append(values, values...)...), (tally{unique: 4, duplicate: 4}); got != want {
			t.Errorf("%s: got %+v, want %+v", spec, got, want)
		}
	}
}

// The whole value is its bytes, so the order of members counts; in canonical JSON
// it does not.
func TestCase_KEY_18(t *testing.T) {
	values := []string{`{"a":1,"b":2}`, `{"b":2,"a":1}`, `{"a":1,"b":2}`}
	if got, want := countJSON(mustParse(t, "value"), values...), (tally{unique: 2, duplicate: 1}); got != want {
		t.Errorf("value: got %+v, want %+v", got, want)
	}
	for _, spec := range []string{"sha256:json", "json:a"} {
		if got, want := countJSON(mustParse(t, spec), values...), (tally{unique: 1, duplicate: 2}); got != want {
			t.Errorf("%s: got %+v, want %+v", spec, got, want)
		}
	}
	if got, want := countJSON(mustParse(t, "sha256:value"), values...), (tally{unique: 2, duplicate: 1}); got != want {
		t.Errorf("sha256:value: got %+v, want %+v", got, want)
	}
}

// A record that is an array of events has no members; it passes, whole.
func TestCase_KEY_21(t *testing.T) {
	var values []string
	for _, line := range sampleLines(t, "sendgrid_webhook_array.ndjson") {
		values = append(values, string(line))
	}
	for _, spec := range []string{"json:sg_event_id", "json:0.sg_event_id"} {
		if got, want := countJSON(mustParse(t, spec), values...), (tally{missing: 2}); got != want {
			t.Errorf("%s: got %+v, want %+v", spec, got, want)
		}
	}
	// A pointer names an element: of the first alone, both records have the same.
	if got, want := countJSON(mustParse(t, "json:/0/sg_event_id"), values...), (tally{unique: 1, duplicate: 1}); got != want {
		t.Errorf("the first element: got %+v, want %+v", got, want)
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

// A time in the key makes another event of a retry, so it is warned of.
func TestCase_KEY_27(t *testing.T) {
	var values []string
	for _, line := range sampleLines(t, "posthog_capture.ndjson") {
		values = append(values, string(line))
	}
	if got, want := countJSON(mustParse(t, "json:uuid"), values...), (tally{unique: 1, duplicate: 1}); got != want {
		t.Errorf("uuid: got %+v, want %+v", got, want)
	}
	if got, want := countJSON(mustParse(t, "json:uuid", "json:timestamp"), values...), (tally{unique: 2}); got != want {
		t.Errorf("uuid and timestamp: got %+v, want %+v", got, want)
	}
	for spec, want := range map[string]bool{
		"json:timestamp": true, "json:ts": true, "json:time": true, "json:a.received_at": true, "json:/a/sent_at": true, "json:sentAt": true,
		"json:eventTime": true, "json:@timestamp": true, "json:event-time": true, "json:createdDate": true, "json:t1Timestamp": true, "json:TIME": true,
		"json:_ts": true, "header:ce_time": true, "column:ts": true, "json:originalTimestamp": true, "json:UPDATED_AT": true,
		"json:uuid": false, "json:format": false, "json:lat": false, "json:at": false, "json:runtime": false, "json:cat": false, "json:time.id": false,
		"json:stats": false, "json:counts": false, "json:update": false, "json:timestamp_id": false, "json:idé": false, "json:İat": false,
		"key": false, "value": false, "sha256:value": false, "column:2": false, "json:": false, "time": false, "": false,
	} {
		if got := NamesTime(spec); got != want {
			t.Errorf("%q names a time: got %v, want %v", spec, got, want)
		}
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
	var options Options
	f := func(file string, want tally, specs ...string) {
		t.Helper()
		var records []*Record
		for _, line := range sampleLines(t, file) {
			records = append(records, &Record{Value: line})
		}
		if got := count(parseWith(t, options, specs...), records...); got != want {
			t.Errorf("%s by %q, %+v: got %+v, want %+v", file, specs, options, got, want)
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

	options.Table.Kind = TSV
	f("snowplow.tsv", same, "column:7")
	f("snowplow.tsv", differ, "column:7", "column:3")
	f("criteo.tsv", differ, "column:6")
	f("clickstream.tsv", differ, "column:1", "column:2")
	f("clickstream.tsv", same, "column:2")
	options.Ignore = []string{"-1"}
	f("criteo.tsv", tally{unique: 1, missing: 1}, "column:6")
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
