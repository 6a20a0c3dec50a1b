package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
)

// The formats of the summary.
const (
	summaryText = "text"
	summaryJSON = "json"
	summaryNone = "none"
)

// summary is what a command that judged records says at its end. The names of
// its JSON members, and their order, are a contract: programs read them.
type summary struct {
	In              uint64  `json:"in"`
	Unique          uint64  `json:"unique"`
	Duplicate       uint64  `json:"duplicate"`
	Missing         uint64  `json:"missing"`
	Invalid         uint64  `json:"invalid"`
	Out             uint64  `json:"out"`
	Diverted        uint64  `json:"diverted"`
	Dropped         uint64  `json:"dropped"`
	Late            uint64  `json:"late"`
	Ahead           uint64  `json:"ahead"`
	NoTime          uint64  `json:"no_time"`
	Jump            uint64  `json:"jump"`
	Retimed         uint64  `json:"retimed"`
	Unlearned       uint64  `json:"unlearned"`
	FPREstimate     float64 `json:"fpr_estimate"`
	MemoryBytes     uint64  `json:"memory_bytes"`
	Seconds         float64 `json:"seconds"`
	EventsPerSecond float64 `json:"events_per_second"`

	audit    pipeline.Audit // for people, as the rest
	warnings []string       // flags that look wrong
}

// newSummary sums up what was counted in took. The rate and the memory are those
// of the filters at the end.
func newSummary(c *pipeline.Counts, fpr float64, memory uint64, took time.Duration) summary {
	s := summary{
		In:          c.In,
		Unique:      c.Verdicts[pipeline.Unique],
		Duplicate:   c.Verdicts[pipeline.Duplicate],
		Missing:     c.Verdicts[pipeline.Missing],
		Invalid:     c.Verdicts[pipeline.Invalid],
		Out:         c.Fates[pipeline.Out],
		Diverted:    c.Fates[pipeline.Diverted],
		Dropped:     c.Fates[pipeline.Dropped],
		Late:        c.Marked(pipeline.Late),
		Ahead:       c.Marked(pipeline.Ahead),
		NoTime:      c.Marked(pipeline.NoTime),
		Jump:        c.Marked(pipeline.Jump),
		Retimed:     c.Marked(pipeline.Retimed),
		Unlearned:   c.Marked(pipeline.Unlearned),
		FPREstimate: max(0, fpr), // not -0
		MemoryBytes: memory,
		Seconds:     took.Seconds(),
		audit:       c.Audit,
	}
	if s.Seconds > 0 {
		s.EventsPerSecond = float64(s.In) / s.Seconds
	}
	return s
}

// warn adds what looks wrong, if text says anything.
func (s *summary) warn(text string) {
	if text != "" {
		s.warnings = append(s.warnings, text)
	}
}

// write prints the summary in a format of --summary.
func (s *summary) write(w io.Writer, format string) error {
	switch format {
	case summaryNone:
		return nil
	case summaryJSON:
		return json.NewEncoder(w).Encode(s)
	}
	return s.writeText(w)
}

// writeText is the summary for people: the two sums, then the marks there were.
func (s *summary) writeText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(label string, n uint64, note string) {
		fmt.Fprintf(t, "%s\t%s\t%s\n", label, sizing.FormatCount(n), note)
	}
	row("in", s.In, fmt.Sprintf("in %.3gs, %s events/s", s.Seconds, sizing.FormatCount(uint64(s.EventsPerSecond))))
	row("  unique", s.Unique, "")
	row("  duplicate", s.Duplicate, "")
	row("  missing", s.Missing, "")
	row("  invalid", s.Invalid, "")
	row("out", s.Out, "")
	row("diverted", s.Diverted, "")
	row("dropped", s.Dropped, "")
	for _, m := range []struct {
		label string
		n     uint64
		note  string
	}{
		{"late", s.Late, "more than the window behind"},
		{"ahead", s.Ahead, "time ahead of the clock, not believed"},
		{"no time", s.NoTime, "judged at the stream's time"},
		{"jump", s.Jump, "moved the stream's time by more than a generation"},
		{"retimed", s.Retimed, "time moved to what the output accepts"},
		{"unlearned", s.Unlearned, "filter full: repeats of these pass"},
	} {
		if m.n > 0 {
			row(m.label, m.n, m.note)
		}
	}
	fmt.Fprintf(t, "memory\t%s\t\n", sizing.FormatBytes(s.MemoryBytes))
	fmt.Fprintf(t, "false positives\t%.2g\testimated rate now\n", s.FPREstimate)
	if n := s.audit.FalsePositives + s.audit.SampledNew; n > 0 {
		fmt.Fprintf(t, "  measured\t%.2g\t%s of %s audited new records\n", s.audit.FPR(), sizing.FormatCount(s.audit.FalsePositives), sizing.FormatCount(n))
	}
	if n := s.audit.Clashes; n > 0 {
		row("  clashes", n, "audited duplicates with another value than the first copy")
	}
	for _, text := range s.warnings {
		fmt.Fprintf(t, "warning: %s\n", text)
	}
	return t.Flush()
}
