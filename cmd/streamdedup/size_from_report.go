package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/survey"
	"github.com/streamdedup/streamdedup/sizing"
)

// surveyed is the report of a plan that was measured: that of size, and what it comes
// from.
type surveyed struct {
	sizing.Report
	Survey  surveyPart `json:"survey"`
	details sizing.Details
}

// surveyPart is what was measured, and what follows.
type surveyPart struct {
	From    string `json:"from_source"`
	Partial string `json:"partial,omitempty"` // which part of it was read, if not all
	*survey.Report
	Proposal proposalPart `json:"proposal"`
	Command  string       `json:"command"`
}

type proposalPart struct {
	Window string `json:"window"`
	survey.Proposal
}

// WriteText implements textReport.
func (s surveyed) WriteText(w io.Writer) error {
	var b bytes.Buffer
	s.Survey.write(&b)
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return s.WriteDetails(w, s.details)
}

// write says what was measured, and what is proposed.
func (p *surveyPart) write(w io.Writer) {
	r := p.Report
	part := ""
	if p.Partial != "" {
		part = " (" + p.Partial + ")"
	}
	fmt.Fprintf(w, "Measured in %s: %s records%s of %s, up to %s.\n\n",
		p.From, sizing.FormatCount(r.Records), part, roughTime(time.Duration(r.Span)), r.To.Format("2006-01-02 15:04:05 MST"))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	row("records a second", "%s on average, %s in the busiest minute; %.0f bytes each", roughCount(r.Rate), roughCount(r.PeakRate), r.RecordBytes)
	row("without an ID", "%s; malformed before it: %s", ratio(r.WithoutID, r.Records), ratio(r.Invalid, r.Records))
	row("without a time", "%s; ahead of the clock: %s", ratio(r.WithoutTime, r.Records), ratio(r.Ahead, r.Records))
	row("IDs", "%s", p.ids())
	row("duplicates", "%s of the records with an ID", percentage(r.DuplicateShare))
	if r.ElsewhereShare > 0 {
		row("", "%s more have their first copy in another partition: only --scope topic finds them", percentage(r.ElsewhereShare))
	}
	if len(r.Ages) > 0 {
		row("their ages", "%s", p.ages())
		row("", "%s", p.sample())
	}
	if r.Partitions > 1 {
		row("partitions", "%d; the fullest has %.3g times its share of the IDs", r.Partitions, r.Skew)
	}
	_ = t.Flush() // into a buffer
	fmt.Fprintf(w, "\nProposed:\n")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row("  window "+p.Proposal.Window, "%s", p.window())
	if p.Proposal.Late > 0 {
		row("", "%s of the records are further than that behind the newest before them: late", percentage(p.Proposal.Late))
	}
	row("  peak "+formatFloat(p.Proposal.Peak), "%s", p.peak())
	if r.Partitions > 1 {
		row("  skew "+formatFloat(p.Proposal.Skew), "how much more than its share of the IDs a partition may get")
	}
	_ = t.Flush() // into a buffer
	fmt.Fprintf(w, "  %s\n\n", p.Command)
}

func (p *surveyPart) ids() string {
	text := sizing.FormatCount(p.IDs)
	if p.IDsError > 0 {
		text += " to within " + percentage(p.IDsError)
	}
	return text + fmt.Sprintf("; %s new ones a second", roughCount(p.Proposal.Rate))
}

func (p *surveyPart) ages() string {
	text := ""
	for _, q := range p.Ages {
		text += fmt.Sprintf("p%g %s, ", q.Share*100, roughTime(time.Duration(q.Age)))
	}
	return text + "oldest " + roughTime(time.Duration(p.Oldest))
}

// sample says how good the ages are.
func (p *surveyPart) sample() string {
	text := fmt.Sprintf("of %s duplicates", sizing.FormatCount(p.Sample.Duplicates))
	if p.Sample.OneIn == 1 {
		return text + ", which are all"
	}
	q := p.Ages[len(p.Ages)-1]
	return text + fmt.Sprintf(", those of one ID in %d: p%g of all lies between %s and %s", p.Sample.OneIn, q.Share*100,
		roughTime(time.Duration(q.Low)), roughTime(time.Duration(q.High)))
}

// window says why, and what it misses.
func (p *surveyPart) window() string {
	span := roughTime(time.Duration(p.Span))
	missed := "it misses none of the duplicates here"
	if p.Proposal.Missed > 0 {
		missed = fmt.Sprintf("it misses %s of the duplicates, those older than that", percentage(p.Proposal.Missed))
	}
	text := ""
	switch p.Proposal.Basis {
	case survey.ByUser:
		text = "as given; " + missed
	case survey.ByOldest:
		text = "a quarter more than the oldest duplicate, rounded up; " + missed
	case survey.ByMost:
		text = fmt.Sprintf("a quarter more than p99.9 of the ages, rounded up; %s: all of them need more than %s", missed, roughTime(time.Duration(p.Oldest)))
	case survey.ByDefault:
		return "the default, since there are no duplicates in " + span
	}
	return text + "; copies that come later than " + span + " do not show here"
}

func (p *surveyPart) peak() string {
	width := p.generation()
	if !p.Proposal.Seen {
		return fmt.Sprintf("the busiest %s had %.2f times the average of new IDs, in too little to show the busiest hours: the default or more", width, p.Proposal.MeasuredPeak)
	}
	return fmt.Sprintf("the busiest %s had %.2f times the average of new IDs", width, p.Proposal.MeasuredPeak)
}

// generation is what the peak was measured in.
func (p *surveyPart) generation() string {
	if g := p.Proposal.Proposal.Window / filter.Sealed; g >= 2*time.Minute {
		return "seventh of a window (" + sizing.FormatDuration(g.Truncate(time.Minute)) + ")"
	}
	return "minute"
}

func ratio(n, of uint64) string { return percentage(float64(n) / float64(of)) }

func percentage(share float64) string {
	if share > 0 && share < 0.00001 {
		return "less than 0.001%"
	}
	return fmt.Sprintf("%.3g%%", share*100)
}

// roughCount is a number of things a second, in the digits that matter.
func roughCount(f float64) string {
	if f >= 100 {
		return sizing.FormatCount(uint64(math.Round(f)))
	}
	return fmt.Sprintf("%.3g", f)
}

// roughTime is a length of time in the digits that matter.
func roughTime(d time.Duration) string {
	for _, unit := range []struct{ from, digit time.Duration }{
		{48 * time.Hour, time.Hour}, {2 * time.Hour, time.Minute}, {2 * time.Minute, time.Second}, {2 * time.Second, 100 * time.Millisecond},
	} {
		if d >= unit.from {
			d = d.Round(unit.digit)
			if unit.digit < time.Second {
				return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
			}
			break
		}
	}
	return sizing.FormatDuration(d)
}
