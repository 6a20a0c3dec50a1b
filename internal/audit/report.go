package audit

import (
	"fmt"
	"math"
	"strings"
)

// examples is how many places of each kind a report names.
const examples = 5

// Offset is an offset, or negative where there is none.
type Offset int64

// IsZero leaves an offset that is none out of JSON.
func (o Offset) IsZero() bool { return o < 0 }

// Place is where something was found.
type Place struct {
	Partition int32 `json:"partition"`
	// In and Out are the record's offsets in input and output, First is the input
	// offset of the copy that came out before it.
	In    Offset `json:"in_offset,omitzero"`
	Out   Offset `json:"out_offset,omitzero"`
	First Offset `json:"first_in_offset,omitzero"`
}

// String is the place as people read it.
func (p Place) String() string {
	b := fmt.Appendf(nil, "partition %d", p.Partition)
	if p.In >= 0 {
		b = fmt.Appendf(b, " in %d", p.In)
	}
	if p.First >= 0 {
		b = fmt.Appendf(b, " (first %d)", p.First)
	}
	if p.Out >= 0 {
		b = fmt.Appendf(b, " out %d", p.Out)
	}
	return string(b)
}

// Finding is how often something was found, and where the first times.
type Finding struct {
	Count uint64  `json:"count"`
	First []Place `json:"first,omitempty"`
}

func (f *Finding) add(p Place) {
	f.Count++
	if len(f.First) < examples {
		f.First = append(f.First, p)
	}
}

// Report is the result of an audit.
type Report struct {
	In  uint64 `json:"in"`
	Out uint64 `json:"out"`
	// Unique came out as they must or may, Duplicate are absent as they must or
	// may be. NoID have no ID, which is no fault of theirs. Where duplicates are
	// tagged, absent means tagged here and below; what is not in the output at all is
	// Lost.
	Unique    uint64 `json:"unique"`
	Duplicate uint64 `json:"duplicate"`
	NoID      uint64 `json:"no_id"`
	// Excused are absent and may be copies of what lies before the audited range;
	// Outside are outputs before or after it.
	Excused uint64 `json:"excused"`
	Outside uint64 `json:"outside"`

	// Missed are duplicates that came out, Extra are outputs that came out before,
	// Lost are records without an ID that are absent, Foreign are outputs that are
	// no input, Reordered are outputs out of the input's order.
	Missed    Finding `json:"missed"`
	Extra     Finding `json:"extra"`
	Lost      Finding `json:"lost"`
	Foreign   Finding `json:"foreign"`
	Reordered Finding `json:"reordered"`
	// Withheld are first copies that are absent. Budget is how many of them the
	// false-positive rate lets expect at most, Allowed adds four standard
	// deviations of such a count.
	Withheld Finding `json:"withheld"`
	Budget   float64 `json:"budget"`
	Allowed  uint64  `json:"allowed"`

	OK bool `json:"ok"`

	// tags says that duplicates were to come out, with a tag.
	tags bool
}

// deviations is how far above its mean a count that obeys the budget may be: a
// Poisson count exceeds it once in 30,000 audits.
const deviations = 4

func (r *Report) judge(fpr float64) {
	r.Budget = fpr * float64(r.Unique+r.Withheld.Count)
	r.Allowed = uint64(math.Ceil(r.Budget + deviations*math.Sqrt(r.Budget)))
	r.OK = r.Withheld.Count <= r.Allowed
	for _, f := range r.faults() {
		r.OK = r.OK && f.Count == 0
	}
}

// fault is a finding that no audit may have.
type fault struct {
	*Finding
	name, what string
}

func (r *Report) faults() []fault {
	missed, lost := "duplicates inside the window came out", "records without an ID are absent"
	if r.tags {
		missed += " without a tag"
		lost = "records are absent, or tagged without an ID"
	}
	return []fault{
		{&r.Missed, "missed", missed},
		{&r.Extra, "extra", "records came out more than once"},
		{&r.Lost, "lost", lost},
		{&r.Foreign, "foreign", "output records are not in the input"},
		{&r.Reordered, "reordered", "output records are out of order"},
	}
}

// Err is nil for a report that is OK, else it says what is not.
func (r *Report) Err() error {
	if r.OK {
		return nil
	}
	var wrong []string
	for _, f := range r.faults() {
		if f.Count > 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s, the first at %s", f.Count, f.what, f.First[0]))
		}
	}
	if r.Withheld.Count > r.Allowed {
		wrong = append(wrong, fmt.Sprintf("%d first copies are %s, %d are allowed, the first at %s", r.Withheld.Count, r.absent(), r.Allowed, r.Withheld.First[0]))
	}
	return fmt.Errorf("audit failed: %s", strings.Join(wrong, "; "))
}

// String is the report as a table for people.
func (r *Report) String() string {
	var b strings.Builder
	row := func(name string, n uint64, remark string) { fmt.Fprintf(&b, "%-10s %12d  %s\n", name, n, remark) }
	row("in", r.In, "")
	row("out", r.Out, "")
	row("unique", r.Unique, "came out")
	row("duplicate", r.Duplicate, map[bool]string{false: "dropped", true: "tagged"}[r.tags])
	if r.NoID > 0 {
		row("no id", r.NoID, "pass")
	}
	if r.Excused > 0 || r.Outside > 0 {
		row("excused", r.Excused, r.absent()+", and may be copies of what was before the range")
		row("outside", r.Outside, "outputs before or after the range")
	}
	for _, f := range r.faults() {
		row(f.name, f.Count, f.what+"; want 0")
		writePlaces(&b, f.First)
	}
	row("withheld", r.Withheld.Count, fmt.Sprintf("first copies are %s; budget %.4g, allowed %d", r.absent(), r.Budget, r.Allowed))
	if r.Withheld.Count > r.Allowed {
		writePlaces(&b, r.Withheld.First)
	}
	return b.String()
}

// absent is what duplicates are, and first copies that are taken for one.
func (r *Report) absent() string {
	if r.tags {
		return "tagged"
	}
	return "absent"
}

func writePlaces(b *strings.Builder, places []Place) {
	for _, p := range places {
		fmt.Fprintf(b, "%23s  at %s\n", "", p)
	}
}
