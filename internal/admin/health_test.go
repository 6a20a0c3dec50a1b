package admin

import (
	"fmt"
	"math"
	"math/bits"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

// Each check has a line on the page and a metric, and neither while all is well.
func TestEveryCheckShows(t *testing.T) {
	type stream struct {
		source *Source
		s      *pipeline.Snapshot
		p      *pipeline.PartitionSnapshot
		c      *pipeline.Counts // of the recent records
	}
	clicks := pipeline.Partition{Topic: "clicks", Number: 1}
	for check, c := range map[Check]struct {
		text string
		make func(stream)
	}{
		CheckStopped: {"partition clicks/1 stopped before offset 5: late record", func(x stream) {
			x.p.Stopped = &pipeline.Stop{Partition: clicks, Offset: 5, Reason: pipeline.ReasonLate}
		}},
		CheckBlocked: {"partition clicks/1 waits at offset 7 for a transaction of another producer, for 12s", func(x stream) {
			x.source.Standstills = func() []pipeline.Standstill {
				return []pipeline.Standstill{{Partition: clicks, Offset: 7, For: 12 * time.Second, OpenTransaction: true}}
			}
		}},
		CheckStandstill: {"partition clicks/1 stands at offset 7 with 4 offsets to read, for 2m0s", func(x stream) {
			x.source.Standstills = func() []pipeline.Standstill {
				return []pipeline.Standstill{{Partition: clicks, Offset: 7, Lag: 4, For: 2 * time.Minute}}
			}
		}},
		CheckMemory: {"partition clicks/1 waits for memory: no memory for a filter", func(x stream) {
			x.p.Restored, x.p.Waits = false, pipeline.ErrNoRoom
		}},
		CheckCoverage: {"partition clicks/1 knows 25% of the window: older duplicates pass", func(x stream) { x.p.Window.Coverage = 0.25 }},
		CheckFull:     {"partition clicks/1 has more new IDs than planned: the filter is full", func(x stream) { x.p.Window.Full = true }},
		CheckRate: {"partition clicks/1 gets 18.6 new IDs a second of its time, and is planned for 10 at most: raise the plan", func(x stream) {
			x.p.Window.Believed, x.p.Window.StreamTime, x.p.Window.Loads[0] = true, 20_005_000, 93
		}},
		CheckEstimate: {"partition clicks/1 takes 0.00016 of the new records for seen, and --fpr allows 0.0001", func(x stream) { x.p.Window.FPR = 1.6e-4 }},
		CheckMeasured: {"12 of 10012 audited new records were taken for seen, 0.0012 of them, and --fpr allows 0.0001", func(x stream) {
			x.s.Counts.Audit = pipeline.Audit{Sampled: 20_000, SampledNew: 10_000, FalsePositives: 12}
		}},
		CheckClashes: {"3 of 20 audited records have the ID of an earlier one and another value", func(x stream) {
			x.c.Audit = pipeline.Audit{Sampled: 20, SampledNew: 10, Clashes: 3}
		}},
		CheckHot: {"partition clicks/1: the ID with hash 00000000000000ff (--show-ids shows it) is that of 10% of the records: if it means none, --ignore-id says so; or is --key too coarse?", func(x stream) {
			x.p.Hot = pipeline.Hot{Hash: 255, Share: 0.1}
		}},
		CheckNoID: {"51 of 100 records have no ID, 1 of them because they are malformed before it: is --key right?", func(x stream) { x.c.Verdicts = [4]uint64{49, 0, 50, 1} }},
		CheckNoTime: {"51 of 100 records have no time, and are judged at the stream's time: is --time record right?", func(x stream) {
			x.c.Marks[2] = 51
		}},
		CheckAhead: {"51 of 100 records are ahead of the clock: whose is wrong, the producers' or ours?", func(x stream) { x.c.Marks[1] = 51 }},
	} {
		t.Run(check.String(), func(t *testing.T) {
			for _, wrong := range []bool{false, true} {
				s := &pipeline.Snapshot{Partitions: []pipeline.PartitionSnapshot{
					{Partition: clicks, Restored: true, Window: window.Stats{Coverage: 1, StreamTime: window.NoTime, FPR: 1.4e-4},
						Hot: pipeline.Hot{Share: 0.099}},
				}}
				counts := &pipeline.Counts{In: 100, Verdicts: [4]uint64{50, 0, 49, 1}, Marks: [8]uint64{0, 50, 50}}
				m := watching(s)
				source := *m.source.Load()
				if wrong {
					c.make(stream{&source, s, &s.Partitions[0], counts})
				}
				m.Watch(source)
				m.recent.add(time.Now(), counts)
				h := handler("group g: clicks to unique", m)
				code, body := get(t, h, "/healthz", here)
				if code != http.StatusOK || !strings.Contains(body, "\ngroup g: clicks to unique\n") {
					t.Errorf("/healthz: %d, want 200:\n%s", code, body)
				}
				if got := strings.Contains(body, "\nwarning: "+c.text); got != wrong || strings.Contains(body, "warning: ") != wrong {
					t.Errorf("a warning %q: %v, want %v:\n%s", c.text, got, wrong, body)
				}
				_, body = get(t, h, "/metrics", here)
				for other := range checks {
					want := fmt.Sprintf("\nstreamdedup_health_warning{check=%q} %v\n", other, oneIf(wrong && other == check))
					if !strings.Contains(body, want) {
						t.Errorf("no line %s", want)
					}
				}
			}
		})
	}
}

// A commit may come in the middle of a scrape. Whoever sees its counts sees what is wrong
// with them, too.
func TestHealthIsNotFromBeforeTheCounts(t *testing.T) {
	t.Parallel()
	m, asked := NewMetrics(), 0
	m.Watch(Source{Snapshot: func() *pipeline.Snapshot {
		s := &pipeline.Snapshot{}
		if asked++; asked > 1 {
			s.Counts = pipeline.Counts{In: 100, Verdicts: [4]uint64{0, 0, 100}}
			m.recent.add(time.Now(), &s.Counts)
		}
		return s
	}})
	_, body := get(t, handler("", m), "/metrics", here)
	if asked < 2 {
		t.Fatal("a scrape looks once: the test has lost its fault")
	}
	counted := strings.Contains(body, "\nstreamdedup_records_total{verdict=\"missing\"} 100\n")
	if warned := strings.Contains(body, "\nstreamdedup_health_warning{check=\"no_id\"} 1\n"); counted && !warned {
		t.Error("records without an ID are counted, and no check has found them")
	}
}

// A window that is known, but for what came while the filter was full, is said to be
// that: since the start, which is as far as the count goes.
func TestHealthzCountsWhatWasNotLearned(t *testing.T) {
	t.Parallel()
	for n, end := range map[uint64]string{0: "\n", 1234: ": the filter was full, and repeats of them pass\n"} {
		s := busy()
		m := watching(s)
		for bit := pipeline.Marks(1); bit != 0; bit <<= 1 { // of all marks only one is meant
			if bit != pipeline.Unlearned {
				s.Counts.Marks[bits.TrailingZeros8(uint8(bit))] = 77
			}
		}
		s.Counts.Marks[bits.TrailingZeros8(uint8(pipeline.Unlearned))] = n
		m.start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
		want := fmt.Sprintf("\nmemory: 25%% of the window is known, %d new IDs not learned since the start at 2026-01-02T02:04:05Z%s", n, end)
		if _, body := get(t, handler("", m), "/healthz", here); !strings.Contains(body, want) {
			t.Errorf("/healthz does not say %q:\n%s", want, body)
		}
	}
}

// A burst at the start of a generation is what the rest of it makes up for, and what
// chance explains is no rate.
func TestTooFastIsMoreThanABurst(t *testing.T) {
	source := &Source{Slice: 10 * time.Second, GenerationCapacity: 100}
	for _, c := range []struct {
		passed   int64
		load     uint64
		believed bool
		want     bool
	}{
		{5000, 93, true, true},
		{5000, 92, true, false},  // 50 are planned, and six times their root is 42.4
		{5000, 93, false, false}, // a clock that stands in
		{1249, 100, true, false},
		{1250, 100, true, true},
		{9999, 200, true, true},
		{0, 100, true, false},
	} {
		p := pipeline.PartitionSnapshot{Window: window.Stats{Believed: c.believed, StreamTime: 20_000_000 + c.passed}}
		p.Window.Loads[0] = c.load
		if got := tooFast(&p, source); (got != "") != c.want {
			t.Errorf("%d IDs after %d of 10000 ms, believed %v: %q, want a warning %v", c.load, c.passed, c.believed, got, c.want)
		}
	}
}

// What is malformed has no ID either, but there is another reason to look for.
func TestWithoutIDTellsMalformedFromMissing(t *testing.T) {
	for _, c := range []struct {
		missing, invalid uint64
		want             string
	}{
		{60, 0, "60 of 100 records have no ID: is --key right?"},
		{0, 60, "60 of 100 records are malformed before their ID: is --key right for their format?"},
		{20, 40, "60 of 100 records have no ID, 40 of them because they are malformed before it: is --key right?"},
		{25, 25, ""},
	} {
		counts := pipeline.Counts{In: 100}
		counts.Verdicts[pipeline.Missing], counts.Verdicts[pipeline.Invalid] = c.missing, c.invalid
		if got := WithoutID(&counts); got != c.want {
			t.Errorf("%d missing and %d invalid: %q, want %q", c.missing, c.invalid, got, c.want)
		}
	}
}

// A stream that goes wrong after a day must show within a minute, and one that is
// right again must not be blamed for the day.
func TestRecentForgetsTheDayBefore(t *testing.T) {
	var r recent
	now := time.Unix(1_700_000_000, 0)
	f := func(records, missing uint64, each, long time.Duration) (turned time.Duration) {
		t.Helper()
		was := r.counts()
		before := WithoutID(&was) != ""
		for past := time.Duration(0); past < long; past += each {
			now = now.Add(each)
			r.add(now, &pipeline.Counts{In: records, Verdicts: [4]uint64{records - missing, 0, missing, 0}})
			if c := r.counts(); turned == 0 && (WithoutID(&c) != "") != before {
				turned = past + each
			}
		}
		return turned
	}
	const day = 24 * time.Hour
	if at := f(1000, 499, time.Second, day); at != 0 {
		t.Errorf("the first warning of a good day was after %v", at)
	}
	if at := f(1000, 1000, time.Second, day); at == 0 || at > time.Minute {
		t.Errorf("a bad day shows after %v, want within a minute", at)
	}
	if at := f(1000, 0, time.Second, day); at == 0 || at > time.Minute {
		t.Errorf("a good day shows after %v, want within a minute", at)
	}
	// Ten records an hour: a minute has none, so it takes as many as say something.
	f(1, 0, 6*time.Minute, day)
	for range 100 { // one in three has none, which is no reason to warn
		f(1, 1, 6*time.Minute, 6*time.Minute)
		if at := f(1, 0, 6*time.Minute, 12*time.Minute); at != 0 {
			t.Fatal("a record without an ID makes a slow stream a bad one")
		}
	}
	if at := f(1, 1, 6*time.Minute, 10*day); at == 0 || at > (enough/2+1)*6*time.Minute+recently {
		t.Errorf("a bad slow stream shows after %v, want after %d records", at, enough/2+1)
	}
	if n := len(r.steps); n > enough+1 {
		t.Errorf("%d steps are kept", n)
	}
}

// The measured rate speaks when chance does not explain it, and not before, however
// many or few were audited.
func TestTheMeasuredRateNeedsEnoughRecords(t *testing.T) {
	const budget = 1e-4
	f := func(falsePositives, ofNew uint64, want bool) {
		t.Helper()
		a := pipeline.Audit{FalsePositives: falsePositives, SampledNew: ofNew - falsePositives}
		if got := tooMany(&a, budget) != ""; got != want {
			t.Errorf("%d of %d is too many: %v, want %v; the chance is %.2g", falsePositives, ofNew, got, want,
				chance(falsePositives, float64(ofNew)*budget))
		}
	}
	f(0, 0, false)
	f(1, 1, false) // expected once in 10,000 starts
	f(2, 2, false) // once in a hundred million, and there are many starts
	f(3, 3, true)
	f(5, 1000, false)
	f(9, 1000, true)
	f(25, 100_000, false)
	f(40, 100_000, true)
	f(1000, 10_000_000, false)
	f(1999, 10_000_000, false) // within twice the budget
	f(2001, 10_000_000, true)

	// The bound is one: it is above the exact chance, and not far.
	for _, expected := range []float64{0.01, 1, 30} {
		term, left := math.Exp(-expected), 1.0
		for n := range uint64(120) {
			if bound := chance(n, expected); float64(n) > expected && left > 1e-12 && (bound < left || bound > 50*left) {
				t.Errorf("%d of %v expected: bound %.3g, exactly %.3g", n, expected, bound, left)
			}
			left -= term
			term *= expected / float64(n+1)
		}
	}
}

// An ID shows itself only to who asked for it.
func TestAHotIDShowsItsTextOnRequest(t *testing.T) {
	p := &pipeline.PartitionSnapshot{Partition: pipeline.Partition{Topic: "clicks"}, Hot: pipeline.Hot{Hash: 0xabc, Share: 0.42, Text: "\"unknown\xc3"}}
	want := `partition clicks/0: the ID "unknown?, with hash 0000000000000abc, is that of 42% of the records`
	if got := hot(p); !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}
