package keys

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestScannerAgainstEncodingJSON compares the scanner with encoding/json on texts
// that are made up: of a few shapes at a time, with other values each time, and
// damaged. With STREAMDEDUP_LONG=1 it runs for ten minutes.
func TestScannerAgainstEncodingJSON(t *testing.T) {
	seed := rand.Uint64()
	if s := os.Getenv("STREAMDEDUP_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("parse STREAMDEDUP_SEED: %v", err)
		}
	}
	t.Logf("STREAMDEDUP_SEED=%d", seed)
	long := os.Getenv("STREAMDEDUP_LONG") == "1"
	const few = 3000
	rng := rand.New(rand.NewPCG(seed, 0))
	c := newComparison(t)
	start, n, hits := time.Now(), 0, 0
	for ; !t.Failed() && (n < few || long && time.Since(start) < 10*time.Minute); n++ {
		if n%1000 == 0 {
			hits += c.hits()
			c = newComparison(t)
		}
		shape := uint64(n/1000)<<8 | rng.Uint64N(1<<rng.Uint64N(9))
		text := newWriter(seed, shape, rng).text()
		for rng.IntN(3) == 0 {
			text = damage(rng, text)
		}
		if len(text) <= 5000 { // encoding/json refuses more than 10,000 levels
			c.check(t, text)
		}
	}
	hits += c.hits()
	t.Logf("%d texts, each by %d paths; %d scans followed a shape", n, len(c.paths), hits)
	if hits < n {
		t.Errorf("got %d scans that followed a shape for %d texts: they are too different to try it", hits, n)
	}
}

// hits is how many scans of the old scanners followed a shape.
func (c *comparison) hits() (n int) {
	for _, s := range append(c.old, c.together.json) {
		n += s.shapes.hits
	}
	return n
}

// writer makes up a text: shape says what its names and objects are, values the rest.
type writer struct {
	strings.Builder
	shape, values *rand.Rand
	space         int // how much white space there is
}

func newWriter(seed, shape uint64, values *rand.Rand) *writer {
	w := &writer{shape: rand.New(rand.NewPCG(seed, 1+shape)), values: values}
	w.space = w.shape.IntN(4)
	return w
}

func (w *writer) text() []byte {
	if w.shape.IntN(20) == 0 {
		w.WriteString("\x00\x00\x00\x00\x07")
	}
	w.value(w.shape, 0)
	return []byte(w.String())
}

func pick(rng *rand.Rand, of ...string) string { return of[rng.IntN(len(of))] }

// token writes s and maybe white space around it.
func (w *writer) token(s string) {
	if w.space == 0 && w.shape.IntN(4) == 0 {
		w.WriteString(pick(w.shape, " ", "  ", "\n", "\t", "\r\n "))
	}
	w.WriteString(s)
	if w.space == 1 && s != "{" {
		w.WriteByte(' ')
	}
}

// value writes one of any kind. rng is the shape's, unless all of the value is left
// to chance.
func (w *writer) value(rng *rand.Rand, depth int) {
	kind := rng.IntN(8)
	if depth == 0 {
		kind = rng.IntN(3) // rarely a scalar
	} else if depth > 4 {
		kind = 7
	}
	switch {
	case kind < 2:
		w.object(rng, depth)
	case kind == 2:
		w.array(rng, depth)
	case w.values.IntN(16) == 0 && depth < 4:
		w.value(w.values, depth+1)
	case w.values.IntN(2) == 0:
		w.token(w.string())
	default:
		w.token(pick(w.values, "0", "1", "-1", "12", "1767225600123", "12345678", "9007199254740993", "19.99", "-0.5e+7", "1E5", "true", "false", "null", `""`, "[]", "{}",
			strconv.Itoa(w.values.IntN(1<<30))))
	}
}

func (w *writer) object(rng *rand.Rand, depth int) {
	w.token("{")
	for i := range rng.IntN(7) {
		if i > 0 {
			w.token(",")
		}
		w.token(`"` + pick(rng, "id", "id", "a", "a", "b", "0", "é", "a/b", `\u0069d`, `i\u0064`, `\u00e9`, `\"`, "x", "a_long_name", "a_name_of_more_than_sixteen", "\xff", "") + `"`)
		w.token(":")
		w.value(rng, depth+1)
	}
	w.token("}")
}

func (w *writer) array(rng *rand.Rand, depth int) {
	w.token("[")
	for i := range rng.IntN(4) {
		if i > 0 {
			w.token(",")
		}
		w.value(rng, depth+1)
	}
	w.token("]")
}

func (w *writer) string() string {
	var b strings.Builder
	b.WriteByte('"')
	for range w.values.IntN(1 + w.values.IntN(24)) {
		b.WriteString(pick(w.values, "a", "b", "0123", "abcdefgh", " ", ",", ":", "[", "}", "é", "😀", `\n`, `\"`, `\\`, `\/`, `\u0061`, `\ud83d\ude00`, `\ud83d`, `\udc00\ud83d`, "\xff", "\xed\xa0\x80"))
	}
	b.WriteByte('"')
	return b.String()
}

// damage changes a few bytes of text.
func damage(rng *rand.Rand, text []byte) []byte {
	if len(text) == 0 {
		return text
	}
	i := rng.IntN(len(text))
	before, after := text[:i], text[i:]
	switch rng.IntN(6) {
	case 0:
		return before
	case 1:
		return fmt.Appendf(nil, "%s%s", before, after[1:])
	case 2:
		return fmt.Appendf(nil, "%s%s%s", before, after[:1+rng.IntN(len(after))], after)
	case 3:
		return fmt.Appendf(nil, "%s%c%s", before, byte(rng.Uint32()), after[1:])
	}
	return fmt.Appendf(nil, "%s%s%s", before, pick(rng, `"`, `\`, "{", "}", "[", "]", ",", ":", "0", "1", "-", ".", "e", " ", "\n", "\x00", "\x1f", "n", "t", `"id":1,`, `"a":[],`, "\xef\xbb\xbf"), after[rng.IntN(2):])
}
