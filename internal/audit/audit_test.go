package audit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/internal/workload"
)

// The stream of the small tests: a window of 7 s, so a slice is 1 s.
const t0 = int64(1_764_000_000_000)

func rules() Config {
	return Config{
		Keys: []string{"key"}, Time: "record", Window: 7 * time.Second, MaxRecords: 1000,
		ReadFrom: time.UnixMilli(t0 + 100_000), ReadTo: time.UnixMilli(t0 + 101_000),
	}
}

// record parses "ID" or "ID@SECONDS" or "ID@SECONDS=VALUE"; an ID of "-" is none.
func record(text string) *keys.Record {
	text, value, _ := strings.Cut(text, "=")
	id, at, timed := strings.Cut(text, "@")
	r := &keys.Record{Key: []byte(id), Value: []byte(value), Time: t0}
	if id == "-" {
		r.Key = nil
	}
	if timed {
		var seconds float64
		if _, err := fmt.Sscan(at, &seconds); err != nil {
			panic(err)
		}
		r.Time = t0 + int64(math.Round(seconds*1000))
	}
	return r
}

func run(t *testing.T, cfg Config, in, out string) Report {
	t.Helper()
	return runPart(t, cfg, false, in, out)
}

func runPart(t *testing.T, cfg Config, partial bool, in, out string) Report {
	t.Helper()
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := a.Partition(3, partial)
	for i, text := range strings.Fields(in) {
		if err := p.In(int64(i), record(text)); err != nil {
			t.Fatal(err)
		}
	}
	for i, text := range strings.Fields(out) {
		if err := p.Out(int64(100+i), record(text)); err != nil {
			t.Fatal(err)
		}
	}
	p.Finish()
	return a.Report()
}

// summary is what a report found, without what is zero.
func summary(r Report) string {
	var parts []string
	add := func(name string, n uint64) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", name, n))
		}
	}
	add("unique", r.Unique)
	add("duplicate", r.Duplicate)
	add("no_id", r.NoID)
	add("excused", r.Excused)
	add("outside", r.Outside)
	for _, f := range r.faults() {
		add(f.name, f.Count)
	}
	add("withheld", r.Withheld.Count)
	return strings.Join(parts, " ")
}

func TestVerdicts(t *testing.T) {
	f := func(in, out, want string) {
		t.Helper()
		r := run(t, rules(), in, out)
		if got := summary(r); got != want {
			t.Errorf("in %q, out %q:\n got %s\nwant %s", in, out, got, want)
		}
		clean := !slices.ContainsFunc([]string{"missed", "extra", "lost", "foreign", "reordered", "withheld"},
			func(fault string) bool { return strings.Contains(want, fault) })
		if r.OK != clean || (r.Err() == nil) != clean {
			t.Errorf("in %q, out %q: OK is %t, error %v", in, out, r.OK, r.Err())
		}
	}
	// Dropped inside the window, and only there.
	f("a b a c", "a b c", "unique=3 duplicate=1")
	f("a@0 b@6 a@6", "a@0 b@6", "unique=2 duplicate=1")
	f("a@0 b@7 a@7", "a@0 b@7 a@7", "unique=2 missed=1")
	f("a@0 b@7.001 a@1", "a@0 b@7.001 a@1", "unique=3")
	f("a@0 b@8 a@8", "a@0 b@8 a@8", "unique=3")
	f("a@0 b@8 a@8", "a@0 b@8", "unique=2 duplicate=1")
	f("a@0 b@8.001 a@8.001", "a@0 b@8.001 a@8.001", "unique=3")
	f("a@0 b@8.001 a@8.001", "a@0 b@8.001", "unique=2 withheld=1")
	// A repeat does not extend the window; what comes out begins a new one.
	f("a@0 a@5 b@9 a@9", "a@0 b@9 a@9", "unique=3 duplicate=1")
	f("a@0 a@5 b@9 a@9 b@15 a@15", "a@0 b@9 a@9", "unique=3 duplicate=3")
	// Out of order, late: judged at stream time.
	f("a@20 b@20 a@1 c@1 c@2", "a@20 b@20 c@1", "unique=3 duplicate=2")
	// Nothing may be learned from what did not come out.
	f("a=1 a=2", "a=2", "unique=1 withheld=1")
	f("a=1 a=2 a=3", "", "duplicate=2 withheld=1")
	f("a=1 a=2 a=3", "a=2 a=3", "unique=1 missed=1 withheld=1")
	// No ID: always passes.
	f("-=1 -=1 a", "-=1 -=1 a", "unique=1 no_id=2")
	f("-=1 -=1 a", "-=1 a", "unique=1 no_id=2 lost=1")
	// What is not the input.
	f("a=1 b=2", "a=1 b=3", "unique=1 foreign=1 withheld=1")
	f("a@1 b@2", "a@1 b@3", "unique=1 foreign=1 withheld=1")
	f("a b c", "a b a c", "unique=3 extra=1")
	f("a b c a d", "a b a c d", "unique=4 duplicate=1 extra=1")
	f("a b c", "a c b", "unique=3 reordered=1")
	f("a b c d e", "b c d e a", "unique=5 reordered=1")
	f("a b b c d", "a c b d", "unique=4 duplicate=1 reordered=1")
}

// Equal bytes in several places: the output is the one that fits.
func TestMatchesAmbiguousBytes(t *testing.T) {
	f := func(in, out, want string) {
		t.Helper()
		if got := summary(run(t, rules(), in, out)); got != want {
			t.Errorf("in %q, out %q:\n got %s\nwant %s", in, out, got, want)
		}
	}
	// The second a is a copy, the third lies after the window: the output's second
	// is the third.
	f("a@0 b@1 a@0 c@20 a@0", "a@0 b@1 c@20 a@0", "unique=4 duplicate=1")
	f("a@0 b@1 a@0 c@20 a@0", "a@0 b@1 c@20", "unique=3 duplicate=1 withheld=1")
	f("a@0 b@1 a@0 c@2 a@0 d@3", "a@0 b@1 c@2 a@0 d@3", "unique=4 duplicate=1 missed=1")
}

func TestDoubtfulTimesAreJudgedBothWays(t *testing.T) {
	cfg := rules()
	cfg.MaxAhead = time.Second
	// It was read between 50 and 100 s: a time of 80 s may have been believed.
	cfg.ReadFrom, cfg.ReadTo = time.UnixMilli(t0+50_000), time.UnixMilli(t0+100_000)
	f := func(in, out, want string) {
		t.Helper()
		if got := summary(run(t, cfg, in, out)); got != want {
			t.Errorf("in %q, out %q:\n got %s\nwant %s", in, out, got, want)
		}
	}
	f("a@1 x@80 a@2", "a@1 x@80", "unique=2 duplicate=1")
	f("a@1 x@80 a@2", "a@1 x@80 a@2", "unique=3")
	f("a@1 x@51 a@2", "a@1 x@51", "unique=2 withheld=1")
	f("a@1 x@101.001 a@2", "a@1 x@101.001 a@2", "unique=2 missed=1")
	// After it a copy is still one in both worlds.
	f("a@1 x@80 b@2 b@3", "a@1 x@80 b@2", "unique=3 duplicate=1")
	// No time moves nothing.
	f("a@1 x@-1764000000 a@2", "a@1 x@-1764000000 a@2", "unique=2 missed=1")
}

// Before the first believed time the wall clock stands in: it moved by at most
// what the reading took.
func TestBeginningWithoutTime(t *testing.T) {
	cfg := rules()
	f := func(in, out, want string) {
		t.Helper()
		if got := summary(run(t, cfg, in, out)); got != want {
			t.Errorf("in %q, out %q:\n got %s\nwant %s", in, out, got, want)
		}
	}
	const never = "@-1764000000"
	f("a"+never+" b@50 a"+never, "a"+never+" b@50 a"+never, "unique=2 missed=1")
	f("a"+never+" b@50 b@60 a"+never, "a"+never+" b@50 b@60 a"+never, "unique=4")
	f("a"+never+" a"+never, "a"+never+" a"+never, "unique=1 missed=1")
	// The clock may have moved by a minute: nobody knows.
	cfg.ReadTo = time.UnixMilli(t0 + 160_000)
	f("a"+never+" a"+never, "a"+never+" a"+never, "unique=2")
	f("a"+never+" a"+never, "a"+never, "unique=1 duplicate=1")
}

func TestUnknownReadingTime(t *testing.T) {
	cfg := rules()
	cfg.ReadFrom, cfg.ReadTo = time.Time{}, time.UnixMilli(t0+1_000_000)
	if got, want := summary(run(t, cfg, "a@1 b@2 a@3 c@30 d@30 e@30 f@30 a@30", "a@1 b@2 a@3 c@30 d@30 e@30 f@30")), "unique=6 missed=1 withheld=1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// One clock far ahead, though no longer at the audit: in doubt.
	if got, want := summary(run(t, cfg, "a@1 b@2 x@900 a@3 c@4", "a@1 b@2 x@900 a@3 c@4")), "unique=5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestArrivalTime(t *testing.T) {
	cfg := rules()
	cfg.Time = "arrival"
	if got, want := summary(run(t, cfg, "a@0 b@50 a@99", "a@0 b@50 a@99")), "unique=2 missed=1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPartialRange(t *testing.T) {
	f := func(in, out, want string) {
		t.Helper()
		if got := summary(runPart(t, rules(), true, in, out)); got != want {
			t.Errorf("in %q, out %q:\n got %s\nwant %s", in, out, got, want)
		}
	}
	f("a@0 b@1 c@2", "x@0 y@0 b@1 c@2 z@3", "unique=2 excused=1 outside=3")
	f("a@0 b@8 c@9", "a@0", "unique=1 excused=1 withheld=1")
	f("a@0 b@1", "a@0 x@0 b@1", "unique=2 foreign=1")
}

func TestOutputTimes(t *testing.T) {
	cfg := rules()
	f := func(in, out, want string) {
		t.Helper()
		if got := summary(run(t, cfg, in, out)); got != want {
			t.Errorf("in %q, out %q:\n got %s\nwant %s", in, out, got, want)
		}
	}
	cfg.OutputTimes = OutputTimes{After: 10 * time.Second}
	f("a@500 b@1", "a@110 b@1", "unique=2")
	f("a@500 b@1", "a@500 b@1", "unique=2")
	f("a@500 b@1", "a@110 b@2", "unique=1 foreign=1 withheld=1")
	cfg.OutputTimes = OutputTimes{Before: 10 * time.Second}
	f("a@-50 b@98", "a@95 b@98", "unique=2")
	cfg.OutputTimes = OutputTimes{Stamped: true}
	f("a@1 b@2 a@3", "a@100 b@100", "unique=2 duplicate=1")
}

func TestBytesCount(t *testing.T) {
	base := keys.Record{Key: []byte("k"), Value: []byte("v"), Time: 5, Headers: []keys.Header{{Name: "a", Value: []byte("1")}, {Name: "b", Value: nil}}}
	change := map[string]func(r *keys.Record){
		"key":              func(r *keys.Record) { r.Key = []byte("K") },
		"null value":       func(r *keys.Record) { r.Value = nil },
		"empty value":      func(r *keys.Record) { r.Value = []byte{} },
		"time":             func(r *keys.Record) { r.Time++ },
		"header order":     func(r *keys.Record) { r.Headers = []keys.Header{base.Headers[1], base.Headers[0]} },
		"header value":     func(r *keys.Record) { r.Headers = []keys.Header{base.Headers[0], {Name: "b", Value: []byte{}}} },
		"added header":     func(r *keys.Record) { r.Headers = append(r.Headers[:2:2], keys.Header{Name: "c"}) },
		"shifted boundary": func(r *keys.Record) { r.Key, r.Value = []byte("kv"), []byte("") },
	}
	for name, f := range change {
		a, err := New(rules())
		if err != nil {
			t.Fatal(err)
		}
		altered := base
		f(&altered)
		if a.digest(&base, true) == a.digest(&altered, true) {
			t.Errorf("another %s has the same digest", name)
		}
	}
}

func TestLimit(t *testing.T) {
	cfg := rules()
	cfg.MaxRecords = 1
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := a.Partition(0, false)
	if err := p.In(0, record("a")); err != nil {
		t.Fatal(err)
	}
	if err := p.In(1, record("b")); !errors.Is(err, ErrTooMany) {
		t.Errorf("a record over the limit gave %v", err)
	}
}

func TestAllowance(t *testing.T) {
	f := func(unique, withheld uint64, fpr float64, allowed uint64, ok bool) {
		t.Helper()
		r := Report{Unique: unique, Withheld: Finding{Count: withheld, First: []Place{{}}}}
		r.judge(fpr)
		if r.Allowed != allowed || r.OK != ok {
			t.Errorf("%d of %d withheld at %g: allowed %d, ok %t; want %d, %t", withheld, unique, fpr, r.Allowed, r.OK, allowed, ok)
		}
	}
	f(1_799_800, 200, 1e-4, 234, true)
	f(1_799_765, 235, 1e-4, 234, false)
	f(1000, 0, 0, 0, true)
	f(999, 1, 0, 0, false)
}

// The truth of a workload is the auditor's, on any output: dropping exactly the
// copies is right, and each single change is found.
func TestAgreesWithWorkload(t *testing.T) {
	w := workload.Config{
		Kind: workload.Clicks, Seed: 3, Events: 18_000, Copies: 2_000, Partitions: 4, Skew: true,
		Start: time.UnixMilli(t0), Span: 24 * time.Hour, Window: time.Hour,
	}
	cfg := Config{
		Keys: w.Kind.KeySpecs(), Time: "record", Window: w.Window, FPR: 0, MaxRecords: w.Records(),
		ReadFrom: w.Start.Add(w.Span), ReadTo: w.Start.Add(w.Span + time.Minute),
	}
	audit := func(kept func(r workload.Record) int) Report {
		t.Helper()
		g, err := workload.New(w)
		if err != nil {
			t.Fatal(err)
		}
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		in := make([][]workload.Record, w.Partitions)
		for r, ok := g.Next(); ok; r, ok = g.Next() {
			in[r.Partition] = append(in[r.Partition], r)
		}
		for number, records := range in {
			p := a.Partition(int32(number), false)
			for i := range records {
				if err := p.In(int64(i), &records[i].Record); err != nil {
					t.Fatal(err)
				}
			}
			for i := range records {
				for range kept(records[i]) {
					if err := p.Out(int64(i), &records[i].Record); err != nil {
						t.Fatal(err)
					}
				}
			}
			p.Finish()
		}
		return a.Report()
	}
	firsts := func(r workload.Record) int {
		if r.Copy {
			return 0
		}
		return 1
	}
	f := func(want string, kept func(r workload.Record) int) {
		t.Helper()
		r := audit(kept)
		if got := summary(r); got != want {
			t.Errorf("got %s, want %s (%v)", got, want, r.Err())
		}
	}
	f("unique=18000 duplicate=2000", firsts)
	f("unique=17999 duplicate=2000 withheld=1", func(r workload.Record) int {
		if r.Event == 77 {
			return 0
		}
		return firsts(r)
	})
	f("unique=18000 duplicate=2000 extra=1", func(r workload.Record) int {
		if r.Event == 78 && !r.Copy {
			return 2
		}
		return firsts(r)
	})
	f("unique=18000 missed=2000", func(workload.Record) int { return 1 })
}
