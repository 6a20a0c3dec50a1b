package keys

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// canonicalOf is the canonical text of doc, or "missing" or "invalid".
func canonicalOf(t testing.TB, doc string, exclude ...string) string {
	t.Helper()
	c, err := newCanonicalizer(exclude)
	if err != nil {
		t.Fatal(err)
	}
	text, ok := c.canonical([]byte(doc))
	switch {
	case !ok:
		return "invalid"
	case len(text) == 0:
		return "missing"
	}
	return string(text)
}

func TestCanonical(t *testing.T) {
	f := func(doc, want string) {
		t.Helper()
		if got := canonicalOf(t, doc); got != want {
			t.Errorf("%s:\n got %s\nwant %s", doc, got, want)
		}
	}
	// RFC 8785, sections 3.2.2 and 3.2.3.
	f(`{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}`, `{"literals":[null,true,false],"numbers":[333333333.33333329,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`)
	f(`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
		`{"\r":"Carriage Return","1":"One","`+"\u0080"+`":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","😀":"Emoji: Grinning Face",`+"\"\ufb33\""+`:"Hebrew Letter Dalet With Dagesh"}`)
	f(` [ 1 , [ ] , { } , "" ] `, `[1,[],{},""]`)
	f("\x00\x00\x00\x00\x01"+`{"b":1,"a":2}`, `{"a":2,"b":1}`)
	f(`"a"`, `"a"`)
	f(`true`, `true`)
	// Nothing in it.
	f(``, "missing")
	f(` null `, "missing")
	f(`""`, "missing")
	f(`{ }`, "missing")
	f(`[ ]`, "missing")
	// What readers do not read alike.
	f(`{"a":1,"a":1}`, "invalid")
	f(`{"a":1,"\u0061":1}`, "invalid")
	f(`{"a":"\ud800"}`, "invalid")
	f("{\"a\":\"\xff\"}", "invalid")
	f(`{"a":1}x`, "invalid")
	f(`{"a":1`, "invalid")
	f(`  `, "invalid")
	f("\x00\x00\x00\x00\x01", "invalid")
	f(strings.Repeat("[", 10001)+strings.Repeat("]", 10001), "invalid")
	deepest := strings.Repeat("[", 9999) + "1" + strings.Repeat("]", 9999)
	f(deepest, deepest)
}

// Numbers are those of RFC 8785, appendix B, as far as they stay the same number.
func TestCanonicalNumbers(t *testing.T) {
	f := func(literal, want string) {
		t.Helper()
		if got := canonicalOf(t, "["+literal+"]"); got != "["+want+"]" {
			t.Errorf("%s: got %s, want %s", literal, got, want)
		}
	}
	same := func(literal string) { t.Helper(); f(literal, literal) }
	f("0", "0")
	f("-0", "0")
	f("-0.0e5", "0")
	f("1.0", "1")
	f("-1.50", "-1.5")
	f("1e0", "1")
	f("10e-1", "1")
	f("100E+2", "10000")
	f("5e-324", "5e-324")
	f("1.7976931348623157e308", "1.7976931348623157e+308")
	f("9007199254740992", "9007199254740992")
	f("-9007199254740992.0", "-9007199254740992")
	f("295147905179352830000", "295147905179352830000")
	f("999999999999999900000", "999999999999999900000")
	f("1000000000000000000000", "1e+21")
	f("0.000001", "0.000001")
	f("0.0000001", "1e-7")
	f("123456789012345678e3", "123456789012345678e3") // not a float64's shortest form
	f("1234567890123456e3", "1234567890123456000")
	// Another number as a float64: its characters stay.
	same("9007199254740993")
	same("9007199254740993.0")
	same("18446744073709551616")
	same("0.1000000000000000055511151231257827")
	same("1e400")
	same("-1e-400")
	same("1e99999999999999999999")
	same("0.30000000000000000001")
}

func TestCanonicalExcludes(t *testing.T) {
	f := func(doc, want string, exclude ...string) {
		t.Helper()
		if got := canonicalOf(t, doc, exclude...); got != want {
			t.Errorf("%s without %q: got %s, want %s", doc, exclude, got, want)
		}
	}
	doc := `{"c":[1,{"x":1,"y":2.0}],"b":{"x":1,"y":{"x":3}},"a":1}`
	f(doc, `{"b":{"x":1,"y":{"x":3}},"c":[1,{"x":1,"y":2}]}`, "a")
	f(doc, `{"a":1,"c":[1,{"x":1,"y":2}]}`, "b")
	f(doc, `{"a":1,"b":{"x":1,"y":{"x":3}}}`, "c")
	f(doc, `{"a":1,"b":{"y":{"x":3}},"c":[1,{"x":1,"y":2}]}`, "b.x")
	f(doc, `{"a":1,"b":{"x":1,"y":{}},"c":[1,{"x":1,"y":2}]}`, "json:b.y.x")
	f(doc, `{"a":1,"b":{"x":1,"y":{"x":3}},"c":[1,{"y":2}]}`, "/c/1/x")
	f(doc, `{"a":1,"b":{"x":1,"y":{"x":3}},"c":[{"x":1,"y":2}]}`, "/c/0")
	f(doc, `{"b":{"y":{"x":3}}}`, "c", "b.x", "a")
	f(doc, `{"a":1,"c":[1,{"x":1,"y":2}]}`, "b.x", "b", "b.y.x")
	f(doc, `{"a":1,"b":{"x":1,"y":{"x":3}},"c":[1,{"x":1,"y":2}]}`, "nowhere", "a.b", "c.x", "A")
	f(`{"a":1}`, "missing", "a")
	f(`{"é\n":1,"b":2}`, `{"b":2}`, "é\n")
	f(`{"a.b":1,"b":2}`, `{"b":2}`, "/a.b")
	f(`{"a":tru}`, "invalid", "a")

	for _, exclude := range []string{"", "a..b", "/a~2", "$.a"} {
		if _, err := newCanonicalizer([]string{exclude}); err == nil {
			t.Errorf("%q was taken", exclude)
		}
	}
}

// TestDigests: the ID is the digest in hexadecimal, of the value or of its canonical
// text.
// A value that would take long to put in order is not put in order: a record that takes
// longer than a transaction may is one that its partition never gets past.
func TestCanonicalTakesNoLongerThanItMay(t *testing.T) {
	f := func(depth, length int, opening, closing string, want bool) {
		t.Helper()
		doc := strings.Repeat(opening, depth) + `"{` + strings.Repeat("x", length) + `"` + strings.Repeat(closing, depth)
		if got := canonicalOf(t, doc); (got != "invalid") != want {
			t.Errorf("%d times %s around %d bytes: got %.20q, want a canonical text: %v", depth, opening, length, got, want)
		}
	}
	const object = `{"b":0,"a":`
	f(9_000, 10, object, "}", true)
	f(4_000, 1_000_000, object, "}", true)
	f(200, 20_000_000, object, "}", true)
	f(9_000, 1_000_000, object, "}", false)
	f(9_000, 20_000_000, object, "}", false)
	f(9_000, 20_000_000, "[", "]", true) // elements keep their order
	// What does not end is malformed, long or not.
	f(9_000, 1_000_000, object, "", false)
	f(9_000, 1_000_000, object+`"`, "", false)
}

func TestDigests(t *testing.T) {
	f := func(spec, value, hashed string, o Options) {
		t.Helper()
		e := parseWith(t, o, spec)
		sum := sha256.Sum256([]byte(hashed))
		want, err := e.HashText([]byte(hex.EncodeToString(sum[:])))
		if err != nil {
			t.Fatal(err)
		}
		if got, outcome := e.Hash(jsonRecord(value)); got != want || outcome != Found {
			t.Errorf("%s of %s: got %x %v, want %x", spec, value, got, outcome, want)
		}
	}
	f("sha256:value", ` {"b":1}`, ` {"b":1}`, Options{})
	f("sha256:json", ` {"b":1.0,"a":2}`, `{"a":2,"b":1}`, Options{})
	f("sha256:json", ` {"b":1.0,"a":2}`, `{"b":1}`, Options{Exclude: []string{"a"}})
	for _, spec := range []string{"sha256:value", "sha256:json"} {
		for _, r := range []*Record{{}, {Value: []byte{}}} {
			if _, o := mustParse(t, spec).Hash(r); o != Missing {
				t.Errorf("%s of nothing: got %v, want missing", spec, o)
			}
		}
	}
	if _, o := mustParse(t, "sha256:json").Hash(jsonRecord(`{`)); o != Invalid {
		t.Errorf("malformed: got %v, want invalid", o)
	}
	for _, id := range []string{`"ab"`, `12`, `"` + strings.Repeat("g", 64) + `"`} {
		if _, err := mustParse(t, "sha256:json").HashWritten([]byte(id)); err == nil || err.Error() != "the ID of sha256:json is a SHA-256: want 64 hexadecimal digits" {
			t.Errorf("%s as a digest: %v", id, err)
		}
	}
	e := mustParse(t, "sha256:value")
	lower, err1 := e.HashWritten([]byte(`"` + strings.Repeat("ab", 32) + `"`))
	upper, err2 := e.HashText([]byte(strings.Repeat("AB", 32)))
	if lower != upper || err1 != nil || err2 != nil {
		t.Errorf("a digest in capitals: got %x, want %x, %v, %v", upper, lower, err1, err2)
	}
	if _, err := Parse([]string{"value"}, 0, Options{Exclude: []string{"a"}}); err == nil {
		t.Error("members to leave out of a value that is taken whole: no error")
	}
}

// canonicalReference is the canonical text of a valid doc without repeated names
// or strings that are no Unicode, from what encoding/json decodes.
func canonicalReference(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return numberReference(string(v))
	case string:
		return stringReference(v)
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = canonicalReference(v[i])
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	object := v.(map[string]any)
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return slices.CompareFunc(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)), cmp.Compare[uint16])
	})
	for i, name := range names {
		names[i] = stringReference(name) + ":" + canonicalReference(object[name])
	}
	return "{" + strings.Join(names, ",") + "}"
}

// numberReference is the number as ECMAScript writes the float64 next to it, or the
// literal where this is not the same number as a fraction of whole numbers.
func numberReference(literal string) string {
	near, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return literal
	}
	shortest := strconv.FormatFloat(near, 'e', -1, 64)
	exact, _ := new(big.Rat).SetString(literal)
	if rounded, _ := new(big.Rat).SetString(shortest); rounded.Cmp(exact) != 0 {
		return literal
	}
	mantissa, exponent, _ := strings.Cut(shortest, "e")
	n, _ := strconv.Atoi(exponent)
	switch {
	case near == 0:
		return "0"
	case -7 < n && n < 21:
		return strconv.FormatFloat(near, 'f', -1, 64)
	}
	return mantissa + "e" + exponent[:1] + strings.TrimLeft(exponent[1:], "0")
}

func stringReference(s string) string {
	var b strings.Builder
	for _, r := range s {
		if short := strings.IndexRune("\b\t\n\f\r\"\\", r); short >= 0 {
			b.WriteString(`\` + `btnfr"\`[short:short+1])
		} else if r < ' ' {
			b.WriteString(`\u00` + hex.EncodeToString([]byte{byte(r)}))
		} else {
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

// repeatsName reports whether an object of a valid doc has a name twice.
func repeatsName(doc []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	type level struct {
		names map[string]bool // nil in an array
		value bool            // what comes next, in an object
	}
	var levels []level
	for {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		if delim, ok := token.(json.Delim); ok && (delim == ']' || delim == '}') {
			levels = levels[:len(levels)-1]
			continue
		}
		if n := len(levels); n > 0 && levels[n-1].names != nil {
			in := &levels[n-1]
			if !in.value {
				name := token.(string)
				if in.names[name] {
					return true
				}
				in.names[name] = true
			}
			in.value = !in.value
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{names: map[string]bool{}})
		case json.Delim('['):
			levels = append(levels, level{})
		}
	}
}

// longExponent is what numbers of arbitrary size take too long for.
var longExponent = regexp.MustCompile(`[eE][+-]?\d{4}`)

// FuzzCanonical compares canonical texts with those made from what encoding/json
// decodes, and wants them to be their own canonical texts.
func FuzzCanonical(f *testing.F) {
	for _, doc := range []string{
		`{"b":1.0,"a":[true,null,{"z":"\u0000\/","y":-0}]}`, `[1e21,1e-7,123456789012345678901234567890,0.1]`, `{"\ud83d\ude00":1,"\ufb33":2}`, `"\ud800"`, "\"\xff\"", `{"a":1,"a":2}`, `1 2`, ` -12.5e+3 `, `{"a":{"a":{"a":[[[]]]}}}`, `{"":""}`, `"é\b\t\n\f\r\"\\"`, `tru`, `-`, `[9007199254740993,9007199254740992]`,
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if len(doc) == 0 || doc[0] == 0 || len(doc) > 5000 || longExponent.Match(doc) {
			return
		}
		got := canonicalOf(t, string(doc))
		if !json.Valid(doc) || !utf8.Valid(doc) || repeatsName(doc) {
			if got != "invalid" {
				t.Fatalf("%q: got %s, want invalid", doc, got)
			}
			return
		}
		dec := json.NewDecoder(bytes.NewReader(doc))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		want := canonicalReference(v)
		if strings.ContainsRune(want, utf8.RuneError) && got == "invalid" {
			return // a surrogate without its other half, which encoding/json replaces
		}
		switch want {
		case "null", `""`, "{}", "[]":
			want = "missing"
		}
		if got != want {
			t.Fatalf("%q:\n got %s\nwant %s", doc, got, want)
		}
		if want != "missing" && canonicalOf(t, got) != got {
			t.Fatalf("%q: its canonical text %s has the canonical text %s", doc, got, canonicalOf(t, got))
		}
	})
}
