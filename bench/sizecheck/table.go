package main

import (
	"bytes"
	"fmt"
	"text/tabwriter"

	"github.com/streamdedup/streamdedup/bench"
	"github.com/streamdedup/streamdedup/sizing"
)

// report is what all points came to.
type report struct {
	bench.Environment
	Results []result `json:"results"`
}

// result is one point, said and measured.
type result struct {
	Name       string  `json:"name"`
	Elements   uint64  `json:"elements"`
	FPR        float64 `json:"fpr"`
	Layout     string  `json:"layout"`
	Partitions int     `json:"partitions"`
	Bytes      uint64  `json:"bytes"` // of the filters

	Rate rate `json:"rate"`

	Process      *sizing.Process `json:"process,omitempty"`
	ProcessBytes uint64          `json:"process_bytes,omitempty"` // as calculated
	PeakBytes    uint64          `json:"peak_bytes,omitempty"`    // as it was
}

func (r result) String() string {
	text := fmt.Sprintf("a rate of %.3g, %.3f of the model's", r.Rate.Measured, r.Rate.Measured/r.Rate.Model)
	if r.ProcessBytes == 0 {
		return text
	}
	return text + fmt.Sprintf("; the process had %s, %.3f of what is calculated", sizing.FormatBytes(r.PeakBytes), float64(r.PeakBytes)/float64(r.ProcessBytes))
}

// text is the report for people: what is said and what was, then the one over the other.
func (r report) text() string {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "IDs\tat\tlayout\tpartitions\tfilters\tprocess_bytes\tpeak RSS\tover\tmodel's rate\tmeasured\tover")
	for _, x := range r.Results {
		fmt.Fprintf(t, "%s\t%g\t%s\t%d\t%s\t", sizing.FormatCount(x.Elements), x.FPR, x.Layout, x.Partitions, megabytes(x.Bytes))
		if x.ProcessBytes != 0 {
			fmt.Fprintf(t, "%s\t%s\t%.3f\t", megabytes(x.ProcessBytes), megabytes(x.PeakBytes), float64(x.PeakBytes)/float64(x.ProcessBytes))
		} else {
			fmt.Fprint(t, "-\t-\t-\t")
		}
		fmt.Fprintf(t, "%.3g\t%.3g\t%.3f ± %.3f\n", x.Rate.Model, x.Rate.Measured, x.Rate.Measured/x.Rate.Model, x.Rate.Deviation)
	}
	_ = t.Flush() // into a buffer
	fmt.Fprintf(&b, "\n%s, %s, seed %d\n%s\n", r.Machine, r.Go, r.Seed, r.Command)
	return b.String()
}

func megabytes(n uint64) string {
	return fmt.Sprintf("%s MB", sizing.FormatCount((n+500_000)/1_000_000))
}
