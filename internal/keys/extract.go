package keys

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/streamdedup/streamdedup/filter"
)

// Extractor finds the ID of a record and hashes it. What it finds depends on the
// record, the specs, their options and the seed alone.
//
// It has one owner: no method may run concurrently with another.
type Extractor struct {
	specs   []spec
	json    *scanner       // nil without a json spec
	columns *columns       // nil without a column spec
	content *canonicalizer // nil without sha256:json
	// identity is nil where the parts count as they are.
	identity *identity
	digest   digest
	sum      hasher
	// repeats says that the record repeats a header that a spec names.
	repeats  bool
	repeated uint64
}

// Parse compiles key specs (see the package comment), one for each part of the
// ID, in order. The error of a bad one names it and what would be good.
func Parse(specs []string, seed uint64, o Options) (*Extractor, error) {
	if len(specs) == 0 {
		return nil, errors.New("parse key specs: there is none: known are " + knownKinds)
	}
	e := &Extractor{sum: hasher{seed: seed, alone: len(specs) == 1}}
	var paths [][]segment
	var wanted []int
	for _, s := range specs {
		p, err := parseSpec(s, o.Table)
		if err != nil {
			return nil, err
		}
		switch p.source {
		case fromJSON:
			p.found = len(paths)
			paths = append(paths, p.path)
		case fromColumn:
			p.found = len(wanted)
			wanted = append(wanted, p.column)
		case fromCanonicalDigest:
			if e.content, err = newCanonicalizer(o.Exclude); err != nil {
				return nil, fmt.Errorf("parse key spec %q: %w", s, err)
			}
		}
		e.specs = append(e.specs, p)
	}
	if len(paths) > maxPaths {
		return nil, fmt.Errorf("parse key specs: %d of them are json, at most %d can be: use value, or an ID with fewer parts", len(paths), maxPaths)
	}
	if len(o.Exclude) > 0 && e.content == nil {
		return nil, errNothingToExclude
	}
	if len(paths) > 0 {
		e.json = newScanner(paths)
	}
	if len(wanted) > 0 {
		e.columns = newColumns(o.Table.Kind, wanted)
	}
	var err error
	e.identity, err = newIdentity(o)
	return e, err
}

// Hash is the hash of the record's ID, or zero and why there is none. Where parts
// fail differently, Invalid goes before Unsupported before Missing, whatever
// their order. It keeps nothing of the record and allocates nothing, except for
// a value nested deeper than any before it, and for sha256:json.
func (e *Extractor) Hash(r *Record) (filter.Hash, Outcome) {
	outcome := e.scan(r.Value)
	e.repeats = false
	e.sum.reset()
	for i := range e.specs {
		p := e.part(&e.specs[i], r)
		switch p.kind {
		case absent:
			outcome = max(outcome, Missing)
		case nested:
			outcome = max(outcome, Unsupported)
		case broken:
			outcome = Invalid
		default:
			e.sum.add(&p)
		}
	}
	if e.repeats {
		e.repeated++
	}
	if outcome != Found {
		return 0, outcome
	}
	return e.sum.sum(), Found
}

// HashAll is Hash for records one after the other: element i of hashes, found and
// repeated is about records[i]. Repeated says that the record repeats a header that a
// spec names. It is faster than as many calls, for an ID that is the key or the value.
func (e *Extractor) HashAll(records []Record, hashes []filter.Hash, found []Outcome, repeated []bool) {
	hashes, found, repeated = hashes[:len(records)], found[:len(records)], repeated[:len(records)]
	if source := e.specs[0].source; len(e.specs) == 1 && e.identity == nil && (source == fromKey || source == fromValue) {
		e.hashWhole(records, source == fromValue, hashes, found)
		clear(repeated)
		return
	}
	for i := range records {
		hashes[i], found[i] = e.Hash(&records[i])
		repeated[i] = e.repeats
	}
}

// hashWhole is HashAll for an ID that is all of the key, or of the value.
func (e *Extractor) hashWhole(records []Record, value bool, hashes []filter.Hash, found []Outcome) {
	for i := range records {
		id := records[i].Key
		if value {
			id = records[i].Value
		}
		switch n := len(id); {
		case n == 0:
			hashes[i], found[i] = 0, Missing
		case n <= longAlone:
			hashes[i], found[i] = filter.Hash(sumOne(e.sum.seed, prefix(raw, n), id)), Found
		default:
			hashes[i], found[i] = e.sum.whole(raw, id), Found
		}
	}
}

// scan finds the parts that are somewhere in the value.
func (e *Extractor) scan(value []byte) Outcome {
	if e.json != nil && !e.json.scan(value) || e.columns != nil && !e.columns.scan(value) {
		return Invalid
	}
	return Found
}

// part is what the record has for a spec, once the value is scanned. It is good
// until the next one.
func (e *Extractor) part(s *spec, r *Record) (p part) {
	switch s.source {
	case fromKey:
		p = whole(r.Key)
	case fromValue:
		p = whole(r.Value)
	case fromHeader:
		value, n := lastHeader(r.Headers, s.header)
		p = whole(value)
		e.repeats = e.repeats || n > 1
	case fromJSON:
		p = e.json.found[s.found]
	case fromColumn:
		p = e.columns.found[s.found]
	case fromDigest:
		p = e.digest.of(r.Value)
	case fromCanonicalDigest:
		text, ok := e.content.canonical(r.Value)
		if !ok {
			return part{kind: broken}
		}
		p = e.digest.of(text)
	}
	if e.identity != nil {
		p = e.identity.of(p)
	}
	return p
}

func whole(b []byte) part {
	if len(b) == 0 {
		return part{}
	}
	return part{kind: raw, bytes: b}
}

// lastHeader is the value of the last header of that name, and how many there are.
func lastHeader(headers []Header, name string) (value []byte, n int) {
	for i := range headers {
		if headers[i].Name == name {
			value = headers[i].Value
			n++
		}
	}
	return value, n
}

// NeedsHeaders reports whether a source has to fill [Record.Headers].
func (e *Extractor) NeedsHeaders() bool {
	for i := range e.specs {
		if e.specs[i].source == fromHeader {
			return true
		}
	}
	return false
}

// RepeatedHeaders counts the calls of Hash whose record repeated a header that a
// spec names. It counts records that are read again after a rollback each time:
// take the difference over a cycle and add it up at the commit.
func (e *Extractor) RepeatedHeaders() uint64 { return e.repeated }

// String is the canonical text of the specs and their options: two Extractors that
// find an ID in a record find the same one when, and apart from odd equivalences only
// when, it is the same. It does not hold the seed, nor the IDs to ignore.
func (e *Extractor) String() string {
	quoted := make([]string, len(e.specs))
	for i := range e.specs {
		quoted[i] = strconv.Quote(e.specs[i].String())
	}
	text := strings.Join(quoted, " ")
	if e.columns != nil {
		text += " " + e.columns.kind.String()
	}
	if e.content != nil {
		text += e.content.String()
	}
	if e.identity != nil {
		text += e.identity.String()
	}
	return text
}
