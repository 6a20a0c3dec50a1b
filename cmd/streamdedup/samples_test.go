package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// filtered runs filter with text on stdin. It returns what came out, and the
// summary.
func filtered(t *testing.T, text string, args ...string) (string, summary) {
	t.Helper()
	var out, messages bytes.Buffer
	args = append([]string{"filter", "--summary", "json", "--capacity", "10k"}, args...)
	if code := run(t.Context(), args, strings.NewReader(text), &out, &messages); code != exitOK {
		t.Fatalf("%q: exit code %d: %s", args, code, messages.String())
	}
	var sum summary
	lines := strings.Split(strings.TrimSpace(messages.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil {
		t.Fatalf("%q: %v in %q", args, err, messages.String())
	}
	return out.String(), sum
}

// TestSamplesThroughFilter: of two records of each source those survive that
// should, by its ID and by IDs that are not one.
func TestSamplesThroughFilter(t *testing.T) {
	f := func(file string, out, missing uint64, args ...string) {
		t.Helper()
		path := filepath.Join("testdata", "samples", file)
		kept, sum := filtered(t, "", append(args, path)...)
		unique := out - missing
		want := summary{In: 2, Unique: unique, Duplicate: 2 - out, Missing: missing, Out: out, Dropped: 2 - out}
		got := summary{In: sum.In, Unique: sum.Unique, Duplicate: sum.Duplicate, Missing: sum.Missing, Invalid: sum.Invalid, Out: sum.Out, Dropped: sum.Dropped}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s by %q: the summary is %+v, want %+v", file, args, got, want)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if out == 2 && kept != string(text) {
			t.Errorf("%s by %q: both survive, but not byte for byte", file, args)
		}
		if out == 1 && (!strings.HasPrefix(string(text), kept) || strings.Count(kept, "\n") != 1) {
			t.Errorf("%s by %q: it is not the first record that survives", file, args)
		}
	}
	key := func(specs ...string) (args []string) {
		for _, s := range specs {
			args = append(args, "--key", s)
		}
		return args
	}
	f("snowplow_enriched.tsv", 1, 0, key("column:7")...)
	f("segment_track.ndjson", 1, 0, key("json:messageId")...)
	f("posthog_capture.ndjson", 1, 0, key("json:uuid")...)
	f("posthog_capture.ndjson", 2, 0, key("json:uuid", "json:timestamp")...)
	f("gharchive.ndjson", 2, 0, key("json:id")...)
	f("wikimedia_recentchange.ndjson", 2, 0, key("json:/meta/id")...)
	f("wikimedia_recentchange.ndjson", 2, 1, key("json:id")...)
	f("cloudevents_structured.ndjson", 2, 0, key("json:source", "json:id")...)
	f("cloudevents_structured.ndjson", 1, 0, key("json:id")...)
	f("otlp_logs.ndjson", 2, 0)
	f("otlp_logs.ndjson", 2, 0, key("json:/resourceLogs/0/scopeLogs/0/logRecords/0/attributes/0/value/stringValue")...)
	f("ga4_bigquery_export.ndjson", 2, 0, key("json:user_pseudo_id", "json:event_name", "json:event_timestamp",
		"json:batch_page_id", "json:batch_ordering_id", "json:batch_event_index")...)
	f("ga4_bigquery_export.ndjson", 1, 0, key("json:user_pseudo_id", "json:event_timestamp")...)
	f("nginx_combined_request_id.log", 2, 0)
	f("criteo_attribution.tsv", 2, 1, append(key("column:conversion_id"), "--ignore-id", "-1")...)
	f("criteo_attribution.tsv", 2, 1, append(key("column:6"), "--header", "--ignore-id", "-1")...)
	f("wikipedia_clickstream.tsv", 2, 0, key("column:1", "column:2", "column:3")...)
	f("clicks_rfc4180.csv", 2, 0, key("column:click_id")...)
	f("clicks_rfc4180.csv", 2, 0, append(key("column:1"), "--header")...)
	f("debezium_envelope.ndjson", 2, 0, key("json:source.lsn")...)
	f("debezium_envelope.ndjson", 1, 0, key("json:after.id")...)
	f("sendgrid_webhook_array.ndjson", 2, 2, key("json:sg_event_id")...)
	// A pointer reaches into the array, but a record is judged as a whole.
	f("sendgrid_webhook_array.ndjson", 1, 0, key("json:/0/sg_event_id")...)
}

// A record that is an array of events has no member: it is missing and passes.
// Whether its elements were seen is not asked.
func TestCase_KEY_21(t *testing.T) {
	text, err := os.ReadFile("testdata/samples/sendgrid_webhook_array.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []string{"json:sg_event_id", "json:0.sg_event_id"} {
		out, sum := filtered(t, string(text), "--key", spec)
		if out != string(text) || sum.In != 2 || sum.Missing != 2 {
			t.Errorf("by %s: %+v, %d bytes; want 2 missing that pass", spec, sum, len(out))
		}
	}
}

// What is hashed is the whole value, with all 64 bits.
func TestCase_KEY_17_through_filter(t *testing.T) {
	const head = `{"a":"`
	long := head + strings.Repeat("x", 128-len(head))
	text := "evt-020\nevt-101\n" + long + strings.Repeat("y", 70) + "\"}\n" + long + strings.Repeat("y", 69) + "z\"}\n"
	if out, sum := filtered(t, text); out != text || sum.Unique != 4 {
		t.Errorf("%d unique, want 4", sum.Unique)
	}
}

// Bytes that a parser would rewrite come out as they went in.
func TestCase_KEY_22_through_filter(t *testing.T) {
	const text = `{"u":"a&b<c>","n":1.10,"x":9007199254740993 }` + "\r\n" + "  {\t\"u\" : \"\\u00e9\\/\xff\" }\n" + `{"u":"last"}`
	if out, _ := filtered(t, text, "--key", "json:u"); out != text+"\n" {
		t.Errorf("%q came out, want %q and a line feed", out, text)
	}
}

// Each policy that the help names has its example among the scripts.
func TestEveryPolicyOfFilterHasAnExample(t *testing.T) {
	script, err := os.ReadFile("testdata/script/filter-policies.txtar")
	if err != nil {
		t.Fatal(err)
	}
	policies := 0
	newFilterCmd(&app{}).Flags().VisitAll(func(f *pflag.Flag) {
		if !strings.HasPrefix(f.Name, "on-") {
			return
		}
		policies++
		for _, value := range []string{"pass", "drop", "divert", "tag", "fail"} {
			if f.Value.Set(value) == nil && !strings.Contains(string(script), "--"+f.Name+" "+value) {
				t.Errorf("--%s %s has no example", f.Name, value)
			}
		}
	})
	if policies < 5 {
		t.Errorf("there are %d policies, want 5 or more", policies)
	}
}
