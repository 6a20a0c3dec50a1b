package keys

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// reference finds the value at path the slow way, with encoding/json: the literal
// where there is one, and how the search ended.
//
// It walks the tokens. The decoder is lenient here and there about what it has not
// decoded yet, so the text up to the place is checked on its own: closed by the
// brackets that are open there, it must be valid JSON.
func reference(doc []byte, path []segment) (literal string, outcome Outcome) {
	if len(doc) == 0 {
		return "", Missing
	}
	if doc[0] == 0 {
		doc = doc[min(registryPrefix, len(doc)):]
	}
	start, closers, found := locate(doc, path)
	if !found {
		if json.Valid(doc) {
			return "", Missing
		}
		return "", Invalid
	}
	rest := doc[start:]
	if rest[0] == '[' || rest[0] == '{' {
		if json.Valid([]byte(string(doc[:start]) + "0" + closers)) {
			return "", Unsupported
		}
		return "", Invalid
	}
	end := strings.IndexAny(string(rest), ",]} \t\r\n")
	if rest[0] == '"' {
		end = 1
		for end < len(rest) && rest[end] != '"' {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		end++
	}
	if end < 0 || end > len(rest) || !json.Valid([]byte(string(doc[:start+end])+closers)) {
		return "", Invalid
	}
	switch literal = string(rest[:end]); literal {
	case "null", `""`:
		return "", Missing
	}
	return literal, Found
}

// locate is the index in doc of the first byte of the value at path, and the
// brackets that close what is open there. Malformed text ends the search.
func locate(doc []byte, path []segment) (start int, closers string, found bool) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	for _, seg := range path {
		open, err := dec.Token()
		if err != nil {
			return 0, "", false
		}
		switch open {
		case json.Delim('{'):
			closers = "}" + closers
			for {
				name, err := dec.Token()
				if err != nil || name == json.Delim('}') {
					return 0, "", false
				}
				if name == seg.name {
					break
				}
				if err := dec.Decode(new(json.RawMessage)); err != nil {
					return 0, "", false
				}
			}
		case json.Delim('['):
			closers = "]" + closers
			if seg.element < 0 {
				return 0, "", false
			}
			for range seg.element {
				if !dec.More() || dec.Decode(new(json.RawMessage)) != nil {
					return 0, "", false
				}
			}
			if !dec.More() {
				return 0, "", false
			}
		default:
			return 0, "", false
		}
	}
	start = int(dec.InputOffset())
	start += len(doc[start:]) - len(bytes.TrimLeft(doc[start:], ":, \t\r\n"))
	return start, closers, start < len(doc)
}

// decodeSlowly decodes the literal of a JSON string rune by rune.
func decodeSlowly(literal string) (decoded []byte) {
	s := literal[1 : len(literal)-1]
	unit := func(s string) rune {
		if len(s) < 6 || s[:2] != `\u` {
			return 0
		}
		n, _ := strconv.ParseUint(s[2:6], 16, 16)
		return rune(n)
	}
	for len(s) > 0 {
		if s[0] != '\\' {
			decoded, s = append(decoded, s[0]), s[1:]
			continue
		}
		if s[1] != 'u' {
			decoded = append(decoded, map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': 8, 'f': 12, 'n': 10, 'r': 13, 't': 9}[s[1]])
			s = s[2:]
			continue
		}
		r := unit(s)
		switch pair := utf16.DecodeRune(r, unit(s[6:])); {
		case pair != utf8.RuneError:
			decoded, s = utf8.AppendRune(decoded, pair), s[12:]
		case utf16.IsSurrogate(r):
			decoded, s = append(decoded, 0xed, byte(0x80|r>>6&0x3f), byte(0x80|r&0x3f)), s[6:]
		default:
			decoded, s = utf8.AppendRune(decoded, r), s[6:]
		}
	}
	return decoded
}

// jsonPaths are what FuzzJSON and the long comparison look for.
var jsonPaths = []string{"id", "a.b", "/a/1/b", "/0/id", "id.id", "/a~1b", "/id/0/id", "/é/0", "/a/0"}

// comparison holds the scanner to encoding/json, for texts of any kind:
//
//   - each path alone has the outcome and the literal that the reference finds;
//   - the decoded text of a string is that of a slow decoder, and that of
//     encoding/json where this replaces nothing;
//   - all paths in one pass find what each finds alone, unless the text is malformed
//     before the last of them;
//   - a scanner that has met other texts finds the same.
type comparison struct {
	paths [][]segment
	// old are scanners that keep the shapes of all texts, together an Extractor of all
	// paths that does.
	old      []*scanner
	together *Extractor
}

func newComparison(t testing.TB) *comparison {
	c := &comparison{}
	var specs []string
	for _, p := range jsonPaths {
		path, err := parsePath(p)
		if err != nil {
			t.Fatal(err)
		}
		c.paths = append(c.paths, path)
		c.old = append(c.old, newScanner([][]segment{path}))
		specs = append(specs, "json:"+p)
	}
	c.together = mustParse(t, specs...)
	return c
}

func (c *comparison) check(t testing.TB, doc []byte) {
	t.Helper()
	worst := Found
	c.wake()
	for i, path := range c.paths {
		want, outcome := reference(doc, path)
		worst = max(worst, outcome)
		// The second time, the new one has met the text itself.
		fresh := newScanner([][]segment{path})
		for _, s := range []*scanner{fresh, fresh, c.old[i], c.old[i]} {
			checkScan(t, s, doc, jsonPaths[i], want, outcome)
		}
	}
	for range 2 {
		if _, o := c.together.Hash(&Record{Value: doc}); o != worst {
			t.Errorf("all paths in %q: got %v, want %v", doc, o, worst)
		}
	}
}

// wake has the scanners follow shapes, however many texts had none of them.
func (c *comparison) wake() {
	for _, s := range append(c.old, c.together.json) {
		s.shapes.rest, s.shapes.misses = 0, 0
	}
}

func checkScan(t testing.TB, s *scanner, doc []byte, path, want string, outcome Outcome) {
	t.Helper()
	if !s.scan(doc) {
		if outcome != Invalid {
			t.Errorf("%s in %q: got invalid, want %v %s", path, doc, outcome, want)
		}
		return
	}
	got := &s.found[0]
	if o := outcomeOf(got); o != outcome {
		t.Errorf("%s in %q: got %v, want %v %s", path, doc, o, outcome, want)
	} else if outcome == Found {
		compareValue(t, got, want)
	}
}

// texts are where fuzzing begins.
func texts() [][]byte {
	texts := [][]byte{deep(70)}
	for _, s := range []string{
		`{"id":"a"}`, `{"id":1}`, `{"id":-0.5e+7,"a":[1,{"b":"x"}]}`, `{"a":{"b":true},"id":null}`, `{"a":[[],[0,{"b":{}}]],"id":""}`, `[{"id":1},2]`,
		`{"\u0069d":"\ud83d\ude00\ud83d\n\/","a":1}`, "{\"id\":\"\xff\xed\xa0\x80\\udc00\"}", `{"id":"a","id":"b"}`, `{"a":{"x":1},"a":{"b":2}}`, `{"0":{"id":1}}`,
		`{"id":12`, `{"id":12x}`, `{"id":"a`, `{"x":1,}`, `{"x" 1}`, `[1 2]`, `{"x":[}]}`, `{"x":01,"id":1}`, "{\"x\":\"\n\",\"id\":1}", `{"x":"\q","id":1}`, ` {"x" : "a\"b" , "id" : [ ] } `,
		"\x00\x00\x00\x00\x01" + `{"id":"a"}`, "\x00", "", "  ", `"id"`, `nul`, `{"id":true}}`, `{"x":1}{"id":2}`, `{"x":{"id":1},"id":[{"id":2}]}`,
		`{"\u00e9":["x"],"a/b":0}`, `{"é":[1],"id":{"id":"12345678"}}`, `{"x":"0123456789abcdef","y":1767225600123,"id":"a\\"}`, `{"a":["a",{"b":2}],"id":3}`, `{"a":5,"id":3}`,
	} {
		texts = append(texts, []byte(s))
	}
	return texts
}

func FuzzJSON(f *testing.F) {
	for _, text := range texts() {
		f.Add(text)
	}
	c := newComparison(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		if len(doc) > 5000 {
			return // encoding/json refuses more than 10,000 levels
		}
		c.check(t, doc)
	})
}

func outcomeOf(p *part) Outcome {
	switch p.kind {
	case absent:
		return Missing
	case nested:
		return Unsupported
	}
	return Found
}

func compareValue(t testing.TB, got *part, literal string) {
	t.Helper()
	if literal[0] != '"' {
		if want := map[bool]kind{true: boolean, false: number}[literal == "true" || literal == "false"]; got.kind != want || string(got.bytes) != literal {
			t.Errorf("got kind %d %q, want kind %d %q", got.kind, got.bytes, want, literal)
		}
		return
	}
	if got.kind != text {
		t.Errorf("%s: got kind %d, want a text", literal, got.kind)
	}
	var decoded []byte
	var char [maxChar]byte
	for piece, rest := nextPiece(got.bytes, &char); len(piece) > 0; piece, rest = nextPiece(rest, &char) {
		decoded = append(decoded, piece...)
	}
	if want := decodeSlowly(literal); !bytes.Equal(decoded, want) {
		t.Errorf("%s: got %q, want %q", literal, decoded, want)
	}
	if got.escaped != bytes.ContainsRune(got.bytes, '\\') {
		t.Errorf("%s: got escaped %v", literal, got.escaped)
	}
	if utf8.Valid(decoded) {
		var want string
		if err := json.Unmarshal([]byte(literal), &want); err != nil || string(decoded) != want {
			t.Errorf("%s: got %q, want %q, %v", literal, decoded, want, err)
		}
	}
	if !equal(got.bytes, string(decoded), &char) || equal(got.bytes, string(decoded)+"x", &char) || equal(got.bytes, string(decoded[:len(decoded)-1]), &char) {
		t.Errorf("%s: equal is wrong about its own decoded text", literal)
	}
}
