package keys

import (
	"encoding/json"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func mustParseClock(t testing.TB, spec, format string) *Clock {
	t.Helper()
	c, err := ParseClock(spec, format, Table{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParseClockErrors(t *testing.T) {
	f := func(spec, format, want string) {
		t.Helper()
		_, err := ParseClock(spec, format, Table{})
		if err == nil || err.Error() != want {
			t.Errorf("ParseClock(%q, %q): got error %v, want %q", spec, format, err, want)
		}
	}
	const known = "known are record, arrival, none, json:NAME (dots descend), json:/POINTER, column:NUMBER and column:NAME"
	f("", "auto", `parse time spec "": `+known)
	f("now", "auto", `parse time spec "now": `+known)
	f("key", "auto", `parse time spec "key": `+known)
	f("header:ts", "auto", `parse time spec "header:ts": `+known)
	f("json:", "auto", `parse time spec "json:": `+known)
	f("column:ts", "auto", `parse time spec "column:ts": column: needs csv or tsv input`)
	f("json:ts", "iso", `parse time format "iso": known are auto, rfc3339, unix, unix-ms, unix-us and unix-ns`)
	f("record", "unix", `parse time format "unix": it is for a field of the value, not for the time "record": leave it out`)
}

func TestClockSources(t *testing.T) {
	f := func(spec string, r Record, now, want int64) {
		t.Helper()
		got, ok := mustParseClock(t, spec, "").Time(&r, now)
		if got != want || ok != (want != 0) {
			t.Errorf("%s of %+v at %d: got %d %v, want %d", spec, r, now, got, ok, want)
		}
	}
	f("record", Record{Time: 5}, 9, 5)
	f("record", Record{Time: math.MaxInt64}, 9, math.MaxInt64)
	f("record", Record{Time: 0}, 9, 0)
	f("record", Record{Time: -1}, 9, 0)
	f("record", Record{Time: math.MinInt64}, 9, 0)
	f("arrival", Record{Time: 5}, 9, 9)
	f("arrival", Record{Time: 5}, 0, 0)
	f("none", Record{Time: 5}, 9, 1)
	f("none", Record{Time: -1}, 0, 1)
	f("json:t", Record{Time: 5}, 9, 0)
	f("json:t", Record{Time: 5, Value: []byte{}}, 9, 0)
	f("json:t", Record{Value: []byte(`{"t":1}`)}, 9, 1000)
	f("json:t", Record{Value: []byte(`{"a":"",!"t":1}`)}, 9, 0)
	f("json:t", Record{Value: []byte(`{"a":1}`)}, 9, 0)
	f("json:t", Record{Value: []byte(`{"t":null}`)}, 9, 0)
	f("json:t", Record{Value: []byte(`{"t":""}`)}, 9, 0)
	f("json:t", Record{Value: []byte(`{"t":true}`)}, 9, 0)
	f("json:t", Record{Value: []byte(`{"t":[1]}`)}, 9, 0)
	f("json:a.t", Record{Value: []byte(`{"a":{"t":2},"t":1}`)}, 9, 2000)
	f("json:/a/1", Record{Value: []byte(`{"a":[1,2]}`)}, 9, 2000)
	f("json:t", Record{Value: []byte("\x00\x00\x00\x00\x01" + `{"t":1}`)}, 9, 1000)
}

func TestClockFormats(t *testing.T) {
	// want is in milliseconds; 0 is none.
	f := func(format, literal string, want int64) {
		t.Helper()
		r := Record{Value: []byte(`{"t":` + literal + `}`)}
		got, ok := mustParseClock(t, "json:t", format).Time(&r, 0)
		if got != want || ok != (want != 0) {
			t.Errorf("%s as %s: got %d %v, want %d", literal, format, got, ok, want)
		}
	}
	const at = 1767225600123 // 2026-01-01T00:00:00.123Z
	for _, quote := range []string{"", `"`} {
		n := func(format, number string, want int64) { t.Helper(); f(format, quote+number+quote, want) }
		n("auto", "1767225600", 1767225600000)
		n("auto", "1767225600.123", at)
		n("auto", "1767225600.1239999999999999999999999", at)
		n("auto", "1.767225600123e9", at)
		n("auto", "1767225600123", at)
		n("auto", "1767225600123.9", at)
		n("auto", "1767225600123456", at)
		n("auto", "1767225600123456789", at)
		n("auto", "0.0009", 0)
		n("auto", "0.001", 1)
		n("auto", "99999999999", 99999999999000)
		n("auto", "100000000000", 100000000000)
		n("auto", "99999999999999", 99999999999999)
		n("auto", "100000000000000", 100000000000)
		n("auto", "99999999999999999", 99999999999999)
		n("auto", "100000000000000000", 100000000000)
		n("auto", "18446744073709551615", 18446744073709)
		n("auto", "18446744073709551616", 18446744073709)
		n("auto", "184467440737095516160", 0)
		n("auto", "1e400", 0)
		n("auto", "1e99999999999999999999", 0)
		n("auto", "1e-99999999999999999999", 0)
		n("auto", "0e99999999999999999999", 0)
		n("auto", "0", 0)
		n("auto", "-1", 0)
		n("auto", "-1767225600", 0)
		n("unix", "1767225600.123", at)
		n("unix", "9223372036854775.807", math.MaxInt64)
		n("unix", "9223372036854775.808", 0)
		n("unix", "1e30", 0)
		n("unix-ms", "1767225600123", at)
		n("unix-ms", "1767225600", 1767225600)
		n("unix-ms", "9223372036854775807", math.MaxInt64)
		n("unix-ms", "9223372036854775808", 0)
		n("unix-us", "1767225600123456", at)
		n("unix-us", "999", 0)
		n("unix-us", "1000", 1)
		n("unix-ns", "1767225600123456789", at)
		n("unix-ns", "99999999999999999999999", 99999999999999999)
		n("rfc3339", "1767225600", 0)
	}
	for _, bad := range []string{" 1", "1 ", "+1", "1.", ".5", "1e", "1e+", "1x", "0x1", "1_000", "1,5", "1.2.3", "NaN", "-", "１"} {
		f("auto", `"`+bad+`"`, 0)
		f("unix", `"`+bad+`"`, 0)
	}
	f("auto", `"0001767225600"`, 1767225600000)
	f("auto", `"123e-2"`, 1230)

	for _, format := range []string{"auto", "rfc3339"} {
		d := func(text string, want int64) { t.Helper(); f(format, `"`+text+`"`, want) }
		d("2026-01-01T00:00:00.123Z", at)
		d("2026-01-01t00:00:00.123z", at)
		d("2026-01-01T00:00:00Z", at-123)
		d("2026-01-01T00:00:00.1239999999999999999999999999Z", at)
		d("2026-01-01T00:00:00.1Z", at-23)
		d("2026-01-01T01:00:00.123+01:00", at)
		d(`2026-01-01T01:00:00.123\u002B01:00`, at)
		d("2025-12-31T18:15:00.123-05:45", at)
		d("2026-01-01 00:00:00.123", at)
		d("2026-01-01 00:00:00.123Z", at)
		d("2026-01-01T00:00:00.123", at)
		d("2016-12-31T23:59:60Z", 1483228800000) // a leap second
		d("2024-02-29T00:00:00Z", 1709164800000)
		d("1970-01-01T00:00:00Z", 0)
		d("1970-01-01T00:00:00.001Z", 1)
		d("1970-01-01T00:00:00+00:01", 0) // before the epoch
		d("1969-12-31T23:59:59.999Z", 0)
		d("0000-01-01T00:00:00Z", 0)
		d("9999-12-31T23:59:59.999Z", 253402300799999)
		for _, bad := range []string{
			"2026-01-01", "2026-01-01T00:00Z", "2026-1-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-01-32T00:00:00Z",
			"2026-01-00T00:00:00Z", "2023-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z",
			"2026-01-01T00:00:61Z", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00,5Z", "2026-01-01T00:00:00+0100", "2026-01-01T00:00:00+01",
			"2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+01:60", "2026-01-01T00:00:00+0a:00", "2026-01-01T00:00:00Zx", "2026-01-01_00:00:00Z",
			"2026/01/01T00:00:00Z", "02026-01-01T00:00:00Z", "-2026-01-01T00:00:00Z", " 2026-01-01T00:00:00Z", "Thu, 01 Jan 2026 00:00:00 GMT",
		} {
			d(bad, 0)
		}
	}
	f("unix", `"2026-01-01T00:00:00Z"`, 0)
	f("auto", `"\u0031"`, 1000)
	f("auto", `"`+strings.Repeat(`\u0030`, longestTime-1)+`1"`, 1000)
	f("auto", `"`+strings.Repeat(`\u0030`, longestTime)+`1"`, 0)
}

// TestCalendar compares every day of 500 years, and both ends of all years, with
// the standard library's calendar.
func TestCalendar(t *testing.T) {
	check := func(d time.Time) {
		t.Helper()
		text := d.Format("2006-01-02T15:04:05.000Z07:00")
		if got, ok := readRFC3339([]byte(text)); got != d.UnixMilli() || !ok {
			t.Fatalf("%s: got %d %v, want %d", text, got, ok, d.UnixMilli())
		}
	}
	for d := time.Date(1800, 1, 1, 23, 59, 59, 999e6, time.UTC); d.Year() < 2300; d = d.AddDate(0, 0, 1) {
		check(d)
	}
	zone := time.FixedZone("", -(11*3600 + 30*60))
	for year := range 10000 {
		check(time.Date(year, 1, 1, 0, 0, 0, 0, zone))
		check(time.Date(year, 2, 28, 12, 0, 0, 1e6, time.UTC))
		check(time.Date(year, 3, 1, 0, 0, 0, 0, time.UTC))
		check(time.Date(year, 12, 31, 0, 0, 0, 0, time.UTC))
	}
}

// TestCase_WIN_07 reads both clocks of a record that was sent again six hours
// later: the time of the event moved by 15 ms, that of its receipt by 6 h 14 m.
func TestCase_WIN_07(t *testing.T) {
	lines := sampleLines(t, "segment_track.ndjson")
	f := func(spec string, want time.Duration) {
		t.Helper()
		c := mustParseClock(t, spec, "auto")
		first, ok1 := c.Time(&Record{Value: lines[0]}, 0)
		second, ok2 := c.Time(&Record{Value: lines[1]}, 0)
		if got := time.Duration(second-first) * time.Millisecond; got != want || !ok1 || !ok2 {
			t.Errorf("%s: got %v apart, want %v", spec, got, want)
		}
	}
	f("json:timestamp", 15*time.Millisecond)
	f("json:receivedAt", 6*time.Hour+14*time.Minute+8*time.Second+595*time.Millisecond)
}

// TestSampleTimes reads the times of records in the formats of real sources.
func TestSampleTimes(t *testing.T) {
	const newYear = 1767225600000 // 2026-01-01T00:00:00Z
	f := func(file, spec string, want int64) {
		t.Helper()
		r := Record{Value: sampleLines(t, file)[0]}
		if got, ok := mustParseClock(t, spec, "auto").Time(&r, 0); got != want || !ok {
			t.Errorf("%s of %s: got %d %v, want %d", spec, file, got, ok, want)
		}
	}
	f("posthog_capture.ndjson", "json:timestamp", newYear)
	f("gharchive.ndjson", "json:created_at", newYear)
	f("wikimedia_recentchange.ndjson", "json:timestamp", newYear)
	f("wikimedia_recentchange.ndjson", "json:meta.dt", newYear+123)
	f("cloudevents_structured.ndjson", "json:time", newYear)
	f("otlp_logs.ndjson", "json:/resourceLogs/0/scopeLogs/0/logRecords/0/timeUnixNano", newYear)
	f("ga4_bigquery_export.ndjson", "json:event_timestamp", newYear+123)
	f("debezium_envelope.ndjson", "json:source.ts_ms", newYear)
	f("sendgrid_webhook_array.ndjson", "json:/1/timestamp", newYear+5000)
}

// FuzzTime compares every JSON number with exact fractions and every RFC 3339 date
// with the standard library.
func FuzzTime(f *testing.F) {
	for _, s := range []string{"0", "1", "1767225600.123", "1e9", "-5", "99999999999.9995", "123456789012345678901234567890", "1.5e-3", "0.000000000000000000000000000001e42",
		"9223372036854775807", "9223372036854775808", "9223372036854775.808", "2026-01-01T00:00:00.123456789+01:00", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00-23:59", "x"} {
		f.Add(s)
	}
	// The standard library takes more than RFC 3339 has.
	strict := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
	formats := map[timeFormat]int64{unixSeconds: 1, unixMillis: 1e3, unixMicros: 1e6, unixNanos: 1e9}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := time.Parse(time.RFC3339, s); err == nil && strict.MatchString(s) {
			if got, ok := readRFC3339([]byte(s)); !ok || got != d.UnixMilli() {
				t.Errorf("%s: got %d %v, want %d", s, got, ok, d.UnixMilli())
			}
		}
		if !json.Valid([]byte(s)) || len(s) > 100 {
			return
		}
		exact, ok := new(big.Rat).SetString(s)
		if _, err := strconv.ParseFloat(s, 64); err != nil || !ok {
			return // not a number, or one that big fractions are too slow for
		}
		for format, perSecond := range formats {
			got, ok := readUnix([]byte(s), format)
			ms := new(big.Rat).Mul(exact, big.NewRat(1000, perSecond))
			want := new(big.Int).Quo(ms.Num(), ms.Denom())
			if readable := want.IsInt64() && s[0] != '-'; ok != readable || ok && got != want.Int64() {
				t.Errorf("%s per %d s: got %d %v, want %v %v", s, perSecond, got, ok, want, readable)
			}
		}
	})
}

func BenchmarkTime(b *testing.B) {
	for _, bm := range []struct{ name, literal string }{
		{"format=unix-ms", "1767225600123"},
		{"format=rfc3339", `"2026-01-01T00:00:00.123Z"`},
	} {
		b.Run(bm.name, func(b *testing.B) {
			c := mustParseClock(b, "json:t", "auto")
			r := Record{Value: []byte(`{"t":` + bm.literal + `}`)}
			b.ReportAllocs()
			for b.Loop() {
				c.Time(&r, 0)
			}
		})
	}
}
