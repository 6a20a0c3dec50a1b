package keys

import (
	"fmt"
	"strings"
	"testing"
)

const (
	uuidPlain = "5c3f1f0e8a514a549c9b3f5a0c5d0001"
	nilUUID   = "00000000-0000-0000-0000-000000000000"
)

// All spellings of a UUID are one ID, of whatever type; what is nearly one is not.
func TestUUID(t *testing.T) {
	o := Options{UUID: true}
	key, field := parseWith(t, o, "key"), parseWith(t, o, "json:id")
	wantKey, _ := mustParse(t, "key").Hash(&Record{Key: []byte(uuidPlain)})
	wantField, _ := mustParse(t, "json:id").Hash(jsonRecord(`{"id":"` + uuidPlain + `"}`))
	same := func(id string) {
		t.Helper()
		if got, o := key.Hash(&Record{Key: []byte(id)}); got != wantKey || o != Found {
			t.Errorf("key %q: got %x %v, want that of its digits, %x", id, got, o, wantKey)
		}
		if got, o := field.Hash(jsonRecord(`{"id":"` + id + `"}`)); got != wantField || o != Found {
			t.Errorf("json %q: got %x %v, want that of its digits, %x", id, got, o, wantField)
		}
		if got, err := field.HashText([]byte(id)); got != wantField || err != nil {
			t.Errorf("written %q: got %x %v, want %x", id, got, err, wantField)
		}
	}
	for _, id := range []string{uuidPlain, uuid} {
		for _, id := range []string{id, "{" + id + "}", "urn:uuid:" + id, "urn:uuid:{" + id + "}", "URN:Uuid:" + id} {
			same(id)
			same(strings.ToUpper(id))
		}
	}
	same("5C3f1f0e-8a51-4A54-9c9b-3f5a0c5d0001")
	escaped := `{"id":"\u007b` + strings.ReplaceAll(uuid, "c", `\u0063`) + `}"}`
	if got, _ := field.Hash(jsonRecord(escaped)); got != wantField {
		t.Errorf("%s: got %x, want %x", escaped, got, wantField)
	}
	quoted, _ := parseWith(t, Options{UUID: true, Table: csvTable}, "column:1").Hash(&Record{Value: []byte(`"` + strings.ToUpper(uuid) + `",x`)})
	if quoted != wantKey {
		t.Errorf("in a column: got %x, want %x", quoted, wantKey)
	}

	plain := mustParse(t, "key")
	for _, id := range []string{
		uuid[:35], uuid + "0", uuid[:35] + "g", uuidPlain + "0", "5c3f1f0e8-a51-4a54-9c9b-3f5a0c5d0001", "5c3f1f0e-8a514a54-9c9b-3f5a0c5d-0001",
		"5c3f1f0e_8a51_4a54_9c9b_3f5a0c5d0001", "{" + uuid, uuid + "}", "{}", "(" + uuid + ")", " " + uuid, "urn:uuid:", "uuid:" + uuid,
		"{urn:uuid:" + uuid + "}", "{{" + uuidPlain[2:] + "}}", "-----" + uuidPlain[1:], "ABC", "a-b", "\xff", strings.Repeat("-", 36), strings.Repeat("5", 36),
	} {
		got, _ := key.Hash(&Record{Key: []byte(id)})
		if want, _ := plain.Hash(&Record{Key: []byte(id)}); got != want {
			t.Errorf("%q is no UUID and was folded", id)
		}
	}
	// A number of 32 digits is a number.
	digits := strings.Repeat("1", 32)
	number, _ := field.Hash(jsonRecord(`{"id":` + digits + `}`))
	if want, _ := mustParse(t, "json:id").Hash(jsonRecord(`{"id":` + digits + `}`)); number != want {
		t.Errorf("a number was folded")
	}
	if long, _ := field.Hash(jsonRecord(`{"id":"` + strings.Repeat(`\u0061`, 100) + `"}`)); long == wantField {
		t.Errorf("a long text was folded")
	}
}

// FuzzUUID: no two IDs become one that were not spellings of one UUID.
func FuzzUUID(f *testing.F) {
	f.Add(uuid, uuidPlain)
	f.Add("{"+uuid+"}", "URN:UUID:"+uuid)
	f.Add(uuid, uuid[:35]+"2")
	f.Add("abc", "ABC")
	digits := func(s string) (string, bool) {
		s = strings.ToLower(s)
		s = strings.TrimPrefix(s, "urn:uuid:")
		if strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") {
			s = s[1 : len(s)-1]
		}
		if parts := strings.Split(s, "-"); len(parts) == 5 && fmt.Sprint(len(parts[0]), len(parts[1]), len(parts[2]), len(parts[3])) == "8 4 4 4" {
			s = strings.Join(parts, "")
		}
		return s, len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" {
			return
		}
		e := parseWith(t, Options{UUID: true}, "key")
		x, _ := e.Hash(&Record{Key: []byte(a)})
		y, _ := e.Hash(&Record{Key: []byte(b)})
		digitsA, okA := digits(a)
		digitsB, okB := digits(b)
		want := a == b || okA && okB && digitsA == digitsB
		if (x == y) != want {
			t.Errorf("%q and %q: one ID: %v, want %v", a, b, x == y, want)
		}
	})
}

// IDs to ignore are compared with the characters of a number, the decoded text of
// a string, and the bytes of all else.
func TestIgnore(t *testing.T) {
	o := Options{Ignore: []string{"-1", "unknown", "\"q\"", "0", strings.Repeat("long", 10)}}
	f := func(spec string, r Record, want Outcome) {
		t.Helper()
		o := o
		o.Table.Kind = CSV
		if _, got := parseWith(t, o, spec).Hash(&r); got != want {
			t.Errorf("%s of %q: got %v, want %v", spec, r.Value, got, want)
		}
	}
	value := func(s string) Record { return Record{Value: []byte(s)} }
	f("json:id", value(`{"id":-1}`), Missing)
	f("json:id", value(`{"id":"-1"}`), Missing)
	f("json:id", value(`{"id":-1.0}`), Found)
	f("json:id", value(`{"id":-11}`), Found)
	f("json:id", value(`{"id":0}`), Missing)
	f("json:id", value(`{"id":-0}`), Found)
	f("json:id", value(`{"id":"unknown"}`), Missing)
	f("json:id", value(`{"id":"\u0075n\u006bnown"}`), Missing)
	f("json:id", value(`{"id":"\u0075n\u006bnown\u0020"}`), Found)
	f("json:id", value(`{"id":"\u0075nknow"}`), Found)
	f("json:id", value(`{"id":"Unknown"}`), Found)
	f("json:id", value(`{"id":"unknown "}`), Found)
	f("json:id", value(`{"id":"\"q\""}`), Missing)
	f("json:id", value(`{"id":"`+strings.Repeat("long", 10)+`"}`), Missing)
	f("json:id", value(`{"id":[-1]}`), Unsupported)
	f("json:id", value(`{"id":true}`), Found)
	f("value", value(`-1`), Missing)
	f("value", value(`{"id":-1}`), Found)
	f("key", Record{Key: []byte("unknown")}, Missing)
	f("header:h", Record{Headers: []Header{{"h", []byte("0")}}}, Missing)
	f("column:2", value(`a,-1`), Missing)
	f("column:2", value(`a,"-1"`), Missing)
	f("column:2", value(`a,"""q"""`), Missing)
	f("column:2", value(`a,"""qq"""`), Found)

	// One part to ignore is one part missing.
	if _, got := parseWith(t, o, "json:a", "json:b").Hash(jsonRecord(`{"a":1,"b":-1}`)); got != Missing {
		t.Errorf("one part of two: got %v, want missing", got)
	}
	// With UUIDs folded, one to ignore is meant in all its spellings.
	folded := parseWith(t, Options{UUID: true, Ignore: []string{"{" + nilUUID + "}", "ABC"}}, "key")
	for id, want := range map[string]Outcome{
		nilUUID: Missing, strings.ReplaceAll(nilUUID, "-", ""): Missing, "urn:uuid:" + nilUUID: Missing, "ABC": Missing, "abc": Found, uuid: Found,
	} {
		if _, got := folded.Hash(&Record{Key: []byte(id)}); got != want {
			t.Errorf("%s: got %v, want %v", id, got, want)
		}
	}
	if _, err := Parse([]string{"key"}, 0, Options{Ignore: []string{""}}); err == nil {
		t.Error("an empty ID to ignore: no error")
	}
}

func TestIgnoredIsNoWrittenID(t *testing.T) {
	e := parseWith(t, Options{Ignore: []string{"-1", "none"}}, "json:id")
	for _, id := range []string{`-1`, `"-1"`, `"none"`, `"n\u006fne"`, `["none"]`} {
		if _, err := e.HashWritten([]byte(id)); err == nil || err.Error() != "it is one of the IDs to ignore, and means that there is none" {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := e.HashText([]byte("none")); err == nil {
		t.Error("the text none: no error")
	}
	if _, err := e.HashWritten([]byte(`true`)); err != nil {
		t.Error(err)
	}
}

// Options are part of what an ID is, but for those that mean none; without any, the
// text is what it was.
func TestStringHasOptions(t *testing.T) {
	f := func(want string, o Options, specs ...string) {
		t.Helper()
		if got := parseWith(t, o, specs...).String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	f(`"json:/id"`, Options{}, "json:id")
	f(`"json:/id" uuid`, Options{UUID: true}, "json:id")
	f(`"json:/id"`, Options{Ignore: []string{"a b", "-1"}}, "json:id")
	f(`"sha256:json" exclude "json:/a" "json:/b/c"`, Options{Exclude: []string{"b.c", "a", "/b/c"}}, "sha256:json")
	f(`"sha256:value"`, Options{}, "sha256:value")
	f(`"column:7" tsv`, Options{Table: tsvTable}, "column:7")
	f(`"json:/id"`, Options{Table: tsvTable}, "json:id") // which no column asks for
	f(`"column:1" "sha256:json" csv exclude "json:/a" uuid`,
		Options{Table: csvTable, UUID: true, Ignore: []string{"0"}, Exclude: []string{"a"}}, "column:1", "sha256:json")
}

func TestIdentityAllocations(t *testing.T) {
	o := Options{UUID: true, Ignore: []string{"-1", nilUUID}, Table: csvTable}
	e := parseWith(t, o, "json:id", "key", "sha256:value")
	r := &Record{Key: []byte("{" + uuid + "}"), Value: []byte(`{"id":"\u0035` + uuid[1:] + `"}`)}
	column := parseWith(t, o, "column:2")
	row := &Record{Value: []byte(`a,"{` + uuid + `}"`)}
	if n := testing.AllocsPerRun(100, func() {
		if _, o := e.Hash(r); o != Found {
			t.Fatal(o)
		}
		if _, o := column.Hash(row); o != Found {
			t.Fatal(o)
		}
	}); n != 0 {
		t.Errorf("got %v allocations a record, want none", n)
	}
}
