package bench

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/streamdedup/streamdedup/internal/chart"
	"github.com/streamdedup/streamdedup/sizing"
)

// exactFilter and classicFilter are the references' [EngineResult.Filter].
const (
	exactFilter   = "exact"
	classicFilter = "classic"
)

// EngineReport is the result of [RunEngine]. Its JSON names are a contract.
type EngineReport struct {
	Environment
	// Clock is what was timed by.
	Clock string `json:"clock"`
	// RandomLineNS is the time to read, change and write one line of 64 bytes at a
	// random place of as much memory, in a plain loop: the median over the results.
	RandomLineNS float64 `json:"random_line_ns"`
	// BatchEvents is how many events a batch has.
	BatchEvents int            `json:"batch_events"`
	Results     []EngineResult `json:"results"`
	// Growing are shards whose sliced filters grow meanwhile.
	Growing []GrowingResult `json:"growing"`
}

// EngineResult is what was measured of one set by one workload. The engine is
// hash of the ID, window, filter with stamps and sweep, journal and commits; the
// shard is the product's, with verdicts, policies, counts and audit around that.
type EngineResult struct {
	Name            string  `json:"name"`
	Workload        string  `json:"workload"`
	Filter          string  `json:"filter"`
	Layout          string  `json:"layout"`
	FPR             float64 `json:"fpr"`
	Memory          uint64  `json:"memory"` // asked for
	Bytes           uint64  `json:"bytes"`
	NSPerEvent      float64 `json:"ns_per_event"`
	EventsPerSecond float64 `json:"events_per_second"`
	BytesPerID      float64 `json:"bytes_per_id"`

	// RandomLineNS was measured before and after, in as much memory; RandomLines is how
	// many of those an event takes. TimesClassic and TimesExact are how many times as
	// fast as the references of the same size and workload; absent without them.
	RandomLineNS float64 `json:"random_line_ns"`
	RandomLines  float64 `json:"random_lines_per_event"`
	// The roofline is what an event's hash and its lines take by themselves, one after
	// the other: HashNS, and Lines times RandomLineNS. TimesRoofline is how many times
	// that the event takes, with all the rest. Lines is 0 where it depends on the event.
	HashNS        float64 `json:"hash_ns"`
	Lines         int     `json:"lines_per_event,omitempty"`
	TimesRoofline float64 `json:"times_roofline,omitempty"`
	// LoopLongestNS is the longest that a tenth of a millisecond of that loop took: what
	// the machine takes from a thread at times.
	LoopLongestNS float64 `json:"loop_longest_ns"`
	TimesClassic  float64 `json:"times_classic,omitempty"`
	TimesExact    float64 `json:"times_exact,omitempty"`

	// IDs are those of a full window, Events those measured, and Generations how
	// many generations these filled. Much less than one has not paid for all the
	// cleaning that its rotation made, or has paid for it twice.
	IDs         uint64  `json:"ids"`
	Events      uint64  `json:"events"`
	Generations float64 `json:"generations"`

	ShardResult
}

// ShardResult is what was measured of a whole shard.
type ShardResult struct {
	ShardNSPerEvent  float64 `json:"shard_ns_per_event"`
	ShardEvents      uint64  `json:"shard_events"`
	ShardGenerations float64 `json:"shard_generations"`
	// The times of the shard's batches across Rotations, and the longest that its
	// thread was away with one step, whatever it was: no record is judged meanwhile.
	Rotations     int     `json:"rotations"`
	BatchP50NS    float64 `json:"batch_p50_ns"`
	BatchP99NS    float64 `json:"batch_p99_ns"`
	BatchP999NS   float64 `json:"batch_p999_ns"`
	LongestStepNS float64 `json:"longest_step_ns"`
	LongestStep   string  `json:"longest_step"`
}

func newEngineResult(w Workload, engine, shard measured, perGen uint64) EngineResult {
	ns := engine.perEvent()
	return EngineResult{
		Workload: w.String(), NSPerEvent: ns, EventsPerSecond: 1e9 / ns,
		Events: engine.events, Generations: float64(engine.fresh) / float64(perGen),
		ShardResult: newShardResult(shard, perGen),
	}
}

func newShardResult(m measured, perGen uint64) ShardResult {
	ns := m.perEvent() // while the batches are in order
	slices.Sort(m.batches)
	longest, which := m.away()
	return ShardResult{
		ShardNSPerEvent: ns, ShardEvents: m.events,
		ShardGenerations: float64(m.fresh) / float64(perGen), Rotations: m.rotations,
		BatchP50NS: percentile(m.batches, 0.5), BatchP99NS: percentile(m.batches, 0.99),
		BatchP999NS:   percentile(m.batches, 0.999),
		LongestStepNS: float64(longest), LongestStep: which.String(),
	}
}

// perEvent is the time of an event in nanoseconds: of each cycle's batches the middle one
// counts for all, so that what the machine takes from a thread for a moment is not said
// of the engine. Rotations and commits count as they are.
func (m measured) perEvent() float64 {
	took := float64((m.spent[stepRotation] + m.spent[stepCommit]).Nanoseconds())
	for cycle := range slices.Chunk(m.batches, engineCycle/feedBatch) {
		cycle = slices.Clone(cycle)
		slices.Sort(cycle)
		took += percentile(cycle, 0.5) * float64(len(cycle))
	}
	return took / float64(m.events)
}

// percentile is the value that a share p of the sorted values is not above.
func percentile(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[min(len(sorted)-1, int(p*float64(len(sorted))))])
}

// compare sets each result beside the references of its size and workload.
func (r *EngineReport) compare() {
	lines := make([]float64, len(r.Results))
	for i := range r.Results {
		x := &r.Results[i]
		lines[i] = x.RandomLineNS
		for _, other := range r.Results {
			if other.Memory != x.Memory || other.Workload != x.Workload || other.Filter == x.Filter {
				continue
			}
			switch other.Filter {
			case classicFilter:
				x.TimesClassic = other.NSPerEvent / x.NSPerEvent
			case exactFilter:
				x.TimesExact = other.NSPerEvent / x.NSPerEvent
			}
		}
	}
	r.RandomLineNS = median(lines)
}

// several are the results' sizes and workloads, each once.
func (r EngineReport) several() (sizes []uint64, workloads []string) {
	for _, x := range r.Results {
		if !slices.Contains(sizes, x.Memory) {
			sizes = append(sizes, x.Memory)
		}
		if !slices.Contains(workloads, x.Workload) {
			workloads = append(workloads, x.Workload)
		}
	}
	return sizes, workloads
}

// has says whether a reference is among the results.
func (r EngineReport) has(reference string) bool {
	return slices.ContainsFunc(r.Results, func(x EngineResult) bool { return x.Filter == reference })
}

// labels name the results, with what tells them apart.
func (r EngineReport) labels() []string {
	labels := make([]string, len(r.Results))
	for i, x := range r.Results {
		labels[i] = r.label(x.Name, x.Workload, x.Memory)
	}
	return labels
}

func (r EngineReport) label(name, workload string, memory uint64) string {
	sizes, workloads := r.several()
	if len(workloads) > 1 {
		name += ", " + workload
	}
	if len(sizes) > 1 {
		name += ", " + binarySize(memory)
	}
	return name
}

// binarySize is 256 KiB, 8 GiB.
func binarySize(n uint64) string {
	for _, unit := range []struct {
		name string
		size uint64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}} {
		if n >= unit.size {
			return fmt.Sprintf("%.4g %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%.4g KiB", float64(n)/(1<<10))
}

// WriteText prints the report for people.
func (r EngineReport) WriteText(w io.Writer) error {
	_, workloads := r.several()
	fmt.Fprint(w, "One core, full filters. Engine: hash of the ID, window, journal and commits included.\n")
	for _, workload := range workloads {
		fmt.Fprintf(w, "Workload %s: %s.\n", workload, workloadText(workload))
	}
	fmt.Fprintln(w)
	labels := r.labels()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	classic, exact := r.has(classicFilter), r.has(exactFilter)
	fmt.Fprint(t, "engine\trandom lines\tx roofline\t")
	if classic {
		fmt.Fprint(t, "x classic\t")
	}
	if exact {
		fmt.Fprint(t, "x map\t")
	}
	fmt.Fprintln(t, "ns/event\tevents/s\tshard ns/event\tmemory\tbytes/ID\tIDs\tgenerations measured")
	for i, x := range r.Results {
		fmt.Fprintf(t, "%s\t%.1f\t%s\t", labels[i], x.RandomLines, times(x.TimesRoofline))
		if classic {
			fmt.Fprintf(t, "%s\t", times(x.TimesClassic))
		}
		if exact {
			fmt.Fprintf(t, "%s\t", times(x.TimesExact))
		}
		fmt.Fprintf(t, "%.1f\t%s\t%s\t%s\t%.2f\t%s\t%.2f\n", x.NSPerEvent, sizing.FormatCount(uint64(x.EventsPerSecond)),
			x.shardTime(), sizing.FormatBytes(x.Bytes), x.BytesPerID, sizing.FormatCount(x.IDs), x.Generations)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := r.writePauses(w, labels); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nA random line of 64 bytes, read, changed and written, takes %.1f ns here. Timed by: %s.\n", r.RandomLineNS, r.Clock)
	for _, x := range r.Results {
		if x.Lines > 0 {
			fmt.Fprintf(w, "The roofline is the hash and the lines alone: for %s %.1f ns and %d such lines.\n", x.Name, x.HashNS, x.Lines)
			break
		}
	}
	return r.Environment.writeText(w)
}

// writePauses prints how long a shard's thread was away.
func (r EngineReport) writePauses(w io.Writer, labels []string) error {
	fmt.Fprintf(w, "\nThe whole shard across its rotations, a checkpoint copied meanwhile; times of a batch of %s events:\n\n",
		sizing.FormatCount(uint64(r.BatchEvents)))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "shard\tp50 us\tp99 us\tp99.9 us\tlongest step ms\twhich is a\trotations\tgenerations measured")
	row := func(label string, x ShardResult) {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.2f\t%s\t%d\t%.2f\n", label, x.batchTime(x.BatchP50NS), x.batchTime(x.BatchP99NS),
			x.batchTime(x.BatchP999NS), x.LongestStepNS/1e6, x.LongestStep, x.Rotations, x.ShardGenerations)
	}
	longest, machine := 0.0, 0.0
	for i, x := range r.Results {
		row(labels[i], x.ShardResult)
		machine = max(machine, x.LoopLongestNS)
	}
	for _, x := range r.Growing {
		row(r.label(fmt.Sprintf("%s, growing, slabs added: %d", x.Name, x.Slabs), x.Workload, x.Memory), x.ShardResult)
		longest = max(longest, x.LongestGrowthNS)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "\nThe machine itself: in at most %v before each, a plain loop's longest step of a tenth of a millisecond took %.2f ms.\n",
		watchFor, machine/1e6); err != nil || len(r.Growing) == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "\nGrowing: a filter of a third of the memory gets %d times the IDs that it is planned for. No step of growth took more than %.2f ms.\n",
		growTimes, longest/1e6)
	return err
}

// shardTime is the time of an event in the shard, or nothing where the time to measure was
// over after the rotations alone.
func (x ShardResult) shardTime() string {
	if x.ShardEvents < fewEvents {
		return ""
	}
	return fmt.Sprintf("%.1f", x.ShardNSPerEvent)
}

// batchTime is a time of a batch in microseconds, or nothing where there were too few.
func (x ShardResult) batchTime(ns float64) string {
	if x.ShardEvents < fewEvents {
		return ""
	}
	return fmt.Sprintf("%.0f", ns/1e3)
}

// times is how many times as fast, or nothing.
func times(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", x)
}

func workloadText(name string) string {
	switch w, _ := ParseWorkload(name); w {
	case Unique:
		return "every ID is new"
	case Hot:
		return "every second record has one and the same ID, the others are new"
	case Disorder:
		return "one record in ten is a copy, and times are scattered over a generation"
	}
	return "one record in ten is a copy of an earlier one"
}

// WriteSVG draws the time per event: of several sizes as lines over the size, for
// the first workload, of one size as bars.
func (r EngineReport) WriteSVG(w io.Writer) error {
	const title, label = "Time per event, one core", "ns per event"
	sizes, workloads := r.several()
	if len(sizes) < 2 {
		b := chart.Bars{Title: title, Note: r.note(), YLabel: label, Names: append(r.labels(), "a random line of memory")}
		for _, x := range r.Results {
			b.Values = append(b.Values, x.NSPerEvent)
		}
		b.Values = append(b.Values, r.RandomLineNS)
		return b.WriteSVG(w)
	}
	slices.Sort(sizes)
	c := chart.Lines{
		Title: title + ", workload " + workloads[0], Note: r.note(), XLabel: "size of the filter", YLabel: label, LogX: true, LogY: true,
	}
	line := chart.Series{Name: "a random line"}
	for _, size := range sizes {
		c.XTicks = append(c.XTicks, chart.Tick{At: float64(size), Label: binarySize(size)})
		for _, x := range r.Results {
			if x.Memory != size || x.Workload != workloads[0] {
				continue
			}
			i := slices.IndexFunc(c.Series, func(s chart.Series) bool { return s.Name == x.kind() })
			if i < 0 {
				i = len(c.Series)
				c.Series = append(c.Series, chart.Series{Name: x.kind()})
			}
			c.Series[i].X, c.Series[i].Y = append(c.Series[i].X, float64(size)), append(c.Series[i].Y, x.NSPerEvent)
			if len(line.X) < len(c.XTicks) {
				line.X, line.Y = append(line.X, float64(size)), append(line.Y, x.RandomLineNS)
			}
		}
	}
	c.Series = append(c.Series, line)
	return c.WriteSVG(w)
}

// kind is what is the same for all sizes.
func (x EngineResult) kind() string {
	if x.Filter == exactFilter {
		return "go map"
	}
	return x.Name
}
