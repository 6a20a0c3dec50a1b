package keys

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
)

var (
	// ErrNoTable is why there are no columns.
	ErrNoTable = errors.New("column: needs csv or tsv input")
	// ErrNoHeader is why a column cannot be found by its name.
	ErrNoHeader = errors.New("no names of columns are known")
)

// columnNumber is the number of the column, counted from 1, that follows column:
// in a spec. Digits are a number, whatever the header has.
func columnNumber(s string, t Table) (int, error) {
	if t.Kind == NoTable {
		return 0, ErrNoTable
	}
	if s == "" {
		return 0, errors.New("the column is missing: write column:NUMBER, from 1, or column:NAME")
	}
	if n, err := strconv.Atoi(s); err == nil {
		if n < 1 {
			return 0, fmt.Errorf("there is no column %d: the first is column 1", n)
		}
		return n, nil
	}
	if t.Header == nil {
		return 0, fmt.Errorf("%w: write the number of the column, from 1", ErrNoHeader)
	}
	i := slices.Index(t.Header, s)
	if i < 0 {
		return 0, fmt.Errorf("no column has that name: there are %q", t.Header)
	}
	return i + 1, nil
}

// columns finds some columns of a row in one pass.
//
// It has one owner: no method may run concurrently with another.
type columns struct {
	kind TableKind
	// wanted has the number of each column that is looked for; order has their
	// indices in found, by number.
	wanted []int
	order  []int
	found  []part
}

func newColumns(kind TableKind, wanted []int) *columns {
	c := &columns{kind: kind, wanted: wanted, found: apart[part](len(wanted)), order: make([]int, len(wanted))}
	for i := range c.order {
		c.order[i] = i
	}
	slices.SortStableFunc(c.order, func(a, b int) int { return wanted[a] - wanted[b] })
	return c
}

// scan fills found with the columns of the row that value is. It reports false
// when the row is malformed before the end of the last of them; found is then of no
// use. A column that the row does not have is absent.
func (c *columns) scan(value []byte) bool {
	for i := range c.found {
		c.found[i] = part{}
	}
	row := withoutLineEnd(value)
	if len(row) == 0 {
		return true
	}
	next := 0 // in order
	for i, n := 0, 1; ; n++ {
		p, end := c.field(row, i)
		if end < 0 {
			return false
		}
		for ; c.wanted[c.order[next]] == n; next++ {
			c.found[c.order[next]] = p
			if next+1 == len(c.order) {
				return true
			}
		}
		if end == len(row) {
			return true
		}
		i = end + 1
	}
}

// field reads the column that begins at i. Its end is the separator behind it, the
// end of the row, or malformed.
func (c *columns) field(row []byte, i int) (p part, end int) {
	if c.kind == TSV {
		return tabField(row, i)
	}
	return csvField(row, i)
}

// withoutLineEnd is the row without a line end, which may have lost its LF to
// whoever split lines.
func withoutLineEnd(row []byte) []byte {
	if n := len(row); n > 0 && row[n-1] == '\n' {
		row = row[:n-1]
	}
	if n := len(row); n > 0 && row[n-1] == '\r' {
		row = row[:n-1]
	}
	return row
}

// tabField has no rule against a line end in it but that nothing writes one: the
// value holds several rows, of which the first must not speak for all.
func tabField(row []byte, i int) (p part, end int) {
	end = len(row)
	if n := bytes.IndexByte(row[i:], '\t'); n >= 0 {
		end = i + n
	}
	if bytes.IndexByte(row[i:end], '\n') >= 0 {
		return p, malformed
	}
	return whole(row[i:end]), end
}

// csvField reads a column of RFC 4180. What it does not allow is malformed: a quote
// or a line end in a column without quotes, and anything between a closing quote and
// the separator. The text of a column keeps its spaces and line ends.
func csvField(row []byte, i int) (p part, end int) {
	if at(row, i) == '"' {
		return quotedField(row, i+1)
	}
	end = plainEnd(row, i)
	if end < len(row) && row[end] != ',' {
		return p, malformed
	}
	return whole(row[i:end]), end
}

// plainEnd is the index of the first comma, quote or LF of row from i on, or its
// length.
func plainEnd(row []byte, i int) int {
	for i >= 0 && i <= len(row)-8 {
		x := word(row, i)
		if m := zeros(x^','*eachByte) | zeros(x^'"'*eachByte) | zeros(x^'\n'*eachByte); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
		i += 8
	}
	for i < len(row) && row[i] != ',' && row[i] != '"' && row[i] != '\n' {
		i++
	}
	return i
}

// zeros has the high bit set for the first zero byte of x. Bits above that one mean
// nothing.
func zeros(x uint64) uint64 { return (x - eachByte) &^ x & (0x80 * eachByte) }

// quotedField takes the index behind the opening quote.
func quotedField(row []byte, i int) (p part, end int) {
	start, doubled := i, false
	for {
		n := bytes.IndexByte(row[i:], '"')
		if n < 0 {
			return p, malformed
		}
		if i += n; at(row, i+1) != '"' {
			break
		}
		i, doubled = i+2, true
	}
	if end = i + 1; end < len(row) && row[end] != ',' {
		return p, malformed
	}
	p = whole(row[start:i])
	p.escaped = doubled
	return p, end
}

// nextQuoted is the first piece of s, the text between the quotes of a column: what
// follows it up to and with the first quote, of which the second is left out.
func nextQuoted(s []byte) (piece, rest []byte) {
	n := bytes.IndexByte(s, '"')
	if n < 0 {
		return s, nil
	}
	return s[:n+1], s[n+2:]
}

// Columns are the decoded columns of a row, such as the names in a header.
func Columns(kind TableKind, row []byte) ([]string, error) {
	c := columns{kind: kind}
	row = withoutLineEnd(row)
	var all []string
	for i := 0; ; {
		p, end := c.field(row, i)
		if end < 0 {
			return nil, fmt.Errorf("column %d is malformed: want a quote at both of its ends, doubled quotes inside, and no line end without quotes", len(all)+1)
		}
		all = append(all, string(p.appendTo(nil)))
		if end == len(row) {
			return all, nil
		}
		i = end + 1
	}
}
