package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// counted are records of which so many have no ID.
func counted(in, missing, invalid uint64) *pipeline.Counts {
	return &pipeline.Counts{In: in, Verdicts: [4]uint64{in - missing - invalid, 0, missing, invalid}}
}

func TestWrongKeyNeedsEnoughRecords(t *testing.T) {
	f := func(c *pipeline.Counts, want string) {
		t.Helper()
		if got := wrongKey(c); got != want {
			t.Errorf("%d in, verdicts %v: %q, want %q", c.In, c.Verdicts, got, want)
		}
	}
	f(counted(0, 0, 0), "")
	f(counted(999, 998, 0), "")
	f(counted(1000, 500, 0), "")
	f(counted(1000, 500, 1), "501 of 1000 records have no ID: is --key right?")
	f(counted(3, 2, 1), "3 of 3 records have no ID: is --key right?")
}

func TestWatcherWarnsOfTheKeyOnceAMinute(t *testing.T) {
	var text bytes.Buffer
	w := newWatcher(slog.New(slog.NewTextHandler(&text, nil)), "--capacity")
	now := time.Unix(1_700_000_000, 0)
	f := func(want int, after time.Duration, c *pipeline.Counts) {
		t.Helper()
		now = now.Add(after)
		w.settled(c, now)
		if got := strings.Count(text.String(), "records have no ID: is --key right?"); got != want {
			t.Errorf("%d warnings, want %d:\n%s", got, want, &text)
		}
	}
	f(0, 0, counted(999, 600, 0))
	f(1, 0, counted(1, 0, 0))
	f(1, 59*time.Second, counted(5000, 5000, 0))
	f(2, time.Second, counted(1000, 1000, 0))
	f(2, time.Hour, counted(5000, 2500, 0)) // what was long ago does not count
}

func TestRunWarnsOfAFullFilterAndOfAWrongKey(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 1, nil)
	var values []string
	for i := range 500 {
		values = append(values, fmt.Sprintf(`{"id":%d}`, i))
	}
	for range 501 {
		values = append(values, `{"no":"id"}`)
	}
	produce(t, brokers, in, 1, values...)
	p := start(t, runArgs(brokers, in, in+"-out", "--capacity", "100")...)
	consume(t, brokers, in+"-out", len(values))
	if code := p.end(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	stderr := p.stderr.String()
	full := `level=WARN msg="the filter is full: new IDs pass without being remembered, and so do their repeats: raise --capacity" partition=` + in + "/0 records="
	if n := strings.Count(stderr, full); n != 1 {
		t.Errorf("%d warnings of a full filter, want 1", n)
	}
	if n := strings.Count(stderr, `level=WARN msg="501 of 1001 records have no ID: is --key right?"`); n != 1 {
		t.Errorf("%d warnings of a wrong key, want 1", n)
	}
}
