package audit

import (
	"strings"
	"testing"

	"github.com/streamdedup/streamdedup/internal/keys"
)

// tagged is record, and for each ~ before it has a tag behind its headers.
func tagged(text string) *keys.Record {
	own := strings.TrimLeft(text, "~")
	r := record(own)
	r.Headers = []keys.Header{{Name: "own", Value: []byte("1")}}
	for range len(text) - len(own) {
		r.Headers = append(r.Headers, keys.Header{Name: "tag", Value: []byte("0")})
	}
	return r
}

// Where duplicates are tagged everything must come out, and the tag says what would
// not have.
func TestVerdictsOfTags(t *testing.T) {
	f := func(in, out, want string) {
		t.Helper()
		cfg := rules()
		cfg.Tag = "tag"
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		p := a.Partition(3, false)
		for i, text := range strings.Fields(in) {
			if err := p.In(int64(i), tagged(text)); err != nil {
				t.Fatal(err)
			}
		}
		for i, text := range strings.Fields(out) {
			if err := p.Out(int64(100+i), tagged(text)); err != nil {
				t.Fatal(err)
			}
		}
		p.Finish()
		r := a.Report()
		if got := summary(r); got != want {
			t.Errorf("in %q, out %q:\n got %s\nwant %s", in, out, got, want)
		}
		if text := r.String(); !strings.Contains(text, "first copies are tagged") {
			t.Errorf("the report does not speak of tags:\n%s", text)
		}
	}
	f("a b a c", "a b ~a c", "unique=3 duplicate=1")
	f("a@0 b@7 a@7", "a@0 b@7 ~a@7", "unique=2 duplicate=1")
	f("a@0 b@8 a@8", "a@0 b@8 a@8", "unique=3")
	f("a@0 b@8 a@8", "a@0 b@8 ~a@8", "unique=2 duplicate=1")
	f("a@0 b@9 a@9", "a@0 b@9 ~a@9", "unique=2 withheld=1")
	// No tag where one must be, and one where none may be.
	f("a b a", "a b a", "unique=2 missed=1")
	f("a b", "a ~b", "unique=1 withheld=1")
	f("- -", "- ~-", "no_id=2 lost=1")
	// Nothing is absent.
	f("a b a", "a b", "unique=2 lost=1")
	f("a b -", "a", "unique=1 no_id=1 lost=2")
	// Not twice, not from elsewhere, in order.
	f("a b a=2", "a b ~a=2 ~a=2", "unique=2 duplicate=1 extra=1")
	f("a b", "a b ~c", "unique=2 foreign=1")
	// A header that was there before is no tag, as in what a run before has tagged.
	f("~a=1 b a=2", "~a=1 b ~a=2", "unique=2 duplicate=1")
	f("a a b ~a", "a ~a b ~~a", "unique=2 duplicate=2")
}

// A header of the tag's name is a tag only where the run has tagged.
func TestTagIsAskedFor(t *testing.T) {
	a, err := New(rules())
	if err != nil {
		t.Fatal(err)
	}
	p := a.Partition(0, false)
	for i, text := range []string{"a", "a"} {
		if err := p.In(int64(i), tagged(text)); err != nil {
			t.Fatal(err)
		}
	}
	for i, text := range []string{"a", "~a"} {
		if err := p.Out(int64(i), tagged(text)); err != nil {
			t.Fatal(err)
		}
	}
	p.Finish()
	if got, want := summary(a.Report()), "unique=1 duplicate=1 foreign=1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
