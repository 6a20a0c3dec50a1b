package keys

import (
	"fmt"
	"strings"
	"testing"
)

// TestShapes has each text read by a scanner that knows the shape of each other: it
// finds what a new one finds.
func TestShapes(t *testing.T) {
	texts := texts()
	for _, s := range []string{
		// Values of all kinds in one place, and what only looks like one.
		`{"x":1,"id":"a"}`, `{"x":"","id":"b"}`, `{"x":null,"id":7}`, `{"x":-1.5e3,"id":0}`, `{"x":[1,[]],"id":-1}`, `{"x":{},"id":"c"}`, `{"x":tru,"id":"a"}`, `{"x":12345678,"id":true}`,
		`{"x":123456789x,"id":1}`, `{"x":01,"id":1}`, `{"x":,"id":1}`, `{"x":"a\"b","id":"\u0061"}`, `{"x":"\x","id":1}`, "{\"x\":\"12345678\x01\",\"id\":1}", `{"x":1"id":1}`, `{"x":1;"id":1}`,
		`{"x":1,"id":}`, `{"x":1,"id":"a`, `{"x":1,"id":12`, `{"x":1,"id":null`, `{"x":1,"id":{}}`, `{"x":1,"id":[]}`, `{"x":1,"id":""}`, `{"x":1,"ID":"a"}`, `{"x":1,"id" :"a"}`,
		// A path leads into what has been a scalar, another path's value, or empty.
		`{"a":1}`, `{"a":"x"}`, `{"a":[]}`, `{"a":["x"]}`, `{"a":["x","y"]}`, `{"a":["x",{"b":1}]}`, `{"a":[{"b":3},{"b":"1"}]}`, `{"a":[[],{"b":1},0]}`, `{"a":{"b":1}}`, `{"a":{"b":[1]}}`, `{"a":{"b":1},"a":2}`,
		`[]`, `[{"id":1}]`, `[1,{"id":1}]`, `[[{"id":1}]]`, `[{"id":[{"id":2}]}]`, `{"id":[{"id":2}]}`, `{"id":[]}`, `{"id":{"id":3}}`, `{"id":{"id":""}}`,
		// The end of the text.
		`{"x":1}`, `{"x":1} `, `{"x":1}}`, `{"x":1`, `{"x":1}0`, `{"x":"a"}`, `{"x":"a`, `{"x":12345678}`, `{"x":12345678`, `1`, `12345678`, `123456789012345`, `"a"`, `"a" x`, `12345678,`, ` `,
		// Literals longer than a word, two, and the first that are compared.
		`{"12345":1,"id":2}`, `{"1234567890123456":1,"id":2}`, `{"1234567890123457":1,"id":2}`, `{"123456789012345678":1,"id":"` + uuid + `"}`, `{"123456789012345679":1,"id":"` + uuid + `"}`,
		clicks["first"], clicks["last"],
	} {
		texts = append(texts, []byte(s))
	}
	for p, path := range newComparison(t).paths {
		for _, met := range texts {
			for _, text := range texts {
				fresh, s := newScanner([][]segment{path}), newScanner([][]segment{path})
				want, ok := fresh.found, fresh.scan(text)
				s.scan(met)
				if got := s.scan(text); got != ok {
					t.Errorf("%s in %q after %q: got well-formed %v, want %v", jsonPaths[p], text, met, got, ok)
				} else if ok && !samePart(&s.found[0], &want[0]) {
					t.Errorf("%s in %q after %q: got %+v, want %+v", jsonPaths[p], text, met, s.found[0], want[0])
				}
			}
		}
	}
}

func samePart(a, b *part) bool {
	return a.kind == b.kind && (a.kind < raw || a.escaped == b.escaped && string(a.bytes) == string(b.bytes))
}

// TestShapesAreMet says which texts need no walk after which.
func TestShapesAreMet(t *testing.T) {
	f := func(spec, met, text string, want bool) {
		t.Helper()
		s := mustParse(t, "json:"+spec).json
		s.scan([]byte(met))
		s.scan([]byte(text))
		if got := s.shapes.hits == 1; got != want {
			t.Errorf("%s in %s after %s: got met %v, want %v", spec, text, met, got, want)
		}
	}
	f("id", `{"x":1,"id":"a"}`, `{"x":[1,{}],"id":7}`, true)
	f("id", `{"x":1,"id":"a"}`, `{"x":1,"id":"a"`, true) // what follows is not looked at
	f("id", `{"x":1,"id":"a"}`, `{"x":{},"id":"a"}`, false)
	f("id", `{"x":1,"id":"a"}`, `{"x":1,"id":[]}`, false)
	f("id", `{"x":1,"id":[]}`, `{"x":1,"id":[]}`, false)
	f("id", `{"x":1,"id":"a":`, `{"x":2,"id":"b"}`, true)
	f("id", `{"x":1,"y":null}`, `{"x":1,"y":"abc"} `, true)
	f("id", `{"x":1,"id"}`, `{"x":1,"id"}`, false)
	f("/a/0", `{"a":["x",1]}`, `{"a":["y"]}`, true)
	f("/a/0", `{"a":[]}`, `{"a":["y"]}`, false)
	f("/a/0", `{"a":1}`, `{"a":["y"]}`, false)
	f("/a/0", `{"a":1}`, `{"a":2}`, true)
}

// TestShapesRest holds a scanner of texts that are all different to little more
// than the walk, and one of few shapes to hardly any walk, whatever came before.
func TestShapesRest(t *testing.T) {
	s := mustParse(t, "json:id").json
	different := func(i int) []byte { return fmt.Appendf(nil, `{"%d":1,"id":"a"}`, i) }
	for i := range mostMisses + longRest - 1 {
		s.scan(different(i))
	}
	if s.shapes.first != nil || s.shapes.rest != 1 || s.shapes.hits != 0 {
		t.Fatalf("after %d different texts: got %d of them met, and a rest of %d", mostMisses+longRest-1, s.shapes.hits, s.shapes.rest)
	}
	s.scan(different(0)) // the last of the rest
	for i := range 100 * mostMisses {
		if i%20 == 0 {
			s.scan(different(i))
		} else if s.scan([]byte(`{"x":1,"id":"a"}`)); s.shapes.rest > 0 {
			t.Fatalf("text %d: got a rest where one of twenty texts is different", i)
		}
	}
	hits := s.shapes.hits
	if s.scan([]byte(`{"x":2,"id":"a"}`)); s.shapes.hits != hits+1 {
		t.Error("got a walk of a text with a shape that was met")
	}
}

// TestShapesForget overfills what a scanner can remember, at once and by and by.
func TestShapesForget(t *testing.T) {
	const text = `{"x":1,"id":"a"}`
	for name, large := range map[string]string{
		"values":  `{` + strings.Repeat(`"x":1,`, mostNodes) + `"id":"a"}`,
		"literal": `{"` + strings.Repeat("x", mostLiterals) + `":1,"id":"a"}`,
	} {
		s := mustParse(t, "json:id").json
		s.scan([]byte(text))
		for range 2 {
			if !s.scan([]byte(large)) || string(s.found[0].bytes) != "a" {
				t.Errorf("too large in %s: got %v %q", name, s.found[0].kind, s.found[0].bytes)
			}
			if s.shapes.first != nil || s.shapes.hits != 0 {
				t.Errorf("too large in %s: it is remembered", name)
			}
		}
	}
	s := mustParse(t, "json:id").json
	for i := range mostMisses / 2 {
		text := fmt.Appendf(nil, `{"%d":1,"y":1,"z":1,"t":1,"id":"a"}`, i)
		for range 3 {
			s.scan(text)
		}
		if s.shapes.hits < 2*i || cap(s.shapes.literals) != mostLiterals {
			t.Fatalf("text %d: got %d of them met, and room for %d bytes of literals", i, s.shapes.hits, cap(s.shapes.literals))
		}
	}
}
