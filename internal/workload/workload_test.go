package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"
)

var start = time.UnixMilli(1_764_000_000_000)

func config(kind Kind) Config {
	return Config{
		Kind: kind, Seed: 7, Events: 18_000, Copies: 2_000, Partitions: 4,
		Start: start, Span: 24 * time.Hour, Window: 24 * time.Hour, Skew: true,
	}
}

// variants are streams that differ in all that could break the truth.
func variants() map[string]Config {
	v := map[string]Config{"clicks": config(Clicks), "telemetry": config(Telemetry)}
	add := func(name string, change func(c *Config)) {
		c := config(Clicks)
		change(&c)
		v[name] = c
	}
	add("keyed by ID", func(c *Config) { c.KeyByID = true })
	add("telemetry keyed by ID", func(c *Config) { c.Kind, c.KeyByID = Telemetry, true })
	add("window far shorter than the span", func(c *Config) { c.Window = 20 * time.Minute })
	add("padded values", func(c *Config) { c.Events, c.Copies, c.ValueBytes = 900, 100, 1000 })
	add("no time passes", func(c *Config) { c.Span = 0 })
	add("half are copies", func(c *Config) { c.Events, c.Copies = 10_000, 10_000 })
	add("no copies", func(c *Config) { c.Copies = 0 })
	add("one record", func(c *Config) { c.Events, c.Copies = 1, 0 })
	return v
}

func all(t testing.TB, c Config) []Record {
	t.Helper()
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	var records []Record
	for r, ok := g.Next(); ok; r, ok = g.Next() {
		records = append(records, r)
	}
	return records
}

// id is what the key specs of a kind would find, by another way.
func id(t *testing.T, k Kind, value []byte) string {
	t.Helper()
	var v struct {
		EventID string      `json:"event_id"`
		Device  string      `json:"device"`
		Seq     json.Number `json:"seq"`
	}
	if err := json.Unmarshal(value, &v); err != nil {
		t.Fatalf("value %s is not JSON: %v", value, err)
	}
	if k == Telemetry {
		return v.Device + "/" + v.Seq.String()
	}
	return v.EventID
}

func TestTruth(t *testing.T) {
	for name, c := range variants() {
		t.Run(name, func(t *testing.T) {
			type first struct {
				partition int32
				stream    int64
			}
			firsts := map[string]first{}
			streams := make([]int64, c.Partitions)
			end := c.Start.Add(c.Span).UnixMilli()
			events, copies := 0, 0
			for _, r := range all(t, c) {
				// No time after the end of the span is believed.
				if r.Time <= end {
					streams[r.Partition] = max(streams[r.Partition], r.Time)
				}
				if len(r.Value) < c.ValueBytes {
					t.Fatalf("a value has %d bytes, want at least %d", len(r.Value), c.ValueBytes)
				}
				f, seen := firsts[id(t, c.Kind, r.Value)]
				if seen != r.Copy {
					t.Fatalf("event %d is said to be a copy: %t, it is: %t", r.Event, r.Copy, seen)
				}
				if !seen {
					if r.Event != uint64(events) {
						t.Fatalf("first of event %d comes where event %d should", r.Event, events)
					}
					events++
					firsts[id(t, c.Kind, r.Value)] = first{r.Partition, streams[r.Partition]}
					continue
				}
				copies++
				if f.partition != r.Partition {
					t.Fatalf("event %d is in partitions %d and %d", r.Event, f.partition, r.Partition)
				}
				if moved := streams[r.Partition] - f.stream; f.stream != 0 && moved > c.Window.Milliseconds() {
					t.Fatalf("stream time moved %d ms between two copies of event %d", moved, r.Event)
				}
			}
			if events != c.Events || copies != c.Copies {
				t.Errorf("%d events and %d copies, want %d and %d", events, copies, c.Events, c.Copies)
			}
		})
	}
}

// TestShape proves that a stream has what it is meant to test.
func TestShape(t *testing.T) {
	c := config(Clicks)
	records := all(t, c)
	var bytesIn, disorder, ahead, stale, retries, replays, hot int
	stream := int64(0)
	byEvent := map[uint64]Record{}
	perEvent := map[uint64]int{}
	perPartition := make([]int, c.Partitions)
	end := c.Start.Add(c.Span).UnixMilli()
	for _, r := range records {
		bytesIn += len(r.Value)
		perPartition[r.Partition]++
		switch {
		case r.Time > end:
			ahead++
		case r.Time < stream-time.Hour.Milliseconds():
			stale++
		case r.Time < stream:
			disorder++
		default:
			stream = r.Time
		}
		if perEvent[r.Event]++; !r.Copy {
			byEvent[r.Event] = r
			continue
		}
		if !bytes.Equal(r.Value, byEvent[r.Event].Value) || !bytes.Equal(r.Key, byEvent[r.Event].Key) {
			t.Fatalf("a copy of event %d has other bytes than its first", r.Event)
		}
		if r.Time == byEvent[r.Event].Time {
			retries++
		} else {
			replays++
		}
	}
	for _, n := range perEvent {
		hot = max(hot, n)
	}
	if mean := bytesIn / len(records); mean < 210 || mean > 250 {
		t.Errorf("values have %d bytes on average, want about 230", mean)
	}
	for name, n := range map[string]int{"ahead": ahead, "hours behind": stale, "out of order": disorder, "retries": retries, "replays": replays} {
		if n == 0 {
			t.Errorf("no records are %s", name)
		}
	}
	if ahead+stale > len(records)/100 {
		t.Errorf("%d records ahead and %d hours behind are not a few", ahead, stale)
	}
	if want := c.Copies / burstShare; hot < want {
		t.Errorf("the hot event has %d records, want at least %d", hot, want)
	}
	if least := slices.Min(perPartition); least < len(records)/int(c.Partitions)*8/10 {
		t.Errorf("partitions have %v records, want about as many each", perPartition)
	}
}

// TestGolden pins the bytes: a seed in a report must give the same stream for ever.
func TestGolden(t *testing.T) {
	f := func(kind Kind, want string) {
		t.Helper()
		c := config(kind)
		c.Events, c.Copies = 900, 100
		sum := fnv.New64a()
		for _, r := range all(t, c) {
			fmt.Fprintf(sum, "%d|%s|%s|%d|%v\n", r.Partition, r.Key, r.Value, r.Time, r.Headers)
		}
		if got := fmt.Sprintf("%016x", sum.Sum64()); got != want {
			t.Errorf("%s: digest %s, want %s", kind, got, want)
		}
	}
	f(Clicks, "66f3e04eb9746acf")
	f(Telemetry, "81b213b8aaf57d2f")
}

func TestValidate(t *testing.T) {
	err := Config{Kind: 9, Copies: 1}.Validate()
	if err == nil {
		t.Fatal("an empty config is valid")
	}
	for _, field := range []string{"Kind", "Events", "Copies", "Partitions", "Start", "Window"} {
		if !strings.Contains(err.Error(), field+" is") {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	for _, k := range []Kind{Clicks, Telemetry} {
		if got, err := ParseKind(k.String()); err != nil || got != k {
			t.Errorf("ParseKind(%q) = %v, %v", k, got, err)
		}
	}
	if _, err := ParseKind("orders"); err == nil {
		t.Error("ParseKind takes an unknown name")
	}
}

func BenchmarkNext(b *testing.B) {
	for _, kind := range []Kind{Clicks, Telemetry} {
		b.Run("kind="+kind.String(), func(b *testing.B) {
			c := config(kind)
			c.Events, c.Copies = 9<<40, 1<<40 // longer than any run
			g, err := New(c)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				r, _ := g.Next()
				b.SetBytes(int64(len(r.Value)))
			}
		})
	}
}
