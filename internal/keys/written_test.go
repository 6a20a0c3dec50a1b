package keys

import (
	"fmt"
	"testing"
)

// A written ID has the hash of the record that it is the ID of.
func TestHashWritten(t *testing.T) {
	record := &Record{
		Key:     []byte("k\nÜ"),
		Headers: []Header{{"h", []byte("12")}},
		Value:   []byte(`{"s":"a\u0062\"","n":1.0,"b":true,"o":{"x":-0}}`),
	}
	f := func(written string, specs ...string) {
		t.Helper()
		e := mustParse(t, specs...)
		want, outcome := e.Hash(record)
		if outcome != Found {
			t.Fatalf("%q: the record's ID is %v", specs, outcome)
		}
		if got, err := e.HashWritten([]byte(written)); err != nil || got != want {
			t.Errorf("%q: %s is %016x, %v; want %016x", specs, written, uint64(got), err, uint64(want))
		}
	}
	f(`"k\nÜ"`, "key")
	f(`"k\u000a\u00dc"`, "key")
	f(`["k\u000a\u00dc"]`, "key")
	f(`"12"`, "header:h")
	f(`12`, "header:h")
	f(`"ab\""`, "json:s")
	f(`"ab\u0022"`, "json:s")
	f(` 1.0 `, "json:n")
	f(`true`, "json:b")
	f(`[ "ab\"" , 1.0,true , -0 ]`, "json:s", "json:n", "json:b", "json:o.x")
	f(`["k\nÜ","12",1.0]`, "key", "header:h", "json:n")
}

func TestHashWrittenTellsTypesApart(t *testing.T) {
	e := mustParse(t, "json:id")
	seen := map[string]string{}
	for _, id := range []string{`1`, `"1"`, `1.0`, `true`, `"true"`} {
		h, err := e.HashWritten([]byte(id))
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[fmt.Sprint(h)]; ok {
			t.Errorf("%s and %s have one hash", id, other)
		}
		seen[fmt.Sprint(h)] = id
	}
	text, err := e.HashText([]byte("1"))
	if err != nil || seen[fmt.Sprint(text)] != `"1"` {
		t.Errorf("the text 1 is %v, %v; want that of a string", text, err)
	}
}

func TestHashWrittenRefuses(t *testing.T) {
	f := func(written, want string, specs ...string) {
		t.Helper()
		_, err := mustParse(t, specs...).HashWritten([]byte(written))
		if err == nil || err.Error() != want {
			t.Errorf("%q: %s: %v, want %s", specs, written, err, want)
		}
	}
	f(``, "want a string in quotes, a number, true or false", "key")
	f(`abc`, "want a string in quotes, a number, true or false", "key")
	f(`12a`, "want a string in quotes, a number, true or false", "key")
	f(`""`, "an empty ID is none", "key")
	f(`null`, "null is no ID", "key")
	f(`"a`, "a string does not end, or holds what must be escaped", "key")
	f(`"a" 1`, "something follows its end", "key")
	f(`{"a":1}`, "a part of an ID is no array or object", "key")
	f(`[[1]]`, "a part of an ID is no array or object", "key")
	f(`["a","b"]`, "want an array of one part", "key")
	f(`"a"`, "an ID of 2 parts is an array of 2", "key", "value")
	f(`["a"]`, "want an array of 2 parts, it ends after 1", "key", "value")
	f(`["a","b","c"]`, "want an array of 2 parts", "key", "value")
	f(`["a","b"`, "want an array of 2 parts", "key", "value")
	f(`["a",null]`, "null is no ID", "key", "value")
	if _, err := mustParse(t, "key").HashText(nil); err == nil {
		t.Error("an empty text has a hash")
	}
	if _, err := mustParse(t, "key", "value").HashText([]byte("a")); err == nil {
		t.Error("a text is an ID of two parts")
	}
}

func TestIsLiteral(t *testing.T) {
	for text, want := range map[string]bool{
		`1`: true, `-1.5e3`: true, `"a"`: true, `["a",1]`: true, `true`: true, `false`: true,
		`abc`: false, `12ab`: false, `null`: false, ``: false, `truer`: false, `{"a":1}`: false, `0x1`: false, `01`: false,
	} {
		if got := IsLiteral([]byte(text)); got != want {
			t.Errorf("IsLiteral(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestKeyText(t *testing.T) {
	f := func(written, want string, specs ...string) {
		t.Helper()
		if got := mustParse(t, specs...).KeyText([]byte(written)); string(got) != want {
			t.Errorf("%q: %s: %q, want %q", specs, written, got, want)
		}
	}
	f(`"abc"`, "abc", "key")
	f(`["a\u0062c"]`, "abc", "key")
	f(`12`, "12", "key")
	f(`"abc"`, "", "json:id")
	f(`["a","b"]`, "", "key", "value")
}
