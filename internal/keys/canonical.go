package keys

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// canonicalizer brings JSON texts into the one form of all that say the same: that
// of RFC 8785, but that a number keeps its characters where a float64 would make
// another number of it. It leaves some members out.
//
// It has one owner: no method may run concurrently with another.
type canonicalizer struct {
	exclude [][]segment
	sorted  jsontext.Value // the value without spaces, its members in order
	out     []byte
	char    [maxChar]byte
}

func newCanonicalizer(exclude []string) (*canonicalizer, error) {
	if len(exclude) > maxPaths {
		return nil, fmt.Errorf("%d members to leave out, at most %d can be", len(exclude), maxPaths)
	}
	c := &canonicalizer{sorted: make([]byte, 0, commonSize), out: make([]byte, 0, commonSize)}
	for _, s := range exclude {
		path, err := parsePath(strings.TrimPrefix(s, "json:"))
		if err != nil {
			return nil, fmt.Errorf("member to leave out %q: %w", s, err)
		}
		c.exclude = append(c.exclude, path)
	}
	return c, nil
}

const (
	// commonSize is that of most values; memory of that size lies in lines of cache of
	// its own, see [apart].
	commonSize = 512
	// largestKept bounds the memory that is kept for the next value.
	largestKept = 1 << 20
	// mostMoved bounds the time for a value, to about a second. Members are put in order
	// from the innermost object on, so that a text moves once for each object around it:
	// 20 MiB below 10,000 objects took half a minute, and a record that takes longer than
	// a transaction may is one that its partition never gets past.
	mostMoved = 1 << 32
	// mostNested is how many levels there can be.
	mostNested = 10_000
)

// canonical is the canonical text of value, good until the next call. It is empty
// for a value that has nothing in it, and not ok where the value is no JSON text that
// all readers read alike: malformed, with a name twice in an object, or with strings
// that are not Unicode. Neither is it where that would take too long.
func (c *canonicalizer) canonical(value []byte) (text []byte, ok bool) {
	if len(value) == 0 {
		return nil, true
	}
	if value[0] == 0 {
		value = value[min(registryPrefix, len(value)):]
	}
	if n := int64(len(value)); n > mostMoved/mostNested && objectsAround(value) > mostMoved/n {
		return nil, false
	}
	if cap(c.sorted) > largestKept {
		c.sorted, c.out = nil, nil
	}
	c.sorted = append(c.sorted[:0], value...)
	if err := c.sorted.Format(jsontext.ReorderRawObjects(true)); err != nil {
		return nil, false
	}
	c.out = c.out[:0]
	c.value(0, 1<<len(c.exclude)-1, 0)
	switch string(c.out) {
	case "null", `""`, "{}", "[]":
		return nil, true
	}
	return c.out, true
}

// objectsAround is how many objects are around what has the most of them around it.
func objectsAround(text []byte) (most int64) {
	depth := int64(0)
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			if i, _ = skipString(text, i+1); i < 0 {
				return most // it is malformed
			}
		case '{':
			depth++
			most = max(most, depth)
		case '}':
			depth--
		}
	}
	return most
}

// value copies the value at i of the sorted text, which is where the first depth
// segments of the paths in set lead, and returns the index behind it.
func (c *canonicalizer) value(i int, set uint64, depth int) int {
	b := c.sorted
	if set == 0 || b[i] != '{' && b[i] != '[' {
		return c.whole(i)
	}
	object := b[i] == '{'
	c.out = append(c.out, b[i])
	begin := len(c.out)
	i++
	for n := 0; b[i] != '}' && b[i] != ']'; n++ {
		if b[i] == ',' {
			i++
		}
		start := len(c.out)
		if start > begin {
			c.out = append(c.out, ',')
		}
		var name []byte
		if object {
			end, _ := skipString(b, i+1)
			name = b[i+1 : end]
			c.out = append(c.out, b[i:end+2]...) // with the colon
			i = end + 2
		}
		deeper, out := c.match(name, n, object, set, depth)
		i = c.value(i, deeper, depth+1)
		if out {
			c.out = c.out[:start]
		}
	}
	c.out = append(c.out, b[i])
	return i + 1
}

// match is the set of those paths that lead on through the member, or element, and
// whether one of them ends there.
func (c *canonicalizer) match(name []byte, n int, object bool, set uint64, depth int) (deeper uint64, out bool) {
	for p, path := range c.exclude {
		if set>>p&1 == 0 || object && !equal(name, path[depth].name, &c.char) || !object && path[depth].element != n {
			continue
		}
		if len(path) == depth+1 {
			out = true
		} else {
			deeper |= 1 << p
		}
	}
	return deeper, out
}

// whole copies the value at i with all that is in it.
func (c *canonicalizer) whole(i int) int {
	b := c.sorted
	for depth := 0; ; {
		switch ch := b[i]; {
		case ch == '"':
			end, _ := skipString(b, i+1)
			c.out = append(c.out, b[i:end+1]...)
			i = end + 1
		case ch == '-' || '0' <= ch && ch <= '9':
			end := skipNumber(b, i)
			c.out = appendNumber(c.out, b[i:end])
			i = end
		default:
			switch ch {
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			c.out = append(c.out, ch)
			i++
		}
		if depth == 0 && (i == len(b) || !isLetter(b[i])) {
			return i
		}
	}
}

// isLetter reports whether a literal goes on.
func isLetter(c byte) bool { return 'a' <= c && c <= 'z' }

// exactInteger is up to how many digits an integer is a float64's, and its own
// shortest form.
const exactInteger = 15

// appendNumber appends the canonical form of a number: that of RFC 8785 where it is
// the same number, else its own characters.
func appendNumber(b, literal []byte) []byte {
	if len(literal) <= exactInteger && !bytes.ContainsAny(literal, ".eE") && string(literal) != "-0" {
		return append(b, literal...)
	}
	near, err := strconv.ParseFloat(string(literal), 64)
	if err != nil {
		return append(b, literal...) // beyond the largest
	}
	n := len(b)
	if b = appendFloat(b, near); !sameNumber(b[n:], literal) {
		b = append(b[:n], literal...)
	}
	return b
}

// appendFloat appends a number as ECMAScript writes it (RFC 8785, section 3.2.2.3).
func appendFloat(b []byte, f float64) []byte {
	switch abs := math.Abs(f); {
	case f == 0:
		return append(b, '0') // also for -0
	case 1e-6 <= abs && abs < 1e21:
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	if n := len(b); b[n-4] == 'e' && b[n-2] == '0' { // as in 1e-07
		b = append(b[:n-2], b[n-1])
	}
	return b
}

// decimal is the number 0.D × 10^exponent, where D are the digits, of which the
// first and the last are not zero. A point among them does not count.
type decimal struct {
	negative bool
	digits   []byte
	exponent int64
}

// largestExponent is beyond that of any float64.
const largestExponent = 1 << 40

// sameNumber reports whether two literals are one number, exactly. Those with
// exponents that nobody writes are not.
func sameNumber(a, b []byte) bool {
	x, okX := parseDecimal(a)
	y, okY := parseDecimal(b)
	if !okX || !okY || x.negative != y.negative || x.exponent != y.exponent {
		return false
	}
	for len(x.digits) > 0 && len(y.digits) > 0 {
		switch {
		case x.digits[0] == '.':
			x.digits = x.digits[1:]
		case y.digits[0] == '.':
			y.digits = y.digits[1:]
		case x.digits[0] != y.digits[0]:
			return false
		default:
			x.digits, y.digits = x.digits[1:], y.digits[1:]
		}
	}
	return len(x.digits) == len(y.digits)
}

func parseDecimal(b []byte) (d decimal, ok bool) {
	if b[0] == '-' {
		d.negative, b = true, b[1:]
	}
	if i := bytes.IndexAny(b, "eE"); i >= 0 {
		e, err := strconv.ParseInt(string(b[i+1:]), 10, 64)
		if err != nil || e > largestExponent || e < -largestExponent {
			return d, false
		}
		d.exponent, b = e, b[:i]
	}
	point := bytes.IndexByte(b, '.')
	if point < 0 {
		point = len(b)
	}
	first := bytes.IndexAny(b, "123456789")
	if first < 0 {
		return decimal{}, true // zero, which has no sign
	}
	last := bytes.LastIndexAny(b, "123456789")
	d.digits = b[first : last+1]
	if d.exponent += int64(point - first); first > point {
		d.exponent++
	}
	return d, true
}

// String is the canonical text of what is left out, behind a space.
func (c *canonicalizer) String() string {
	if len(c.exclude) == 0 {
		return ""
	}
	var all []string
	for _, path := range c.exclude {
		p := spec{source: fromJSON, path: path}
		all = append(all, strconv.Quote(p.String()))
	}
	slices.Sort(all)
	return " exclude " + strings.Join(slices.Compact(all), " ")
}

var errNothingToExclude = errors.New("members to leave out are for sha256:json only")
