package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

func engineConfig() EngineConfig {
	return EngineConfig{
		Memory: 2 << 20, FPR: 0.01, Layouts: []filter.Layout{filter.Compact, filter.Fast},
		Sliced: true, Classic: true, Exact: true, Seed: 7, Duration: time.Minute, Command: "streamdedup bench engine",
	}
}

func TestRunEngine(t *testing.T) {
	report, err := RunEngine(t.Context(), engineConfig())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range report.Results {
		names = append(names, r.Filter+r.Layout)
		if r.NSPerEvent <= 0 || r.Bytes == 0 || r.BytesPerID <= 0 {
			t.Errorf("%s: nothing was measured: %+v", r.Name, r)
		}
		if r.Generations < 0.99 || r.Generations > 1.2 {
			t.Errorf("%s: measured %.2f generations, want one", r.Name, r.Generations)
		}
		if r.Filter != "exact" && (r.Bytes > 2<<20 || r.Bytes < 2<<20*9/10) {
			t.Errorf("%s: has %d bytes, asked for %d", r.Name, r.Bytes, 2<<20)
		}
	}
	if got := strings.Join(names, " "); got != "slicedcompact slicedfast classic exact" {
		t.Errorf("measured %s", got)
	}
	if report.RandomLineNS <= 0 {
		t.Errorf("a random line takes %g ns", report.RandomLineNS)
	}
}

// TestEngineReportNames holds the contract of `bench engine -o json`.
func TestEngineReportNames(t *testing.T) {
	b, err := json.Marshal(EngineReport{Environment: NewEnvironment("c", 1), Results: make([]EngineResult, 1)})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"machine", "go", "command", "seed", "random_line_ns", "results"} {
		if _, ok := got[name]; !ok {
			t.Errorf("the report has no %q", name)
		}
	}
	result := got["results"].([]any)[0].(map[string]any)
	for _, name := range []string{"name", "filter", "layout", "fpr", "bytes", "ns_per_event", "events_per_second", "bytes_per_id"} {
		if _, ok := result[name]; !ok {
			t.Errorf("a result has no %q", name)
		}
	}
	var text bytes.Buffer
	if err := (EngineReport{RandomLineNS: 1, Results: make([]EngineResult, 1)}).WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "ns/event") {
		t.Errorf("the text has no heading:\n%s", &text)
	}
}

func TestEngineConfigValidate(t *testing.T) {
	err := EngineConfig{}.Validate()
	if err == nil {
		t.Fatal("an empty config is valid")
	}
	for _, want := range []string{"Memory is", "FPR is", "Duration is", "nothing is to be measured"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// A feed's copies are copies, its IDs are of the stated sizes and all different,
// and a generation gets no more than its plan.
func TestFeed(t *testing.T) {
	const perGen = 5000
	f := newFeed(3, 1000, perGen)
	seen := map[string]bool{}
	perNumber := map[int64]int{}
	copies := 0
	for range 50 {
		for _, r := range f.next().Records {
			if n := len(r.Key); n < minIDBytes || n > maxIDBytes {
				t.Fatalf("an ID has %d bytes", n)
			}
			if seen[string(r.Key)] {
				copies++
				continue
			}
			seen[string(r.Key)] = true
			perNumber[r.Time]++
		}
	}
	if uint64(copies) != f.copies || uint64(len(seen)) != f.fresh {
		t.Errorf("%d new IDs and %d copies, the feed counts %d and %d", len(seen), copies, f.fresh, f.copies)
	}
	for number, n := range perNumber {
		if n > perGen {
			t.Errorf("the generation at %d has %d new IDs, its plan is %d", number, n, perGen)
		}
	}
}

// BenchmarkEngine is the engine at a small size; `streamdedup bench engine` is
// the one for figures.
func BenchmarkEngine(b *testing.B) {
	f := func(filterName, layout string, change func(c *EngineConfig)) {
		b.Run(fmt.Sprintf("filter=%s/layout=%s/memory=16MiB", filterName, layout), func(b *testing.B) {
			c := engineConfig()
			c.Memory = 16 << 20
			c.Sliced, c.Classic, c.Exact = false, false, false
			c.Events = uint64(max(b.N, feedBatch))
			change(&c)
			report, err := RunEngine(b.Context(), c)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(report.Results[0].NSPerEvent, "ns/event")
			b.ReportMetric(report.Results[0].EventsPerSecond/1e6, "Mevents/s")
			b.ReportMetric(0, "ns/op") // includes the filling of the filter
		})
	}
	for _, layout := range []filter.Layout{filter.Compact, filter.Fast} {
		f("sliced", layout.String(), func(c *EngineConfig) { c.Sliced, c.Layouts = true, []filter.Layout{layout} })
	}
	f("classic", "ring", func(c *EngineConfig) { c.Classic = true })
	f("exact", "map", func(c *EngineConfig) { c.Exact = true })
}
