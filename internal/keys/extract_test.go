package keys

import (
	"strings"
	"testing"

	"github.com/streamdedup/streamdedup/filter"
)

// mustParse compiles specs with a fixed seed.
func mustParse(t testing.TB, specs ...string) *Extractor {
	t.Helper()
	e, err := Parse(specs, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func jsonRecord(value string) *Record { return &Record{Value: []byte(value)} }

// tally is what an exact map makes of a stream: the number of IDs, and of records
// of each outcome.
type tally struct{ unique, duplicate, missing, unsupported, invalid int }

func count(e *Extractor, records ...*Record) tally {
	var n tally
	seen := make(map[filter.Hash]bool)
	for _, r := range records {
		switch h, outcome := e.Hash(r); outcome {
		case Missing:
			n.missing++
		case Unsupported:
			n.unsupported++
		case Invalid:
			n.invalid++
		case Found:
			if seen[h] {
				n.duplicate++
			} else {
				n.unique++
			}
			seen[h] = true
		}
	}
	return n
}

func countJSON(e *Extractor, values ...string) tally {
	records := make([]*Record, len(values))
	for i, v := range values {
		records[i] = jsonRecord(v)
	}
	return count(e, records...)
}

func TestParseErrors(t *testing.T) {
	f := func(want string, specs ...string) {
		t.Helper()
		_, err := Parse(specs, 0, Options{})
		if err == nil || err.Error() != want {
			t.Errorf("Parse(%q): got error %v, want %q", specs, err, want)
		}
	}
	const known = "known are key, value, header:NAME, json:NAME (dots descend), json:/POINTER, column:NUMBER, column:NAME, sha256:value and sha256:json"
	f("parse key specs: there is none: " + known)
	f(`parse key spec "xml:id": unknown kind "xml": `+known, "key", "xml:id")
	f(`parse key spec "Key:x": unknown kind "Key": `+known, "Key:x")
	f(`parse key spec "event_id": unknown kind "event_id": `+known+`; a member of a JSON value is json:event_id`, "event_id")
	f(`parse key spec "$.event_id": $. is JSONPath's and no part of a name: write json:event_id, or json:/$/event_id where a member is called "$"`, "$.event_id")
	f(`parse key spec "json:$.order.id": $. is JSONPath's and no part of a name: write json:order.id, or json:/$/order/id where a member is called "$"`, "json:$.order.id")
	f(`parse key spec "": unknown kind "": `+known, "")
	f(`parse key spec "key:x": key takes no name: write key`, "key:x")
	f(`parse key spec "value:": value takes no name: write value`, "value:")
	f(`parse key spec "header:": the name is missing: write header:NAME`, "header:")
	f(`parse key spec "header": the name is missing: write header:NAME`, "header")
	f(`parse key spec "json:": the name is missing: write json:NAME or json:/POINTER`, "json:")
	f(`parse key spec "json:a..b": a name between dots is empty: write the path as a pointer, json:/a/b, where names hold dots or are empty`, "json:a..b")
	f(`parse key spec "json:/a~2": bad escape in "a~2": in a pointer write ~0 for ~ and ~1 for /`, "json:/a~2")
	f(`parse key spec "json:/a/b~": bad escape in "b~": in a pointer write ~0 for ~ and ~1 for /`, "json:/a/b~")
	f(`parse key spec "column:7": column: needs csv or tsv input`, "column:7")
	f(`parse key specs: 65 of them are json, at most 64 can be: use value, or an ID with fewer parts`,
		strings.Split(strings.Repeat(",json:a", 65)[1:], ",")...)
}

func TestString(t *testing.T) {
	f := func(want string, specs ...string) {
		t.Helper()
		if got := mustParse(t, specs...).String(); got != want {
			t.Errorf("%q: got %s, want %s", specs, got, want)
		}
	}
	f(`"key" "value" "header:ce_id"`, "key", "value", "header:ce_id")
	f(`"json:/a/b"`, "json:a.b")
	f(`"json:/a/b"`, "json:/a/b")
	f(`"json:/a~1b~0c/d.e/"`, "json:/a~1b~0c/d.e/")
	f(`"json:/a~1b/c~0"`, "json:a/b.c~")
	f(`"json:a.0"`, "json:a.0") // an object's member only
	f(`"json:/a/0"`, "json:/a/0")
	f(`"json:/a/01"`, "json:a.01") // never an element
	f(`"header:a\" \"b"`, `header:a" "b`)
}

// TestPaths says which places a path names.
func TestPaths(t *testing.T) {
	// want is the literal of the one ID in value, or an outcome.
	f := func(path, value, want string) {
		t.Helper()
		e := mustParse(t, "json:"+path)
		h, outcome := e.Hash(jsonRecord(value))
		if outcome != Found {
			if outcome.String() != want {
				t.Errorf("%s in %s: got %v, want %s", path, value, outcome, want)
			}
			return
		}
		if w, _ := mustParse(t, "json:id").Hash(jsonRecord(`{"id":` + want + `}`)); h != w {
			t.Errorf("%s in %s: got another ID (%x) than %s (%x)", path, value, h, want, w)
		}
	}
	f("a", `{"a":1}`, `1`)
	f("a", ` { "b" : [ ] , "a" : 1 } `, `1`)
	f("a.b", `{"a":{"x":{},"b":"v"}}`, `"v"`)
	f("a.b", `{"a.b":1}`, "missing")
	f("a.b", `{"a":{"x":1},"a":{"b":1}}`, "missing") // the first a counts
	f("a.b", `{"a":1,"b":2}`, "missing")
	f("a.0", `{"a":{"0":"v"}}`, `"v"`)
	f("a.0", `{"a":["v"]}`, "missing") // dots descend objects
	f("/a/0", `{"a":{"0":"v"}}`, `"v"`)
	f("/a/0", `{"a":["v"]}`, `"v"`)
	f("/a/2", `{"a":[{"x":[1]},[2],3.5,4]}`, `3.5`)
	f("/a/2", `{"a":[1,2]}`, "missing")
	f("/a/0", `{"a":[]}`, "missing")
	f("/a/01", `{"a":[1,2]}`, "missing") // no leading zeros in RFC 6901
	f("/a/-", `{"a":[1,2]}`, "missing")
	f("/a/-1", `{"a":[1,2]}`, "missing")
	f("/0/id", `[{"id":"x"}]`, `"x"`)
	f("/a~1b", `{"a/b":1}`, `1`)
	f("/m~0n", `{"m~n":1}`, `1`)
	f("/~01", `{"~1":1}`, `1`)
	f("/", `{"":1}`, `1`)
	f("//x", `{"":{"x":true}}`, `true`)
	f("/a.b", `{"a.b":1}`, `1`)
	f("a", `{"\u0061":1}`, `1`)
	f("é", `{"\u00e9":1}`, `1`)
	f("é", `{"\u00e8":1,"é":2}`, `2`)
	f("ab", `{"a\u0062c":1,"\u0061":2,"a\u0062":3}`, `3`)
	f("😀", `{"\ud83d\ude00":1}`, `1`)
	f("a", `{"a":null}`, "missing")
	f("a", `{"a":""}`, "missing")
	f("a", `{"a":{}}`, "unsupported")
	f("a", `{"a":[1]}`, "unsupported")
	f("a", `[{"a":1}]`, "missing")
	f("a", `"a"`, "missing")
	f("a", `null`, "missing")
	f("a", ` 12 `, "missing")
}

// TestMalformed says where the scan ends and what it accepts before.
func TestMalformed(t *testing.T) {
	f := func(value string, want Outcome) {
		t.Helper()
		if _, got := mustParse(t, "json:id").Hash(jsonRecord(value)); got != want {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
	// What follows the ID is not looked at.
	f(`{"id":"a"`, Found)
	f(`{"id":"a"x`, Found)
	f(`{"id":1,`, Found)
	f(`{"id":true }]`, Found)
	f(`{"id":null,!`, Missing)
	f(`{"id":[!`, Unsupported)
	f(`{"id":1}{"id":2}`, Found)
	// The place of the ID itself must be whole.
	f(`{"id":"a`, Invalid)
	f(`{"id":`, Invalid)
	f(`{"id"`, Invalid)
	f(`{"id":12`, Invalid) // cut off, maybe inside the digits
	f(`{"id":true`, Invalid)
	f(`{"id":12x}`, Invalid)
	f(`{"id":nullx}`, Invalid)
	f(`{"id" 1}`, Invalid)
	// An ID is absent only from a whole, well-formed text.
	f(`{"x":1}`, Missing)
	f("\t{\"x\":1}\r\n", Missing)
	f(`{"x":1`, Invalid)
	f(`{"x":1} x`, Invalid)
	f(`{"x":1}{"id":2}`, Invalid)
	f(`{"x":1,}`, Invalid)
	f(`[1,2`, Invalid)
	f(`[1,]`, Invalid)
	f(`[1 2]`, Invalid)
	f(`not json`, Invalid)
	f(` `, Invalid)
	f("\xef\xbb\xbf"+`{"id":1}`, Invalid) // a byte order mark
	for _, bad := range []string{
		`01`, `-`, `+1`, `.5`, `1.`, `1e`, `1e+`, `0x1`, `NaN`, `nul`, `True`, `'a'`, `"a`, `"\x"`, `"\u12g4"`, `"\u123"`, `"\`,
		"\"a\nb\"", "\"\x00\"", "\"1234567\x1f\"", `[}`, `{]`, `[1}`, `{"a":1]`, `{a:1}`, `{"a"}`, `{"a":}`, `{,}`, `[,]`, `{"a":1 "b":2}`, `[[[`,
		`[1,2}`, `{"a":{"b":[}}`, `[{"a":1,]`,
	} {
		f(`{"x":`+bad+`,"id":1}`, Invalid)
		f(`{"x":[`+bad+`],"id":1}`, Invalid)
	}
	f(`{"x":,"id":1}`, Invalid)
	for _, good := range []string{
		`0`, `-0`, `-1.5E+10`, `1e5`, `0.0e-0`, `true`, `false`, `null`, `""`, `"\"\\\/\b\f\n\r\t\uD83D"`, "\"\x7f\xff\"", `[]`, `{}`, ` [ ] `, `[[],{}]`,
		`{"":{"":[1,{"a":[]}]}}`,
	} {
		f(`{"x":`+good+`,"id":1}`, Found)
		f(`{"x":[`+good+`],"id":1}`, Found)
	}
}

// TestStringIdentity says which strings are the same ID.
func TestStringIdentity(t *testing.T) {
	e := mustParse(t, "json:id")
	hash := func(literal string) filter.Hash {
		t.Helper()
		h, outcome := e.Hash(jsonRecord(`{"id":` + literal + `}`))
		if outcome != Found {
			t.Fatalf("%q: got %v, want found", literal, outcome)
		}
		return h
	}
	classes := [][]string{
		{`"abc"`, `"\u0061bc"`, `"\u0061\u0062\u0063"`},
		{`"a/b"`, `"a\/b"`, `"a\u002fb"`, `"a\u002Fb"`},
		{`"\n"`, `"\u000a"`, `"\u000A"`},
		{`"\\n"`},
		{`"\u0000"`},
		{`"\u0000\u0000"`},
		{`"😀"`, `"\ud83d\ude00"`, `"\uD83D\uDE00"`},
		{`"\ud83d"`, "\"\xed\xa0\xbd\""}, // lone surrogates differ
		{`"\ud83e"`},
		{`"\ude00"`},
		{`"\ud83d\u0041"`, "\"\xed\xa0\xbdA\""},
		{`"\ud83d\uffff"`, "\"\xed\xa0\xbd\uffff\""},
		{`"\ud83d\ud83d\ude00"`},
		{`"\ude00\ud83d"`},
		{`"\ufffd"`, `"` + "\uFFFD" + `"`}, // and from the replacement character
		{"\"\xff\""}, {"\"\xfe\""}, {"\"\xc3\""}, {"\"\xff\xff\""},
		{`"cafe\u0301"`, "\"cafe\u0301\""}, // nothing is normalised
		{`"caf\u00e9"`, `"café"`},
		{`" "`}, {`"  "`}, {`"a"`}, {`"a "`}, {`"A"`},
	}
	owner := make(map[filter.Hash]int)
	for i, class := range classes {
		for _, literal := range class {
			h := hash(literal)
			if j, ok := owner[h]; ok && j != i {
				t.Errorf("%s has the ID of %s", literal, classes[j][0])
			}
			if h != hash(class[0]) {
				t.Errorf("%s has another ID than %s", literal, class[0])
			}
			owner[h] = i
		}
	}
}

// TestComposite says how parts that fail differently make one outcome.
func TestComposite(t *testing.T) {
	e := mustParse(t, "json:a", "json:b.c", "json:b", "json:a")
	f := func(value string, want Outcome) {
		t.Helper()
		if _, got := e.Hash(jsonRecord(value)); got != want {
			t.Errorf("%s: got %v, want %v", value, got, want)
		}
	}
	f(`{"a":1,"b":{"c":2}}`, Unsupported) // b is an object
	f(`{"a":1,"b":2}`, Missing)
	f(`{"a":null,"b":{"c":2}}`, Unsupported)
	f(`{"a":null,"b":{`, Invalid)
	f(`{"b":[],"a":1}`, Unsupported)

	pair := mustParse(t, "json:x.b", "json:x.a")
	h1, o1 := pair.Hash(jsonRecord(`{"x":{"a":1,"b":2}}`))
	h2, o2 := pair.Hash(jsonRecord(`{"x":{"b":2,"a":1}} not looked at`))
	if o1 != Found || o2 != Found || h1 != h2 {
		t.Errorf("order of members: got %x %v and %x %v, want one ID", h1, o1, h2, o2)
	}
	if h, _ := pair.Hash(jsonRecord(`{"x":{"a":2,"b":1}}`)); h == h1 {
		t.Error("order of parts: swapped values have one ID")
	}
	mixed := mustParse(t, "header:h", "key", "json:a")
	r := &Record{Key: []byte("k"), Headers: []Header{{"h", []byte("v")}}, Value: []byte(`{"a":1}`)}
	if _, o := mixed.Hash(r); o != Found {
		t.Errorf("header, key and member: got %v, want found", o)
	}
	r.Key = nil
	if _, o := mixed.Hash(r); o != Missing {
		t.Errorf("null key: got %v, want missing", o)
	}
	r.Value = []byte("x")
	if _, o := mixed.Hash(r); o != Invalid {
		t.Errorf("null key, malformed value: got %v, want invalid", o)
	}
}

// TestManyPaths fills the word that holds the set of paths.
func TestManyPaths(t *testing.T) {
	var specs, members []string
	for i := range maxPaths {
		name := "m" + strings.Repeat("x", i)
		specs = append(specs, "json:"+name)
		members = append(members, `"`+name+`":1`)
	}
	e := mustParse(t, specs...)
	if _, o := e.Hash(jsonRecord(`{` + strings.Join(members, ",") + `,!`)); o != Found {
		t.Errorf("all members: got %v, want found", o)
	}
	if _, o := e.Hash(jsonRecord(`{` + strings.Join(members[:maxPaths-1], ",") + `}`)); o != Missing {
		t.Errorf("one member fewer: got %v, want missing", o)
	}
}

func TestRegistryPrefix(t *testing.T) {
	e := mustParse(t, "json:id")
	want, _ := e.Hash(jsonRecord(`{"id":1}`))
	for _, prefix := range []string{"\x00\x00\x00\x00\x07", "\x00\x00\x00\x00\x00", "\x00{\"}\\"} {
		if h, o := e.Hash(jsonRecord(prefix + `{"id":1}`)); h != want || o != Found {
			t.Errorf("prefix %q: got %x %v, want %x found", prefix, h, o, want)
		}
	}
	for _, value := range []string{"\x00", "\x00\x00\x00\x00", "\x00\x00\x00\x00\x00", "\x01\x00\x00\x00\x00{\"id\":1}", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00{\"id\":1}"} {
		if _, o := e.Hash(jsonRecord(value)); o != Invalid {
			t.Errorf("%q: got %v, want invalid", value, o)
		}
	}
}

// TestDeepAndLong looks for an ID behind values of any shape.
func TestDeepAndLong(t *testing.T) {
	e := mustParse(t, "json:id")
	want, _ := e.Hash(jsonRecord(`{"id":"x"}`))
	f := func(name, value string) {
		t.Helper()
		if h, o := e.Hash(jsonRecord(value)); h != want || o != Found {
			t.Errorf("%s: got %x %v, want %x found", name, h, o, want)
		}
	}
	for _, depth := range []int{1, 62, 63, 64, 65, 127, 128, 129, 192, 5000, 1 << 17} {
		f("deep", string(deep(depth)))
		objects := strings.Repeat(`{"a":`, depth) + `1` + strings.Repeat(`}`, depth)
		arrays := strings.Repeat(`[`, depth) + strings.Repeat(`]`, depth)
		f("objects", `{"a":`+objects+`,"id":"x"}`)
		f("arrays", `{"a":`+arrays+`,"id":"x"}`)
		f("both", `{"a":[`+objects+`,`+arrays+`,`+objects+`],"id":"x"}`)
		// One bracket of the wrong kind, at each end.
		for _, bad := range []string{
			`{"a":` + objects[:len(objects)-1] + `],"id":"x"}`,
			`{"a":` + strings.Replace(arrays, "]", "}", 1) + `,"id":"x"}`,
			`{"a":` + arrays[:len(arrays)-1] + `},"id":"x"}`,
		} {
			if _, o := e.Hash(jsonRecord(bad)); o != Invalid {
				t.Errorf("depth %d, wrong bracket: got %v, want invalid", depth, o)
			}
		}
	}
	f("members", `{`+strings.Repeat(`"n":{"id":1},`, 5000)+`"id":"x"}`)
	for n := range 40 {
		pad := strings.Repeat("p", n)
		f("string", `{"`+pad+`":"`+pad+`\"`+pad+`","id":"x"}`)
	}
	f("long", `{"a":"`+strings.Repeat("é", 1<<20)+`","id":"x"}`)

	path := strings.Repeat("/a", 5000)
	if _, o := mustParse(t, "json:"+path).Hash(jsonRecord(strings.Repeat(`{"a":`, 5000) + `1}`)); o != Found {
		t.Errorf("path of 5000 names: got %v, want found", o)
	}
}

func TestRepeatedHeadersCountsRecords(t *testing.T) {
	e := mustParse(t, "header:h", "header:g")
	for _, headers := range [][]Header{
		{{"h", []byte("1")}, {"h", []byte("2")}, {"h", []byte("3")}, {"g", []byte("1")}, {"g", []byte("1")}},
		{{"h", []byte("1")}, {"g", []byte("1")}, {"other", nil}, {"other", nil}},
	} {
		e.Hash(&Record{Headers: headers})
	}
	if n := e.RepeatedHeaders(); n != 1 {
		t.Errorf("got %d, want 1: one record has repeats that matter", n)
	}
}

func TestNeedsHeaders(t *testing.T) {
	if mustParse(t, "key", "value", "json:header").NeedsHeaders() {
		t.Error("no header spec: got true")
	}
	if !mustParse(t, "key", "header:h").NeedsHeaders() {
		t.Error("header spec: got false")
	}
}

// TestAllocations holds the hot path to none.
func TestAllocations(t *testing.T) {
	headers := []Header{{"h", []byte("a")}, {"h", []byte("b")}}
	record := Record{Key: []byte("k"), Headers: headers, Time: 1767225600000, Value: []byte(
		`{"\u0061":[{"b":1}],"id":"x\ty\ud83d\ude00` + strings.Repeat("z", 5000) + `","ts":"2026-01-01T00:00:00.5\u002b01:00","s":"1767225600.5"}`)}
	e := mustParse(t, "key", "value", "header:h", "json:id", "json:/a/0/b")
	f := func(name string, run func()) {
		t.Helper()
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, n)
		}
	}
	f("Hash", func() {
		if _, o := e.Hash(&record); o != Found {
			t.Fatalf("got %v, want found", o)
		}
	})
	for _, spec := range []string{"record", "json:ts", "json:s"} {
		c, err := ParseClock(spec, "auto", Table{})
		if err != nil {
			t.Fatal(err)
		}
		f("Time of "+spec, func() {
			if _, ok := c.Time(&record, 0); !ok {
				t.Fatal("got no time")
			}
		})
	}
}
