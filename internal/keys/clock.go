package keys

import (
	"errors"
	"fmt"
	"strings"
)

// A Clock says what time a record has.
//
// It has one owner: no method may run concurrently with another.
type Clock struct {
	source  clockSource
	format  timeFormat
	json    *scanner // for a field of a JSON value only
	columns *columns // for a column only
	buf     [longestTime]byte
}

type clockSource uint8

const (
	recordTime clockSource = iota
	arrivalTime
	noTime
	fieldTime
	columnTime
)

// longestTime is the length from which a string is no longer a time.
const longestTime = 64

// ParseClock compiles the time spec of a stream:
//
//	record         the timestamp that came with the record
//	arrival        the wall clock at the reading of the batch
//	none           a clock that stands still: all records have the same time
//	json:a.b       a member of a JSON value, as in a key spec
//	column:7       a column of the table, as in a key spec
//
// format is how to read the field: rfc3339, unix (seconds), unix-ms, unix-us,
// unix-ns, or auto (also when empty), and it is for a field only.
//
// rfc3339 reads strings like 2026-01-01T00:00:00.123+01:00; T and Z may be lower
// case, T a space, and a time without an offset is UTC. The unix formats read
// numbers and strings that hold one, with a fraction or exponent where they have
// one. auto reads all of these and takes a number below 1e11 for seconds, below
// 1e14 for milliseconds, below 1e17 for microseconds, else for nanoseconds: so
// each unit is told apart from 1973 on, up to 5138 (nanoseconds: 2262).
func ParseClock(spec, format string, t Table) (*Clock, error) {
	f, err := parseTimeFormat(format)
	if err != nil {
		return nil, fmt.Errorf("parse time format %q: %w", format, err)
	}
	c := &Clock{format: f}
	switch spec {
	case "record":
		c.source = recordTime
	case "arrival":
		c.source = arrivalTime
	case "none":
		c.source = noTime
	default:
		field, err := parseTimeField(spec, t)
		if err != nil {
			return nil, fmt.Errorf("parse time spec %q: %w", spec, err)
		}
		if field.source == fromColumn {
			c.source, c.columns = columnTime, newColumns(t.Kind, []int{field.column})
		} else {
			c.source, c.json = fieldTime, newScanner([][]segment{field.path})
		}
	}
	if c.source < fieldTime && f != autoFormat {
		return nil, fmt.Errorf("parse time format %q: it is for a field of the value, not for the time %q: leave it out", format, spec)
	}
	return c, nil
}

func parseTimeField(s string, t Table) (spec, error) {
	p, err := parseKind(s, t)
	if err != nil && strings.HasPrefix(s, "column:") {
		return spec{}, err
	}
	if err != nil || p.source != fromJSON && p.source != fromColumn {
		return spec{}, errors.New("known are record, arrival, none, json:NAME (dots descend), json:/POINTER, column:NUMBER and column:NAME")
	}
	return p, nil
}

// Time is the record's time in milliseconds since the epoch, rounded down; it is
// positive. nowMillis is the wall clock at the reading of the batch. ok is false
// where there is no usable time: it is missing, unreadable, not after the epoch, or
// beyond an int64. It allocates nothing, except for a value nested deeper than any
// before it.
func (c *Clock) Time(r *Record, nowMillis int64) (millis int64, ok bool) {
	switch c.source {
	case recordTime:
		millis = r.Time
	case arrivalTime:
		millis = nowMillis
	case noTime:
		millis = 1
	case fieldTime:
		if !c.json.scan(r.Value) {
			return 0, false
		}
		if millis, ok = c.read(&c.json.found[0]); !ok {
			return 0, false
		}
	case columnTime:
		if !c.columns.scan(r.Value) {
			return 0, false
		}
		if millis, ok = c.read(&c.columns.found[0]); !ok {
			return 0, false
		}
	}
	if millis <= 0 {
		return 0, false
	}
	return millis, true
}

// Times is Time for records one after the other: times[i] is that of records[i], and
// none where there is no usable one. It is faster than as many calls where the time is
// not in the value.
func (c *Clock) Times(records []Record, nowMillis, none int64, times []int64) {
	times = times[:len(records)]
	for i := range records {
		t := records[i].Time
		if c.source != recordTime {
			t, _ = c.Time(&records[i], nowMillis)
		}
		if t <= 0 {
			t = none
		}
		times[i] = t
	}
}

func (c *Clock) read(p *part) (millis int64, ok bool) {
	s := p.bytes
	switch p.kind {
	case number:
		if c.format == rfc3339 {
			return 0, false
		}
		return readUnix(s, c.format)
	case text, raw:
		if p.escaped {
			if s, ok = c.unescape(p); !ok {
				return 0, false
			}
		}
		if c.format == rfc3339 || c.format == autoFormat && looksLikeDate(s) {
			return readRFC3339(s)
		}
		return readUnix(s, c.format)
	}
	return 0, false
}

// unescape decodes p, which may hold an offset's plus sign or a slash in escapes.
func (c *Clock) unescape(p *part) (decoded []byte, ok bool) {
	var char [maxChar]byte
	decoded = c.buf[:0]
	for piece, rest := p.next(p.bytes, &char); len(piece) > 0; piece, rest = p.next(rest, &char) {
		if len(decoded)+len(piece) > longestTime {
			return nil, false
		}
		decoded = append(decoded, piece...)
	}
	return decoded, true
}
