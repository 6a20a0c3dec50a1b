package keys

import (
	"crypto/sha256"
	"fmt"
	"testing"
)

// TestText: the text of an ID is one that is read back as that ID.
func TestText(t *testing.T) {
	r := &Record{
		Key:     []byte("k\n\"\\\xff\x01é"),
		Headers: []Header{{"h", []byte("a")}, {"h", []byte("12")}},
		Value:   []byte(`{"s":"a\u0062\"\ud83d\ude00\ud800","n":1.0,"b":true,"u":"{` + uuid + `}","nil":null,"o":{}}`),
	}
	f := func(want string, o Options, specs ...string) {
		t.Helper()
		e := parseWith(t, o, specs...)
		text := e.Text(r)
		if text != want {
			t.Errorf("%q: got %s, want %s", specs, text, want)
		}
		hash, outcome := e.Hash(r)
		if want == "" {
			if outcome == Found {
				t.Errorf("%q: no text for an ID", specs)
			}
			return
		}
		if got, err := e.HashWritten([]byte(text)); err != nil || got != hash || outcome != Found {
			t.Errorf("%q: %s is read as %x, %v; want %x", specs, text, got, err, hash)
		}
	}
	f("\"k\\u000a\\\"\\\\\xff\\u0001é\"", Options{}, "key")
	f(`"12"`, Options{}, "header:h")
	f("\"ab\\\"😀\xed\xa0\x80\"", Options{}, "json:s")
	f(`1.0`, Options{}, "json:n")
	f(`true`, Options{}, "json:b")
	f("[1.0,\"12\",true]", Options{}, "json:n", "header:h", "json:b")
	f(`"`+uuidPlain+`"`, Options{UUID: true}, "json:u")
	f(fmt.Sprintf(`"%x"`, sha256.Sum256(r.Value)), Options{}, "sha256:value")
	f("", Options{}, "json:nil")
	f("", Options{}, "json:o")
	f("", Options{}, "json:n", "json:nil")
	f("", Options{Ignore: []string{"1.0"}}, "json:n")
	f("", Options{}, "sha256:json") // a surrogate alone
	f("", Options{Table: csvTable}, "column:1")
}

func TestPresets(t *testing.T) {
	for _, p := range Presets {
		if _, err := Parse(p.Specs, 0, Options{Table: Table{Kind: p.Table}}); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if got, err := LookupPreset(p.Name); err != nil || got.Name != p.Name || p.About == "" {
			t.Errorf("%s: got %+v, %v", p.Name, got, err)
		}
	}
	const want = `unknown preset "Segment": want cloudevents, segment, snowplow, ga4, posthog, gharchive, wikimedia or sqs`
	if _, err := LookupPreset("Segment"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
