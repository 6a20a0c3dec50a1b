package keys

import (
	"errors"
	"fmt"

	"github.com/streamdedup/streamdedup/filter"
)

// HashWritten is the hash of an ID that somebody has written down as JSON: what
// [Extractor.Hash] gives for a record that has it. An ID of one part is a string,
// a number, true or false; one of several parts, or of one, an array of those in
// the order of the specs.
//
// A key, a header or a whole value has bytes and no type: a string stands for its
// decoded text, and a number for its characters.
func (e *Extractor) HashWritten(id []byte) (filter.Hash, error) {
	e.sum.reset()
	i := skipSpace(id, 0)
	array := at(id, i) == '['
	if array {
		i = skipSpace(id, i+1)
	} else if len(e.specs) > 1 {
		return 0, fmt.Errorf("an ID of %d parts is an array of %d", len(e.specs), len(e.specs))
	}
	for n := range e.specs {
		if n > 0 {
			if at(id, i) != ',' {
				return 0, fmt.Errorf("want an array of %d parts, it ends after %d", len(e.specs), n)
			}
			i = skipSpace(id, i+1)
		}
		p, end, err := writtenPart(id, i)
		if err == nil {
			err = e.addWritten(&e.specs[n], p)
		}
		if err != nil {
			return 0, err
		}
		i = skipSpace(id, end)
	}
	if array {
		if at(id, i) != ']' {
			return 0, fmt.Errorf("want an array of %s", parts(len(e.specs)))
		}
		i = skipSpace(id, i+1)
	}
	if i < len(id) {
		return 0, errors.New("something follows its end")
	}
	return e.sum.sum(), nil
}

// HashText is the hash of an ID of one part that is a text, without quotes or
// escapes.
func (e *Extractor) HashText(id []byte) (filter.Hash, error) {
	switch {
	case len(e.specs) > 1:
		return 0, fmt.Errorf("an ID of %d parts is an array of %d", len(e.specs), len(e.specs))
	case len(id) == 0:
		return 0, errNoID
	}
	e.sum.reset()
	if err := e.addWritten(&e.specs[0], part{kind: text, bytes: id}); err != nil {
		return 0, err
	}
	return e.sum.sum(), nil
}

// IsLiteral says whether a text is one that HashWritten reads: what else it is, is
// a text without quotes.
func IsLiteral(b []byte) bool {
	i := skipSpace(b, 0)
	switch at(b, i) {
	case '"', '[':
		return true
	}
	end, k := skipScalar(b, i)
	return end > 0 && k != absent && skipSpace(b, end) == len(b)
}

// KeyText is the record key that a written ID stands for, or nil where the ID is
// not the record's key and nothing else.
func (e *Extractor) KeyText(id []byte) []byte {
	if len(e.specs) != 1 || e.specs[0].source != fromKey {
		return nil
	}
	i := skipSpace(id, 0)
	if at(id, i) == '[' {
		i = skipSpace(id, i+1)
	}
	p, _, err := writtenPart(id, i)
	if err != nil {
		return nil
	}
	return p.appendTo(nil)
}

// addWritten gives the part the type that it has in a record.
func (e *Extractor) addWritten(s *spec, p part) error {
	if s.source != fromJSON {
		p = part{kind: raw, bytes: p.appendTo(nil)}
	}
	if s.source == fromDigest || s.source == fromCanonicalDigest {
		if !e.digest.read(p.bytes) {
			return fmt.Errorf("the ID of %s is a SHA-256: want %d hexadecimal digits", s, len(e.digest))
		}
		p.bytes = e.digest[:]
	}
	if e.identity != nil {
		if p = e.identity.of(p); p.kind == absent {
			return errIgnored
		}
	}
	e.sum.add(&p)
	return nil
}

var (
	errNoID    = errors.New("an empty ID is none")
	errIgnored = errors.New("it is one of the IDs to ignore, and means that there is none")
)

// writtenPart reads the string, number or boolean at i.
func writtenPart(b []byte, i int) (p part, end int, err error) {
	switch at(b, i) {
	case '"':
		end, escaped := skipString(b, i+1)
		if end < 0 {
			return p, 0, errors.New("a string does not end, or holds what must be escaped")
		}
		if end == i+1 {
			return p, 0, errNoID
		}
		return part{text, escaped, b[i+1 : end]}, end + 1, nil
	case '[', '{':
		return p, 0, errors.New("a part of an ID is no array or object")
	}
	end, k := skipScalar(b, i)
	switch {
	case end < 0 || end < len(b) && !delimited(b, end):
		return p, 0, errors.New(`want a string in quotes, a number, true or false`)
	case k == absent:
		return p, 0, errors.New("null is no ID")
	}
	return part{kind: k, bytes: b[i:end]}, end, nil
}

func parts(n int) string {
	if n == 1 {
		return "one part"
	}
	return fmt.Sprintf("%d parts", n)
}
