package sizing

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Details are parts of the text that are long, or for some readers only.
type Details struct {
	Overloads bool // what happens at more than the planned rate
	Elsewhere bool // what the same IDs take in other things
	// Command is the whole line that makes a plan of these flags. Nil is one of run, with
	// the names of the README's first steps.
	Command func(planFlags string) string
	// FiltersOnly leaves out what is of a process that reads a topic and writes one: the
	// command needs no Kafka.
	FiltersOnly bool
	// AnyPartitions says that the plan is of one partition because none were named.
	AnyPartitions bool
}

// exampleRun is what run is told besides a plan, in the names of the README's first
// steps: a line that lacks them cannot be pasted.
const exampleRun = "streamdedup run --brokers 127.0.0.1:19092 --in clicks --out clicks-unique --create-topics --group dedup --key json:event_id"

// WriteText writes the report as a table for people, without details.
func (r Report) WriteText(w io.Writer) error { return r.WriteDetails(w, Details{}) }

// WriteDetails writes the report as a table for people, the most important first.
func (r Report) WriteDetails(w io.Writer, d Details) error {
	// A buffer cannot fail, so that only the last write needs a check.
	var b bytes.Buffer
	r.writeHeading(&b)
	r.writeRedelivery(&b)
	r.writePlan(&b, d.FiltersOnly)
	r.writeRun(&b, d)
	r.writeComparison(&b)
	if d.Overloads {
		r.writeOverloads(&b)
	}
	if d.Elsewhere {
		r.writeElsewhere(&b)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// WritePlan writes what the plan takes and does, and nothing to compare it with.
func (r Report) WritePlan(w io.Writer) error {
	var b bytes.Buffer
	r.writeHeading(&b)
	r.writePlan(&b, false)
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	return nil
}

func (r Report) writeHeading(w io.Writer) {
	fmt.Fprintf(w, "Remembering %s IDs for %s (%s new IDs a second), at most %s of new records taken for seen.\n\n",
		FormatCount(r.Elements), r.Window, rounded(r.Rate), percent(r.FPR))
}

// writeRedelivery says which window catches the copies that a source makes, beside
// the one that was planned.
func (r Report) writeRedelivery(w io.Writer) {
	one := r.Redelivery
	if one == nil {
		return
	}
	fmt.Fprintf(w, "Copies from %s come up to %s after the first: %s.\n", one.Source, FormatDuration(one.Horizon), one.Says)
	fmt.Fprintf(w, "A window of %s catches them", FormatDuration(one.Window))
	if planned, err := ParseWindow(r.Window); err == nil && planned < one.Window {
		fmt.Fprintf(w, "; the one planned here, %s, does not catch all", r.Window)
	}
	fmt.Fprint(w, ".\n\n")
}

func (r Report) writePlan(w io.Writer, filtersOnly bool) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "filters\t%s\t%s bytes\n", FormatBytes(r.Bytes), FormatCount(r.Bytes))
	if r.Partitions > 1 {
		fmt.Fprintf(t, "each of %d partitions\t%s\t%s bytes\n", r.Partitions, FormatBytes(r.BytesPerPartition), FormatCount(r.BytesPerPartition))
	}
	if !filtersOnly {
		r.writeProcess(t)
	} else if r.ProcessBytesGrown != nil {
		fmt.Fprintf(t, "grown to twice the plan\t%s\tat most, when there are more IDs than planned (--memory-limit, --on-full)\n", FormatBytes(GrowthLimit*r.Bytes))
	}
	fmt.Fprintf(t, "new records taken for seen\t%s\tat most, at the average load; %s with all generations full\n",
		daily(r.ExpectedFalsePositivesADay), daily(r.FPR*r.Rate*secondsADay))
	fmt.Fprintf(t, "a generation is full at\t%s IDs\tin each partition\n", FormatCount(r.GenerationCapacity))
	if filtersOnly {
		fmt.Fprintf(t, "events a second\t%s a core\tin memory, %.3g cache lines each (%s)\n", rounded2(r.Speed.Engine), r.LinesPerLookup, r.MeasuredOn)
	} else {
		r.writeThroughKafka(t)
	}
	_ = t.Flush() // into a buffer
	fmt.Fprintln(w)
}

// writeProcess writes what a process takes besides the filters.
func (r Report) writeProcess(t io.Writer) {
	name := "whole process"
	if r.Instances > 1 {
		name = fmt.Sprintf("each of %d processes", r.Instances)
	}
	fmt.Fprintf(t, "%s\t%s\tat its peak: filters and %s of journals, %s of records, %s for the rest, %s of garbage\n", name, FormatBytes(r.ProcessBytes),
		decimal(r.Process.Journals), decimal(r.Process.Kafka), decimal(r.Process.Heap), decimal(r.Process.Garbage))
	if r.ProcessBytesOneLost != nil {
		fmt.Fprintf(t, "when one of them is lost\t%s\tin each that is left\n", FormatBytes(*r.ProcessBytesOneLost))
	}
	if r.ProcessBytesGrown != nil {
		name = "grown to twice the plan"
		if r.fullyGrown {
			name = "fully grown"
		}
		fmt.Fprintf(t, "%s\t%s\tat most, when IDs come faster than planned (--memory-limit, --on-full)\n", name, FormatBytes(*r.ProcessBytesGrown))
	}
}

// writeThroughKafka writes what the way from topic to topic does and leaves behind.
func (r Report) writeThroughKafka(t io.Writer) {
	fmt.Fprintf(t, "events a second\t%s a core\tfrom topic to topic; %s in memory, %.3g cache lines each (%s)\n",
		rounded2(r.Speed.Kafka), rounded2(r.Speed.Engine), r.LinesPerLookup, r.MeasuredOn)
	hashes := r.Rate * secondsADay * changelogBytesAnID
	fmt.Fprintf(t, "changelog\t%s a day\tat the average load; %s are hashes, the rest is of commits every 200 ms\n",
		FormatBytes(r.ChangelogBytesADay), FormatBytes(uint64(hashes)))
	fmt.Fprintf(t, "restore after a start\t%s\tfrom a checkpoint; %s from the changelog alone\n", roughly(r.Restore.Checkpoint), roughly(r.Restore.Changelog))
}

// writeRun says how run makes this plan, and what it makes of the same elements by
// itself: a calculation with no room to spare is not what one wants to operate.
func (r Report) writeRun(w io.Writer, d Details) {
	command, example := d.Command, d.Command == nil
	if example {
		command = func(planFlags string) string { return exampleRun + " \\\n    " + planFlags }
	}
	fmt.Fprintf(w, "This plan: %s\n  %s\n", room(r.Peak, r.Skew, r.Partitions), command(r.RunFlags))
	if d := r.RunDefaults; d != nil {
		less := ""
		if d.Bytes < r.Bytes {
			less = ": full before the peak and skew above"
		}
		fmt.Fprintf(w, "\nWith the default peak and skew: %s\n  %s, %.3g times as much%s\n  %s\n",
			room(d.Peak, d.Skew, r.Partitions), FormatBytes(d.Bytes), float64(d.Bytes)/float64(r.Bytes), less, command(d.RunFlags))
	}
	if d.AnyPartitions {
		fmt.Fprintln(w, "\nThis is for a topic of one partition: give --partitions for yours.")
	}
	if example {
		fmt.Fprintln(w, "\nBrokers, topics, group and key are those of the README's first steps: put yours in their place.")
	}
	fmt.Fprintln(w)
}

// writeComparison shows what a window costs, and what one pays for the lines saved.
func (r Report) writeComparison(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tbits per ID\tfilters\tcache lines per new ID")
	fmt.Fprintf(t, "  one classic filter, no window (%d hashes)\t%.3f\t%s\t-\n",
		r.ClassicHashes, r.ClassicBitsPerElement, FormatBytes(r.ClassicBytes))
	for _, one := range r.Windowed {
		name, mark := "window: ring of classic filters", " "
		if one.Layout != "" {
			name = "window: sliced filter, " + one.Layout
		}
		if r.isPlan(one) {
			mark = "*"
		}
		fmt.Fprintf(t, "%s %s\t%.3f\t%s\t%.3g\n", mark, name, one.BitsPerElement, FormatBytes(one.Bytes), one.LinesPerLookup)
	}
	_ = t.Flush() // into a buffer
	fmt.Fprintf(w, "* is this plan. The first line is the well-known m = -n ln p / (ln 2)^2, a filter that never forgets;\n"+
		"  a window has %d generations, %d of them full and one filling, which share p.\n", r.Generations, r.Generations-1)
}

// isPlan tells the plan among the designs it is compared with.
func (r Report) isPlan(one Windowed) bool {
	return one.Filter == r.Filter && (one.Layout == "" || one.Layout == r.Layout)
}

func (r Report) writeOverloads(w io.Writer) {
	fmt.Fprintf(w, "\nWhat happens when new IDs come faster than %s a second, all the time, in a partition with its full share:\n", rounded(r.Rate))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  rate\ton-full\tnew records taken for seen\tnew IDs not remembered\tfilters")
	for _, one := range r.Overloads {
		rate := fmt.Sprintf("%g times", one.Times)
		if one.Times == 1 {
			rate = "as planned"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", rate, one.OnFull, percent(one.FPR), percent(one.Unlearned), FormatBytes(one.Bytes))
	}
	_ = t.Flush() // into a buffer
	fmt.Fprintf(w, "  grow adds memory up to %d times the plan, or --memory-limit, and then passes what comes on.\n", GrowthLimit)
}

func (r Report) writeElsewhere(w io.Writer) {
	fmt.Fprintf(w, "\nThe same %s IDs elsewhere:\n", FormatCount(r.Elements))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tbytes per ID\tmemory\ttimes this plan\tsource")
	row := func(name string, perID float64, bytes uint64, source string) {
		fmt.Fprintf(t, "  %s\t%.3g\t%s\t%.3g\t%s\n", name, perID, FormatBytes(bytes), float64(bytes)/float64(r.Bytes), source)
	}
	row("this plan", float64(r.Bytes)/float64(r.Elements), r.Bytes, fmt.Sprintf("%g of new records are withheld at most", r.FPR))
	for _, one := range r.Elsewhere {
		row(one.Name, one.BytesPerID, one.Bytes, one.Source)
	}
	_ = t.Flush() // into a buffer
}

// room says what a plan's peak and skew mean.
func room(peak, skew float64, partitions int) string {
	text := "a generation may get " + formatFloat(peak) + " times its share of the IDs"
	if peak == 1 {
		text = "all generations get equal shares of the IDs"
	}
	switch {
	case partitions == 1:
		return text + "; one partition"
	case skew == 1:
		return text + ", all partitions too"
	}
	return text + ", a partition " + formatFloat(skew) + " times"
}

// percent writes a share as people say it: one that would be a long row of zeroes is 1 in
// so many.
func percent(share float64) string {
	if share > 0 && share < 1e-4 {
		return "1 in " + rounded(1/share)
	}
	return fmt.Sprintf("%.4g%%", share*100)
}

// daily writes how often a day something happens.
func daily(times float64) string {
	if times > 0 && times < 0.01 {
		return "1 in " + rounded(1/times) + " days"
	}
	return rounded(times) + " a day"
}

// roughly writes a number of seconds as people say how long something takes.
func roughly(seconds float64) string {
	switch {
	case seconds < 0.1:
		return "less than 0.1s"
	case seconds < 10:
		return fmt.Sprintf("%.1fs", seconds)
	case seconds < 600:
		return FormatDuration(time.Duration(seconds+0.5) * time.Second)
	}
	return FormatDuration(time.Duration(seconds/60+0.5) * time.Minute)
}
