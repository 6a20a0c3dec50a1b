package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/sizing"
	"github.com/streamdedup/streamdedup/window"
)

func engineConfig() EngineConfig {
	return EngineConfig{
		Memory: []uint64{256 << 10}, FPR: 0.01, Workloads: Workloads(), Layouts: []filter.Layout{filter.Compact, filter.Fast},
		Sliced: true, Growing: true, Classic: true, Exact: true, Seed: 7, Events: 30_000, Duration: time.Minute, Rotations: 3,
		Command: "streamdedup bench engine",
	}
}

// Every set is measured by every workload at every size, and beside the references
// of its own size and workload. That all copies were found is checked in the run.
func TestRunEngine(t *testing.T) {
	t.Parallel()
	cfg := engineConfig()
	cfg.Memory, cfg.Workloads = append(cfg.Memory, 512<<10), []Workload{Hot, Disorder}
	report, err := RunEngine(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range report.Results {
		names = append(names, fmt.Sprintf("%d %s %s%s", r.Memory>>10, r.Workload, r.Filter, r.Layout))
		if r.NSPerEvent <= 0 || r.ShardNSPerEvent <= 0 || r.Bytes == 0 || r.BytesPerID <= 0 || r.RandomLineNS <= 0 || r.LoopLongestNS <= 0 || r.HashNS <= 0 {
			t.Errorf("%s: something was not measured: %+v", r.Name, r)
		}
		if r.Events < cfg.Events || r.ShardEvents < cfg.Events || r.Rotations < cfg.Rotations {
			t.Errorf("%s: measured %d events, and %d across %d rotations", r.Name, r.Events, r.ShardEvents, r.Rotations)
		}
		if r.Filter != exactFilter && (r.Bytes > r.Memory || r.Bytes < r.Memory*9/10) {
			t.Errorf("%s: has %d bytes, asked for %d", r.Name, r.Bytes, r.Memory)
		}
		if !(0 < r.BatchP50NS && r.BatchP50NS <= r.BatchP99NS && r.BatchP99NS <= r.BatchP999NS && r.BatchP999NS <= r.LongestStepNS) {
			t.Errorf("%s: the times of a batch are out of order: %+v", r.Name, r)
		}
		if sliced := r.Layout != ""; sliced != (r.Lines > 0) || sliced != (r.TimesRoofline > 0) {
			t.Errorf("%s: has %d lines and %g times their roofline", r.Name, r.Lines, r.TimesRoofline)
		}
		if (r.TimesClassic == 0) != (r.Filter == classicFilter) || (r.TimesExact == 0) != (r.Filter == exactFilter) {
			t.Errorf("%s: is not beside the references: %+v", r.Name, r)
		}
	}
	var want []string
	for _, size := range []string{"256", "512"} {
		for _, w := range []string{"hot", "disorder"} {
			for _, set := range []string{"slicedcompact", "slicedfast", "classic", "exact"} {
				want = append(want, size+" "+w+" "+set)
			}
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("measured %q", names)
	}
	if n := len(report.Growing); n != 8 {
		t.Errorf("%d results of filters that grow, want one of each layout, size and workload", n)
	}
	for _, r := range []EngineReport{report, {Results: report.Results[:4]}} {
		var svg bytes.Buffer
		if err := r.WriteSVG(&svg); err != nil || !strings.Contains(svg.String(), "sliced fast") || !strings.Contains(svg.String(), "a random line") {
			t.Errorf("the drawing, error %v:\n%s", err, &svg)
		}
	}
}

// A filter that grows is driven to three times its plan, which takes four slabs, each of
// half of it, and no copy is missed on the way: that, too, is checked in the run.
func TestRunEngineGrowing(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread() // whose time it is
	defer runtime.UnlockOSThread()
	cfg := engineConfig()
	cfg.Memory, cfg.Workloads = []uint64{minMemory, 256 << 10}, []Workload{Duplicates, Hot}
	// A generation ends where the next batch would pass its end, of a small one before
	// the last slab.
	least := map[uint64]int{minMemory: 2, 256 << 10: 4}
	var report EngineReport
	for _, memory := range cfg.Memory {
		results, err := cfg.runGrowing(t.Context(), memory)
		if err != nil {
			t.Fatalf("seed %d: %v", cfg.Seed, err)
		}
		report.Growing = append(report.Growing, results...)
	}
	if n := len(report.Growing); n != 8 {
		t.Fatalf("%d results, want one of each size, layout and workload", n)
	}
	for _, r := range report.Growing {
		if r.Slabs > 4 || r.Slabs < least[r.Memory] || r.Rotations < cfg.Rotations || r.ShardEvents < cfg.Events {
			t.Errorf("seed %d: %s, %s: %d slabs, %d rotations, %d events", cfg.Seed, r.Name, r.Workload, r.Slabs, r.Rotations, r.ShardEvents)
		}
		if r.Planned > r.Memory/growShare || r.Bytes < 3*r.Planned || !(0 < r.LongestGrowthNS && r.LongestGrowthNS <= r.LongestStepNS) {
			t.Errorf("seed %d: %s, %s: %+v", cfg.Seed, r.Name, r.Workload, r)
		}
	}
	var text bytes.Buffer
	report.Results = []EngineResult{{Workload: "duplicates"}, {Workload: "hot"}}
	if err := report.WriteText(&text); err != nil || !strings.Contains(text.String(), "sliced fast, growing, slabs added: 4, hot") ||
		!strings.Contains(text.String(), "gets 3 times the IDs") {
		t.Errorf("error %v, the text is:\n%s", err, &text)
	}
}

// The memory of a slab and the first ID in it make a batch a step of growth, and a copy
// of the body begins again where the slabs have changed.
func TestLaneTellsGrowth(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread() // whose time it is
	defer runtime.UnlockOSThread()
	plan, err := sizing.ForMemory(sizing.Workload{Window: filter.Sealed * engineSlice, FPR: 0.01, Peak: 1, Skew: 1, Partitions: 1}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	set, begun, err := fullGrowing(plan, 5)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = set.Close() })
	if capacity := plan.GenerationCapacity; begun != capacity-capacity/growFrom {
		t.Errorf("the filling generation has %d of %d IDs", begun, capacity)
	}
	w := windowConfig(plan.GenerationCapacity)
	w.OnFull = window.GrowWhenFull
	s, err := newShard(5, "sliced", w, set)
	if err != nil {
		t.Fatal(err)
	}
	l := newLane(s, set, newFeed(5, engineSlice.Milliseconds()), 3*plan.GenerationCapacity)
	l.feed.workload, l.filled = Unique, begun
	l.begin()
	one := turn{limit: time.Hour, copies: true}
	for slabs := 0; slabs < 2; {
		memory, _ := l.grown()
		l.measured = measured{}
		one.events = feedBatch
		l.fill(t.Context(), stepBatch, one)
		more, now := l.grown()
		m := l.measured
		if grew := more > memory || now > slabs; (m.longest[stepGrowth] > 0) != grew || (m.longest[stepBatch] > 0) == grew || m.slabs != now-slabs {
			t.Fatalf("from %d bytes and %d slabs to %d and %d: %+v", memory, slabs, more, now, m)
		}
		slabs = now
	}
	// A copy that had come further than there is now, as when a slab was given back.
	l.copied, l.changed = set.BodyBytes()+filter.BodyUnit, 0
	l.copyCheckpoint()
	if l.measured.longest[stepCopy] == 0 {
		t.Error("nothing was copied")
	}
}

// Without a bound of events a small filter is measured over as many generations as
// it takes, and a large one over those that it was asked for.
func TestTurns(t *testing.T) {
	t.Parallel()
	f := func(perGen uint64, tn turn, rotations int, events uint64) {
		t.Helper()
		set := newExactMap(7*perGen, 1)
		e, err := newEngine(1, perGen, set)
		if err != nil {
			t.Fatal(err)
		}
		l := newLane(e, set, newFeed(1, engineSlice.Milliseconds()), perGen)
		l.feed.workload = Unique
		l.begin()
		tn.limit = time.Hour
		if m := l.measure(t.Context(), tn); m.rotations != rotations || m.events != events || uint64(len(m.batches)) != events/feedBatch {
			t.Errorf("%d IDs a generation, %+v: %d rotations, %d events, %d batches", perGen, tn, m.rotations, m.events, len(m.batches))
		}
	}
	f(100*feedBatch, turn{rotations: 1, events: 10 * feedBatch}, 1, 10*feedBatch)
	f(100*feedBatch, turn{rotations: 3, events: 30 * feedBatch}, 3, 30*feedBatch)
	f(4*feedBatch, turn{rotations: 1, events: 10 * feedBatch}, 3, 10*feedBatch)
	f(4*feedBatch, turn{rotations: 3, events: feedBatch}, 3, 3*feedBatch)
	f(512*feedBatch, turn{rotations: 1}, 2, leastEvents)
	f(400*feedBatch, turn{rotations: 3}, 3, 1200*feedBatch)
}

// TestEngineReportNames holds the contract of `bench engine -o json`.
func TestEngineReportNames(t *testing.T) {
	t.Parallel()
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
}

func TestEngineText(t *testing.T) {
	t.Parallel()
	f := func(results []EngineResult, want ...string) {
		t.Helper()
		var text bytes.Buffer
		r := EngineReport{Environment: Environment{Machine: "a machine", Command: "a command"}, BatchEvents: 1024, Results: results}
		r.compare()
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(text.String(), w) {
				t.Errorf("the text does not say %q:\n%s", w, &text)
			}
		}
	}
	result := EngineResult{Name: "sliced fast", Workload: "unique", Filter: "sliced", Memory: 1 << 30, NSPerEvent: 60, RandomLineNS: 30, RandomLines: 2, HashNS: 20, Lines: 1, TimesRoofline: 1.2, LoopLongestNS: 1.5e6, ShardResult: ShardResult{LongestStepNS: 2.5e6, LongestStep: "commit"}}
	ring := EngineResult{Name: "classic ring", Workload: "unique", Filter: classicFilter, Memory: 1 << 30, NSPerEvent: 1500, RandomLineNS: 30, RandomLines: 50, ShardResult: ShardResult{ShardNSPerEvent: 1.25e6, ShardEvents: feedBatch}}
	f([]EngineResult{result, ring}, "every ID is new", "sliced fast   2.0           1.2         25.0", "for sliced fast 20.0 ns and 1 such lines", "2.50", "commit", "took 1.50 ms", "takes 30.0 ns", "a machine", "a command")
	var short strings.Builder
	if err := (EngineReport{Results: []EngineResult{ring}}).WriteText(&short); err != nil || strings.Contains(short.String(), "1250000") {
		t.Errorf("error %v, or a time of a shard that was hardly measured:\n%s", err, &short)
	}
	small := result
	small.Memory, small.Workload = 1<<19, "hot"
	f([]EngineResult{result, small}, "sliced fast, unique, 1 GiB", "sliced fast, hot, 512 KiB")
}

// A batch that the machine held up counts as the others of its cycle, a step that is the
// engine's own in full.
func TestPerEvent(t *testing.T) {
	m := measured{events: 256 * feedBatch}
	m.spent[stepRotation], m.spent[stepCommit] = 560*time.Microsecond, 2*time.Millisecond
	for i := range 256 {
		m.batches = append(m.batches, time.Duration(1+i/128)*100*time.Microsecond)
	}
	m.batches[3], m.batches[200] = time.Second, time.Microsecond
	if got, want := m.perEvent(), (2560e3+128*100e3+128*200e3)/(256*feedBatch); got != want {
		t.Errorf("%g ns an event, want %g", got, want)
	}
	if m.batches[3] != time.Second {
		t.Error("the batches are no more in order")
	}
}

func TestEngineConfigValidate(t *testing.T) {
	err := EngineConfig{}.Validate()
	if err == nil {
		t.Fatal("an empty config is valid")
	}
	for _, want := range []string{"Memory is", "FPR is", "Duration is", "Rotations is", "nothing is to be measured"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	// Of generations that no batch fits into nothing would ever be measured.
	small := EngineConfig{
		Memory: []uint64{8 << 20, 64 << 10}, FPR: 1e-9, Sliced: true, Layouts: []filter.Layout{filter.Compact},
		Workloads: Workloads(), Duration: time.Second, Rotations: 1,
	}
	if err := small.Validate(); err == nil || !strings.Contains(err.Error(), "a generation of sliced compact") {
		t.Errorf("a generation below a batch: %v", err)
	}
	small.FPR = 1e-2
	if err := small.Validate(); err != nil {
		t.Errorf("a generation above a batch: %v", err)
	}
}

// A feed's copies are copies that the window must still know, its IDs are of the
// stated sizes and all different, and it counts both.
func TestFeed(t *testing.T) {
	t.Parallel()
	f := newFeed(3, 1000)
	seen := map[string]int64{}
	var copies, oldest uint64
	var last int64
	for generation := range int64(40) {
		f.workload = Workloads()[generation/3%int64(len(Workloads()))]
		f.rotate()
		for range 3 {
			for i, r := range f.next(generation).Records {
				if n := len(r.Key); n < minIDBytes || n > maxIDBytes {
					t.Fatalf("an ID has %d bytes", n)
				}
				if i == 0 && r.Time < last || r.Time > (feedStart/1000+generation)*1000 {
					t.Fatalf("record %d of generation %d has time %d, the last one had %d", i, generation, r.Time, last)
				}
				last = max(last, r.Time)
				at, again := seen[string(r.Key)]
				if !again {
					seen[string(r.Key)] = generation
					continue
				}
				copies++
				oldest = max(oldest, uint64(generation-at))
			}
		}
	}
	if copies != f.copies || uint64(len(seen)) != f.fresh {
		t.Errorf("%d new IDs and %d copies, the feed counts %d and %d", len(seen), copies, f.fresh, f.copies)
	}
	if oldest >= filter.Sealed || oldest < reachGenerations-1 {
		t.Errorf("copies reach back %d generations", oldest)
	}
}

// BenchmarkEngine is the engine at a small size; `streamdedup bench engine` is
// the one for figures.
func BenchmarkEngine(b *testing.B) {
	f := func(filterName, layout string, change func(c *EngineConfig)) {
		b.Run(fmt.Sprintf("filter=%s/layout=%s/memory=16MiB", filterName, layout), func(b *testing.B) {
			c := engineConfig()
			c.Memory = []uint64{16 << 20}
			c.Sliced, c.Growing, c.Classic, c.Exact, c.Workloads = false, false, false, false, []Workload{Duplicates}
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
