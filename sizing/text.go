package sizing

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// WriteText writes the report as a table for people.
func (r Report) WriteText(w io.Writer) error {
	// A buffer cannot fail, so that only the last write needs a check.
	var b bytes.Buffer
	fmt.Fprintf(&b, "Remembering %s IDs for %s (%s new IDs a second), at most %s of new records taken for seen.\n\n",
		FormatCount(r.Elements), r.Window, rounded(r.Rate), percent(r.FPR))
	r.writeComparison(&b)
	r.writePlan(&b)
	r.writeRun(&b)
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// writeComparison shows what a window costs, and what one pays for the lines saved.
func (r Report) writeComparison(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tbits per ID\tmemory\tcache lines per new ID")
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
		"  a window has %d generations, %d of them full and one filling, which share p.\n\n", r.Generations, r.Generations-1)
}

// isPlan tells the plan among the designs it is compared with.
func (r Report) isPlan(one Windowed) bool {
	return one.Filter == r.Filter && (one.Layout == "" || one.Layout == r.Layout)
}

func (r Report) writePlan(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "memory\t%s\t%s bytes\n", FormatBytes(r.Bytes), FormatCount(r.Bytes))
	if r.Partitions > 1 {
		fmt.Fprintf(t, "each of %d partitions\t%s\t%s bytes\n", r.Partitions, FormatBytes(r.BytesPerPartition), FormatCount(r.BytesPerPartition))
	}
	fmt.Fprintf(t, "undo journal\t%s\tat most, on top of each partition\n", FormatBytes(r.JournalBytesPerPartition))
	fmt.Fprintf(t, "a generation is full at\t%s IDs\tin each partition\n", FormatCount(r.GenerationCapacity))
	fmt.Fprintf(t, "new records taken for seen\t%s a day\tat most, at the average load\n", rounded(r.ExpectedFalsePositivesADay))
	if r.ChangelogBytesADay != nil {
		hashes := r.Rate * (24 * time.Hour).Seconds() * changelogBytesAnID
		fmt.Fprintf(t, "changelog\t%s a day\tat the average load; %s are hashes, the rest is of commits every 200 ms\n",
			FormatBytes(*r.ChangelogBytesADay), FormatBytes(uint64(hashes)))
	}
	if r.ProcessBytes != nil {
		fmt.Fprintf(t, "whole process\t%s\tat its peak\n", FormatBytes(*r.ProcessBytes))
	}
	_ = t.Flush() // into a buffer
	fmt.Fprintln(w)
}

// writeRun says how run makes this plan, and what it makes of the same elements by
// itself: a calculation with no room to spare is not what one wants to operate.
func (r Report) writeRun(w io.Writer) {
	fmt.Fprintf(w, "This plan: %s\n  streamdedup run %s\n", room(r.Peak, r.Skew, r.Partitions), r.RunFlags)
	if d := r.RunDefaults; d != nil {
		fmt.Fprintf(w, "\nWith the defaults of run: %s\n  %s, %.3g times as much\n  streamdedup run %s\n",
			room(d.Peak, d.Skew, r.Partitions), FormatBytes(d.Bytes), float64(d.Bytes)/float64(r.Bytes), d.RunFlags)
	}
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

// percent writes a share as people say it.
func percent(share float64) string { return fmt.Sprintf("%.4g%%", share*100) }
