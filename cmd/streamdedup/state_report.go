package main

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/state"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
)

// inspection is what state inspect reports.
type inspection struct {
	Group       string             `json:"group"`
	Input       string             `json:"input"`
	Changelog   string             `json:"changelog"`
	Members     []kafkaio.Member   `json:"members"`
	Formats     formats            `json:"formats"`
	Partitions  []partitionReport  `json:"partitions"`
	Checkpoints []checkpointReport `json:"checkpoints"`

	counted bool // the IDs, where there is a changelog
}

// formats are the versions that this program writes.
type formats struct {
	Metadata   int `json:"metadata"`
	Changelog  int `json:"changelog"`
	Checkpoint int `json:"checkpoint"`
}

// partitionReport is a partition of the input. What is not known is null.
type partitionReport struct {
	Partition  int32            `json:"partition"`
	InputStart int64            `json:"input_start"`
	InputEnd   int64            `json:"input_end"`
	Committed  *int64           `json:"committed"`
	Metadata   string           `json:"metadata"`
	Changelog  *changelogReport `json:"changelog"`
	Restore    string           `json:"restore"`
	Checkpoint *int64           `json:"restore_checkpoint"` // offset of the one that a restore would begin with
	Next       *int64           `json:"next"`
	Refused    string           `json:"refused,omitempty"`
	State      *stateReport     `json:"state"`
}

type changelogReport struct {
	Start  int64 `json:"start"`
	Stable int64 `json:"stable"`
	End    int64 `json:"end"`
	// Of the last change:
	Offset       *int64 `json:"last_offset"`
	Begin        *int64 `json:"last_begin"`
	Next         *int64 `json:"last_next"`
	Acknowledged *bool  `json:"last_acknowledged"`
}

// stateReport is a shard's state. Of its window the length is known to a few
// milliseconds.
type stateReport struct {
	Fingerprint string             `json:"fingerprint"`
	WindowMS    int64              `json:"window_ms"`
	SliceMS     int64              `json:"slice_ms"`
	StreamTime  *string            `json:"stream_time"`
	Clock       string             `json:"clock"`
	Coverage    float64            `json:"coverage"`
	Rotation    uint64             `json:"rotation"`
	FPREstimate *float64           `json:"fpr_estimate"`
	Generations []generationReport `json:"generations"`
}

// generationReport is a live generation, the oldest first.
type generationReport struct {
	Number      int64    `json:"number"`
	From        string   `json:"from"`
	To          string   `json:"to"`
	FirstOffset int64    `json:"first_offset"`
	LateKept    bool     `json:"late_kept"`
	Added       *uint64  `json:"added"`
	FillRatio   *float64 `json:"fill_ratio"`
}

type checkpointReport struct {
	Group      string       `json:"group"`
	Instance   string       `json:"instance"`
	Topic      string       `json:"topic"`
	Partition  *int32       `json:"partition"`
	File       string       `json:"file"`
	Bytes      int64        `json:"bytes"`
	Written    string       `json:"written"`
	AgeSeconds float64      `json:"age_seconds"`
	Refused    string       `json:"refused,omitempty"`
	Begin      int64        `json:"begin"`
	Next       int64        `json:"next"`
	LogBegin   int64        `json:"changelog_begin"`
	LogEnd     int64        `json:"changelog_end"`
	Geometry   string       `json:"geometry"`
	Slabs      int          `json:"slabs"` // filters that it has grown by
	BodyBytes  uint64       `json:"body_bytes"`
	State      *stateReport `json:"state"`

	topics state.Identity
	model  filter.Model
}

func partitionOf(a *kafkaio.Account) partitionReport {
	p := partitionReport{
		Partition: a.Partition, InputStart: a.Start, InputEnd: a.End, Metadata: a.Metadata, Restore: a.Course.String(),
	}
	if a.Committed >= 0 {
		p.Committed = &a.Committed
	}
	if a.Refused != nil {
		p.Refused = a.Refused.Error()
	}
	if a.State != nil {
		p.Next, p.State = &a.Next, stateOf(a.State)
		if a.Course == kafkaio.FromInput && len(a.State.Window.Generations) == 0 {
			p.Restore = fmt.Sprintf("nothing to restore: begins at %d", a.Next)
		}
	}
	if log := a.Log; log != nil {
		p.Changelog = &changelogReport{Start: log.Start, Stable: log.Stable, End: log.End}
		if last := log.Last; last != nil {
			p.Changelog.Offset, p.Changelog.Begin, p.Changelog.Next = &log.LastOffset, &last.Begin, &last.Next
			p.Changelog.Acknowledged = &last.Acknowledged
		}
	}
	return p
}

// refuse notes what only a look at the whole changelog shows. A restart that begins
// with a checkpoint may not come to it.
func (p *partitionReport) refuse(err error) {
	p.Refused = err.Error()
	if p.Checkpoint == nil {
		p.Restore, p.Next, p.State = kafkaio.Refuses.String(), nil, nil
	}
}

func stateOf(s *pipeline.State) *stateReport {
	w := &s.Window
	span := windowOf(w.Slice)
	r := &stateReport{
		Fingerprint: s.Fingerprint, WindowMS: span.Milliseconds(), SliceMS: w.Slice, Clock: "arrival",
		Coverage: w.Coverage(span), Rotation: w.Rotation, Generations: []generationReport{},
	}
	if len(w.Generations) == 0 {
		r.Clock = "none yet"
		return r
	}
	if w.Believed {
		r.Clock = "record"
	}
	at := stamp(w.StreamTime)
	r.StreamTime = &at
	for i, g := range w.Generations {
		from, to := w.Stretch(len(w.Generations) - 1 - i)
		r.Generations = append(r.Generations, generationReport{
			Number: g.Number, From: stamp(from), To: stamp(to), FirstOffset: g.FirstOffset, LateKept: g.LateKept,
		})
	}
	return r
}

// load notes how many IDs the generations were given, by age, and what that means
// for a filter, where one is known.
func (r *stateReport) load(added [filter.Generations]uint64, model filter.Model, fpr float64) {
	capacity := 0.0
	if model != nil {
		rate := model.FPRAt(added)
		r.FPREstimate = &rate
		capacity = float64(model.Capacity(fpr)) / filter.Sealed
	}
	for i := range r.Generations {
		n := added[len(r.Generations)-1-i]
		r.Generations[i].Added = &n
		if capacity > 0 {
			fill := float64(n) / capacity
			r.Generations[i].FillRatio = &fill
		}
	}
}

// model is the filter of a partition, as its newest checkpoint has it.
func (r *inspection) model(topic string, partition int32) filter.Model {
	for i := range r.Checkpoints {
		if c := &r.Checkpoints[i]; c.model != nil && c.Topic == topic && *c.Partition == partition {
			return c.model
		}
	}
	return nil
}

// WriteText writes the report as tables for people.
func (r *inspection) WriteText(w io.Writer) error {
	var b bytes.Buffer // cannot fail
	if r.Partitions != nil {
		r.writePartitions(&b)
	}
	if r.Checkpoints != nil {
		r.writeCheckpoints(&b)
	}
	if b.Len() == 0 {
		fmt.Fprintln(&b, "there is no checkpoint")
	}
	if bytes.Contains(b.Bytes(), []byte("  ?")) {
		text := "--count reads from the changelog how many IDs were added; "
		if r.counted {
			text = ""
		}
		fmt.Fprintf(&b, "\n? is not known: %show full that is, a checkpoint of the partition in --state-dir knows\n", text)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (r *inspection) writePartitions(w io.Writer) {
	fmt.Fprintf(w, "group %s, input %s, changelog %s\n", r.Group, r.Input, orElse(r.Changelog, "none"))
	if len(r.Members) > 0 {
		fmt.Fprintf(w, "members: %s\n\n", membersText(r.Members))
	} else {
		fmt.Fprint(w, "no members: it does not run\n\n")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "partition\tinput\tcommitted\tchangelog\tlast change\ta restart restores")
	for i := range r.Partitions {
		p := &r.Partitions[i]
		log, last := "none", "none"
		if c := p.Changelog; c != nil {
			log = fmt.Sprintf("%d-%d", c.Start, c.End)
			if c.Stable < c.End {
				log += fmt.Sprintf(", open at %d", c.Stable)
			}
			if c.Next != nil {
				last = fmt.Sprintf("%d-%d", *c.Begin, *c.Next)
			}
		}
		restore := p.Restore
		if p.Checkpoint != nil {
			restore = fmt.Sprintf("from the checkpoint at %d, then %s", *p.Checkpoint, strings.TrimPrefix(restore, "from "))
		}
		if p.Refused != "" {
			restore += ": " + p.Refused
		}
		fmt.Fprintf(t, "%d\t%d-%d\t%s\t%s\t%s\t%s\n", p.Partition, p.InputStart, p.InputEnd, known(p.Committed), log, last, restore)
	}
	_ = t.Flush()
	for i := range r.Partitions {
		if p := &r.Partitions[i]; p.State != nil {
			p.State.write(w, fmt.Sprintf("partition %d", p.Partition))
		}
	}
}

func (r *inspection) writeCheckpoints(w io.Writer) {
	for i := range r.Checkpoints {
		c := &r.Checkpoints[i]
		age := sizing.FormatDuration(time.Duration(c.AgeSeconds) * time.Second)
		fmt.Fprintf(w, "\ncheckpoint %s\n  of group %s, instance %s, %s old, %s bytes\n", c.File, c.Group, c.Instance, age, sizing.FormatCount(uint64(c.Bytes)))
		if c.Refused != "" {
			fmt.Fprintf(w, "  refused: %s\n", c.Refused)
			continue
		}
		fmt.Fprintf(w, "  %s/%d up to offset %d, changelog %d-%d\n  %s\n", c.Topic, *c.Partition, c.Next, c.LogBegin, c.LogEnd, strings.ReplaceAll(c.Geometry, " + ", "\n    + "))
		c.State.write(w, "  its state")
	}
}

// write writes a state, whose name begins its first line.
func (r *stateReport) write(w io.Writer, name string) {
	fmt.Fprintf(w, "\n%s: window %s, stream time %s (%s), coverage %.3g, rotation %d, fingerprint %s",
		name, sizing.FormatDuration(time.Duration(r.WindowMS)*time.Millisecond), known(r.StreamTime), r.Clock, r.Coverage, r.Rotation, r.Fingerprint)
	if r.FPREstimate != nil {
		fmt.Fprintf(w, ", false positives %.2g", *r.FPREstimate)
	}
	fmt.Fprintln(w)
	if len(r.Generations) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  generation\tfrom\tto\tfirst offset\tIDs added\tfull")
	for _, g := range r.Generations {
		added, fill := "?", "?"
		if g.Added != nil {
			added = formatIDs(*g.Added)
		}
		if g.FillRatio != nil {
			fill = strconv.FormatFloat(100*(*g.FillRatio), 'f', 1, 64) + "%"
		}
		fmt.Fprintf(t, "  %d\t%s\t%s\t%d\t%s\t%s\n", g.Number, g.From, g.To, g.FirstOffset, added, fill)
	}
	_ = t.Flush()
}

// known is what a pointer points to, in words.
func known[T any](v *T) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprint(*v)
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
