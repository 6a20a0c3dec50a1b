package keys

import (
	"bytes"
	"errors"
	"slices"
	"strings"
)

// identity is what of a part counts, by the options: which spellings are one ID,
// and which IDs are none.
//
// It has one owner: no method may run concurrently with another.
type identity struct {
	uuid   bool
	ignore [][]byte
	char   [maxChar]byte
	text   [longestUUID]byte
	digits [uuidDigits]byte
}

// newIdentity is nil where parts count as they are.
func newIdentity(o Options) (*identity, error) {
	if !o.UUID && len(o.Ignore) == 0 {
		return nil, nil
	}
	id := &identity{uuid: o.UUID}
	for _, text := range o.Ignore {
		if text == "" {
			return nil, errors.New("an ID to ignore is empty: those are missing as it is")
		}
		p := part{kind: raw, bytes: []byte(text)}
		if o.UUID {
			p = id.fold(p)
		}
		id.ignore = append(id.ignore, slices.Clone(p.bytes))
	}
	slices.SortFunc(id.ignore, bytes.Compare)
	id.ignore = slices.CompactFunc(id.ignore, bytes.Equal)
	return id, nil
}

// of is what counts of p: absent where it is one of the IDs that are none.
func (id *identity) of(p part) part {
	switch p.kind {
	case raw, text:
		if id.uuid {
			p = id.fold(p)
		}
	case number:
	default:
		return p
	}
	for _, text := range id.ignore {
		if id.same(&p, text) {
			return part{}
		}
	}
	return p
}

func (id *identity) same(p *part, text []byte) bool {
	if len(p.bytes) < len(text) {
		return false // decoding only makes it shorter
	}
	for piece, rest := p.next(p.bytes, &id.char); len(piece) > 0; piece, rest = p.next(rest, &id.char) {
		if len(piece) > len(text) || string(piece) != string(text[:len(piece)]) {
			return false
		}
		text = text[len(piece):]
	}
	return len(text) == 0
}

const (
	uuidDigits  = 32
	uuidURN     = "urn:uuid:"
	longestUUID = len(uuidURN) + len("{}") + uuidDigits + len("----")
)

// fold makes a part that is a UUID its digits in lower case; any other stays. What
// it returns is good until the next call.
func (id *identity) fold(p part) part {
	s := p.bytes
	if p.escaped {
		s = id.text[:0]
		for piece, rest := p.next(p.bytes, &id.char); len(piece) > 0; piece, rest = p.next(rest, &id.char) {
			if len(s)+len(piece) > longestUUID {
				return p
			}
			s = append(s, piece...)
		}
	}
	if !id.readUUID(s) {
		return p
	}
	return part{kind: p.kind, bytes: id.digits[:]}
}

// readUUID reports whether s is a UUID, and leaves its digits in id.digits: 32
// hexadecimal digits without dashes or with those of RFC 9562, in braces or not,
// behind urn:uuid: or not.
func (id *identity) readUUID(s []byte) bool {
	if len(s) > len(uuidURN) && strings.EqualFold(string(s[:len(uuidURN)]), uuidURN) {
		s = s[len(uuidURN):]
	}
	if n := len(s); n > 2 && s[0] == '{' && s[n-1] == '}' {
		s = s[1 : n-1]
	}
	dashed := len(s) == uuidDigits+4
	if len(s) != uuidDigits && !dashed {
		return false
	}
	n := 0
	for i, c := range s {
		if dashed && (i == 8 || i == 13 || i == 18 || i == 23) {
			if c != '-' {
				return false
			}
			continue
		}
		digit := hexDigit[c]
		if digit&isHex == 0 || n == uuidDigits {
			return false
		}
		id.digits[n] = lowerHex[digit&0xf]
		n++
	}
	return true
}

const lowerHex = "0123456789abcdef"

// String is the canonical text, behind a space, of what decides which IDs are the
// same. Those to ignore do not: every other ID stays what it is.
func (id *identity) String() string {
	if id.uuid {
		return " uuid"
	}
	return ""
}
