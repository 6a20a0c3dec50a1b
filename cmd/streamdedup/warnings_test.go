package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/internal/admin"
	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// What is wrong for long is said once a minute, however often it is looked at, and each
// thing for itself.
func TestWatcherRepeatsItselfOnceAMinute(t *testing.T) {
	noID := admin.Warning{Check: admin.CheckNoID, Text: "no IDs"}
	high := func(n int32) admin.Warning {
		p := pipeline.Partition{Topic: "in", Number: n}
		return admin.Warning{Check: admin.CheckEstimate, Partition: p, Text: "too high: " + p.String()}
	}
	// What others put into the log.
	cold := admin.Warning{Check: admin.CheckCoverage, Text: "cold"}
	var text bytes.Buffer
	var now []admin.Warning
	w := newWatcher(slog.New(slog.NewTextHandler(&text, nil)), "--capacity", func() []admin.Warning { return now })
	begin := time.Unix(1_700_000_000, 0)
	f := func(from, to time.Duration, found ...admin.Warning) {
		now = found
		for at := from; at < to; at += lookEvery {
			w.look(begin.Add(at))
		}
	}
	f(0, time.Hour)
	f(time.Hour, 2*time.Hour, noID, high(0), cold)
	f(2*time.Hour, 2*time.Hour+10*time.Second, high(1))
	f(3*time.Hour, 4*time.Hour)
	for want, n := range map[string]int{"no IDs": 60, "too high: in/0": 60, "too high: in/1": 1, "cold": 0} {
		if got := strings.Count(text.String(), want); got != n {
			t.Errorf("%q was said %d times, want %d", want, got, n)
		}
	}
}

func TestWatcherSaysHowManyDidNotFit(t *testing.T) {
	var text bytes.Buffer
	w := newWatcher(slog.New(slog.NewTextHandler(&text, nil)), "--rate", nil)
	now := time.Unix(1_700_000_000, 0)
	for at := range 121 {
		for n := range int32(2) {
			w.unlearned(now.Add(time.Duration(at)*time.Second), pipeline.Partition{Topic: "in", Number: n}, 5)
		}
	}
	for n := range 2 {
		for _, records := range []int{5, 300, 300} {
			line := fmt.Sprintf("raise --rate\" partition=in/%d records=%d\n", n, records)
			before, after, ok := strings.Cut(text.String(), line)
			if !ok {
				t.Errorf("no line %q in:\n%s", line, &text)
			}
			text = *bytes.NewBufferString(before + after)
		}
	}
	if strings.Contains(text.String(), "records=") {
		t.Errorf("more was said:\n%s", &text)
	}
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
	full := `level=WARN msg="the filter is full: new IDs pass without being remembered, and so do their repeats: raise --capacity, or --memory-limit where the filter has not grown to 16 times its plan" partition=` + in + "/0 records="
	if n := strings.Count(stderr, full); n != 1 {
		t.Errorf("%d warnings of a full filter, want 1", n)
	}
	if n := strings.Count(stderr, `level=WARN msg="501 of 1001 records have no ID: is --key right?"`); n != 1 {
		t.Errorf("%d warnings of a wrong key, want 1", n)
	}
}
