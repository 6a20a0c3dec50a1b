package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
)

// ErrTooMany is returned when a partition has more than [Config.MaxRecords].
var ErrTooMany = errors.New("more records than the audit may hold")

// Auditor audits one input topic and its output. It has one owner: no method of
// it or of its partitions may run concurrently with another.
type Auditor struct {
	cfg    Config
	clock  *keys.Clock
	ids    [2]*keys.Extractor
	seeds  [2]maphash.Seed
	buf    []byte
	report Report
}

// New makes an auditor of a stream deduplicated as cfg says.
func New(cfg Config) (*Auditor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("set up an audit: %w", err)
	}
	a := &Auditor{cfg: cfg, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	a.report.tags = cfg.Tag != ""
	var err error
	if a.clock, err = keys.ParseClock(cfg.Time, cfg.TimeFormat, cfg.IDs.Table); err != nil {
		return nil, err
	}
	for i := range a.ids {
		if a.ids[i], err = keys.Parse(cfg.Keys, rand.Uint64(), cfg.IDs); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Partition begins the audit of a partition: first all of its input, then all of
// its output, then Finish. Several may be open at once.
//
// Partial says that the input does not begin where the deduplicator began, or
// does not end where its output does. Copies of what was before are then excused,
// for W and one slice of stream time, and so is output before the first and after
// the last record that the input has.
func (a *Auditor) Partition(number int32, partial bool) *Partition {
	p := &Partition{
		auditor: a,
		number:  number,
		partial: partial,
		byID:    map[[2]filter.Hash]int32{},
		byBytes: map[[2]uint64]int32{},
		stream: stream{
			slice:    a.cfg.slice(),
			maxAhead: a.cfg.maxAhead(),
			arrival:  a.cfg.Time == "arrival",
			read:     bounds{-unknown, a.cfg.ReadTo.UnixMilli()},
		},
	}
	if !a.cfg.ReadFrom.IsZero() {
		p.stream.read.lo = a.cfg.ReadFrom.UnixMilli()
	}
	return p
}

// Report is what was found in all partitions that are finished.
func (a *Auditor) Report() Report {
	r := a.report
	r.judge(a.cfg.FPR)
	return r
}

// Partition is the audit of one partition.
type Partition struct {
	auditor *Auditor
	number  int32
	partial bool
	stream  stream
	in      []input
	out     []output
	byID    map[[2]filter.Hash]int32 // to the number of the ID
	byBytes map[[2]uint64]int32      // to the first input of these bytes
	last    []int32                  // the last input of the same bytes, by the first's index
}

// none is no index and no ID.
const none = -1

// input is what is kept of an input record.
type input struct {
	offset int64
	stream bounds
	id     int32
	next   int32 // the next input of the same bytes
	out    bool  // it came out
	tagged bool  // as a duplicate
}

// output is what is kept of an output record.
type output struct {
	offset int64
	first  int32 // the first input of the same bytes
	tagged bool  // it has one header more, the tag
}

// In takes the next record of the input.
func (p *Partition) In(offset int64, r *keys.Record) error {
	if len(p.in) == p.auditor.cfg.MaxRecords {
		return p.tooMany()
	}
	a := p.auditor
	index := int32(len(p.in))
	t, ok := a.clock.Time(r, a.cfg.ReadTo.UnixMilli())
	e := input{offset: offset, id: p.id(r), next: none, stream: p.stream.observe(t, ok)}
	if !p.stream.begun() {
		e.stream = bounds{unknown, unknown} // until verdicts knows the beginning
	}
	content := a.digest(r, !p.mayMove(r.Time))
	first, seen := p.byBytes[content]
	if seen {
		p.in[p.last[first]].next = index
		p.last[first] = index
	} else {
		p.byBytes[content] = index
	}
	p.last = append(p.last, index)
	p.in = append(p.in, e)
	return nil
}

// Out takes the next record of the output.
func (p *Partition) Out(offset int64, r *keys.Record) error {
	if len(p.out) == p.auditor.cfg.MaxRecords {
		return p.tooMany()
	}
	o := output{offset: offset, first: none}
	if last := len(r.Headers) - 1; last >= 0 && p.auditor.cfg.Tag != "" && r.Headers[last].Name == p.auditor.cfg.Tag {
		own := *r
		own.Headers = r.Headers[:last]
		o.first = p.firstOf(&own)
		// A record may also have come with a header of this name, from a run before.
		o.tagged = o.first != none
	}
	if !o.tagged {
		o.first = p.firstOf(r)
	}
	p.out = append(p.out, o)
	return nil
}

// firstOf is the first input of the same bytes, or none.
func (p *Partition) firstOf(r *keys.Record) int32 {
	for _, timed := range []bool{true, false} {
		if first, ok := p.byBytes[p.auditor.digest(r, timed)]; ok {
			return first
		}
	}
	return none
}

func (p *Partition) tooMany() error {
	return fmt.Errorf("audit partition %d: %w: its limit is %d", p.number, ErrTooMany, p.auditor.cfg.MaxRecords)
}

// Finish judges the partition, adds what it found to the report, and gives its
// memory up.
func (p *Partition) Finish() {
	r := &p.auditor.report
	r.In += uint64(len(p.in))
	r.Out += uint64(len(p.out))
	p.match(r)
	p.verdicts(r)
	*p = Partition{}
}

// id is the number of the record's ID in this partition, or none.
func (p *Partition) id(r *keys.Record) int32 {
	var id [2]filter.Hash
	for i, x := range p.auditor.ids {
		h, outcome := x.Hash(r)
		if outcome != keys.Found {
			return none
		}
		id[i] = h
	}
	number, ok := p.byID[id]
	if !ok {
		number = int32(len(p.byID))
		p.byID[id] = number
	}
	return number
}

// mayMove reports whether the output may have another time where the input has t.
func (p *Partition) mayMove(t int64) bool {
	o := p.auditor.cfg.OutputTimes
	return o.Stamped ||
		o.After > 0 && t > p.stream.earliest()+o.After.Milliseconds() ||
		o.Before > 0 && t < p.stream.read.hi-o.Before.Milliseconds()
}

// digest is 128 bits of all that must be equal in input and output: key, value,
// headers in their order, and the time where it cannot have been moved.
func (a *Auditor) digest(r *keys.Record, timed bool) (d [2]uint64) {
	b := a.buf[:0]
	b = appendField(b, r.Key)
	b = appendField(b, r.Value)
	for _, h := range r.Headers {
		b = appendField(b, []byte(h.Name))
		b = appendField(b, h.Value)
	}
	if timed {
		b = binary.LittleEndian.AppendUint64(append(b, 't'), uint64(r.Time))
	}
	a.buf = b
	for i, seed := range a.seeds {
		d[i] = maphash.Bytes(seed, b)
	}
	return d
}

// appendField appends a length and the bytes; null is told from empty.
func appendField(b, field []byte) []byte {
	length := uint64(0)
	if field != nil {
		length = uint64(len(field)) + 1
	}
	return append(binary.LittleEndian.AppendUint64(b, length), field...)
}
