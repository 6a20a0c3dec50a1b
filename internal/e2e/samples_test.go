//go:build unix

package e2e

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sampleFolder has two records of each of fourteen sources. The command's tests
// read the same files.
const sampleFolder = "../../cmd/streamdedup/testdata/samples"

// TestSamplesThroughKafka: of two records of each source, each a value of a topic,
// those come out that should, by its ID and by IDs that are not one. A second time
// only those without an ID pass.
func TestSamplesThroughKafka(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		f := func(file string, out, missing uint64, keys []string, flags ...string) {
			t.Helper()
			t.Run(file+" "+keys[0], func(t *testing.T) {
				s := newSceneOn(t, brokers, 1, nil, nil)
				s.keys = keys
				for range 2 {
					for _, value := range sampleOf(t, file) {
						s.write(&kgo.Record{Value: value, Timestamp: time.Now()})
					}
				}
				d := s.run(append(flags, "commit-interval=10ms", "session-timeout=6s")...)
				s.caughtUp(d)
				unique := out - missing
				want := runSummary{In: 4, Unique: unique, Duplicate: 4 - unique - 2*missing, Missing: 2 * missing,
					Out: out + missing, Dropped: 4 - out - missing}
				if sum := d.stop(); sum != want {
					t.Errorf("the summary is %+v, want %+v", sum, want)
				}
				if n := len(s.read(s.out)[0]); uint64(n) != want.Out {
					t.Errorf("%d records came out, want %d", n, want.Out)
				}
			})
		}
		key := func(specs ...string) []string { return specs }
		f("snowplow_enriched.tsv", 1, 0, key("column:7"), "format=tsv")
		f("segment_track.ndjson", 1, 0, key("json:messageId"))
		f("posthog_capture.ndjson", 1, 0, key("json:uuid"))
		f("posthog_capture.ndjson", 2, 0, key("json:uuid", "json:timestamp"))
		f("gharchive.ndjson", 2, 0, key("json:id"))
		f("wikimedia_recentchange.ndjson", 2, 0, key("json:/meta/id"))
		f("wikimedia_recentchange.ndjson", 2, 1, key("json:id"))
		f("cloudevents_structured.ndjson", 2, 0, key("json:source", "json:id"))
		f("cloudevents_structured.ndjson", 1, 0, key("json:id"))
		f("otlp_logs.ndjson", 2, 0, key("value"))
		f("otlp_logs.ndjson", 2, 0, key("json:/resourceLogs/0/scopeLogs/0/logRecords/0/attributes/0/value/stringValue"))
		f("ga4_bigquery_export.ndjson", 2, 0, key("json:user_pseudo_id", "json:event_name", "json:event_timestamp",
			"json:batch_page_id", "json:batch_ordering_id", "json:batch_event_index"))
		f("ga4_bigquery_export.ndjson", 1, 0, key("json:user_pseudo_id", "json:event_timestamp"))
		f("nginx_combined_request_id.log", 2, 0, key("value"))
		f("criteo_attribution.tsv", 2, 1, key("column:6"), "format=tsv", "ignore-id=-1")
		f("wikipedia_clickstream.tsv", 2, 0, key("column:1", "column:2", "column:3"), "format=tsv")
		f("clicks_rfc4180.csv", 2, 0, key("column:1"), "format=csv")
		f("debezium_envelope.ndjson", 2, 0, key("json:source.lsn"))
		f("debezium_envelope.ndjson", 1, 0, key("json:after.id"))
		f("sendgrid_webhook_array.ndjson", 2, 2, key("json:sg_event_id"))
	})
}

// sampleOf has the records of a sample, as a producer would send them: a line each,
// or a row of CSV, without line ends and without a header.
func sampleOf(t *testing.T, file string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sampleFolder, file))
	if err != nil {
		t.Fatal(err)
	}
	var records [][]byte
	switch file {
	case "clicks_rfc4180.csv":
		records = rowsOf(t, text)[1:]
	case "criteo_attribution.tsv":
		records = bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))[1:]
	default:
		records = bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	}
	if len(records) != 2 {
		t.Fatalf("%s has %d records, want 2", file, len(records))
	}
	return records
}

// rowsOf cuts rows out of CSV where the standard library says that they end.
func rowsOf(t *testing.T, text []byte) [][]byte {
	t.Helper()
	var rows [][]byte
	from := int64(0)
	for r := csv.NewReader(bytes.NewReader(text)); ; {
		if _, err := r.Read(); errors.Is(err, io.EOF) {
			return rows
		} else if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, bytes.TrimRight(text[from:r.InputOffset()], "\r\n"))
		from = r.InputOffset()
	}
}
