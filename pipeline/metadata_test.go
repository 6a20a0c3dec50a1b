package pipeline

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
)

func TestMetadataRoundTrip(t *testing.T) {
	s := shardOf(t, func(c *Config) { c.Window.Span = 7 * time.Second })
	for i := range 50 {
		want := s.State()
		text := want.Metadata()
		if len(text) > 400 {
			t.Fatalf("%d bytes: %s", len(text), text)
		}
		got, err := ParseMetadata(text)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
		binary := want.AppendBinary(nil)
		if len(binary) > 120 {
			t.Fatalf("%d bytes of binary form", len(binary))
		}
		if got, rest, err := ParseState(append(binary, "rest"...)); err != nil || string(rest) != "rest" || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("binary, %v, with rest %q:\ngot  %+v\nwant %+v", err, rest, got, want)
		}
		s.Process(batchOf(int64(i), fmt.Sprintf(`{"id":%d}`, i)))
	}
}

// The largest numbers that a window can have still leave most of the room.
func TestMetadataIsShort(t *testing.T) {
	s := shardOf(t, func(c *Config) { c.Window.Span, c.OnLate = 7*time.Millisecond, Drop })
	s.window.MarkCold()
	b := &Batch{Partition: p0, Now: 1 << 62, Next: math.MaxInt64, SizeLimit: math.MaxInt64}
	for i := range int64(8) {
		b.Records = append(b.Records, Record{Value: []byte(`{"id":1}`), Time: 1<<62 - 8 + i})
		b.Offsets = append(b.Offsets, math.MaxInt64-8+i)
	}
	s.Process(b)
	text := s.State().Metadata()
	if _, err := ParseMetadata(text); err != nil || strings.Count(text, lateKept) != 8 || len(text) >= 620 {
		t.Errorf("%d bytes, %v: %s", len(text), err, text)
	}
}

func TestMetadataText(t *testing.T) {
	s := shardOf(t, func(c *Config) { c.Window.Span = 7 * time.Second })
	s.Process(batchOf(0, `{"id":1}`, `{"id":2}`))
	want := "streamdedup/2 " + s.print + " 1000 1700000001000 record 0 0,0,0 1 1700000000@0 1700000001@1"
	if got := s.State().Metadata(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	before := "streamdedup/1 " + s.print + " 1000 1700000001000 record 0 0,0,0 1700000000@0 1700000001@1"
	if got, err := ParseMetadata(before); err != nil || fmt.Sprint(got) != fmt.Sprint(s.State()) {
		t.Errorf("version 1, %v: got  %+v\nwant %+v", err, got, s.State())
	}
}

func TestMetadataThatIsNotOurs(t *testing.T) {
	s := shardOf(t, nil)
	s.Process(batchOf(0, `{"id":1}`))
	good := s.State().Metadata()
	for text, want := range map[string]error{
		"":                                       ErrNoState,
		"consumer-1-2f3c":                        ErrNoState,
		"streamdedup/":                           ErrNoState,
		"streamdedup/1":                          ErrNoState,
		"streamdedup/3 " + good[14:]:             ErrForeignState,
		good[:len(good)-3] + "x":                 ErrNoState,
		strings.Replace(good, "0,0,0", "0,0", 1): ErrNoState,
		strings.Replace(good, "0,0,0", "0,0,x", 1): ErrNoState,
		strings.Replace(good, "record", "moon", 1): ErrNoState,
	} {
		if _, err := ParseMetadata(text); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	foreign := s.State()
	foreign.Fingerprint = "0123456789abcdef"
	if _, err := NewRebuild(s.rules, p0, foreign); !errors.Is(err, ErrForeignState) {
		t.Errorf("another fingerprint: %v", err)
	}
}

func FuzzParseMetadata(f *testing.F) {
	f.Add("streamdedup/2 0123456789abcdef 1000 1700000001000 record 0 0,0,0 1 1700000000@0 1700000001@1")
	f.Add("streamdedup/1 0123456789abcdef 1000 1700000001000 record 0 0,0,0 1700000000@0 1700000001@1")
	f.Fuzz(func(t *testing.T, text string) {
		// What it accepts it reads as words of the right kind, and never panics.
		state, err := ParseMetadata(text)
		words := 8
		if strings.HasPrefix(strings.TrimSpace(text), "streamdedup/1") {
			words = 7
		}
		if err == nil && len(strings.Fields(text)) != words+len(state.Window.Generations) {
			t.Errorf("%q gave %+v", text, state)
		}
	})
}

// The fingerprint tells apart what decides on identity, and nothing else: a
// filter of another size goes on with the state.
func TestFingerprint(t *testing.T) {
	base := rules()
	print := func(change func(*Config)) string {
		c := base
		change(&c)
		p, err := c.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	same := print(func(*Config) {})
	if got := print(func(c *Config) { c.Window.GenerationCapacity *= 2 }); got != same {
		t.Error("the capacity changes it")
	}
	if got := print(func(c *Config) { c.Window.Refresh = true }); got != same {
		t.Error("whether repeats extend the window changes it")
	}
	if got := print(func(c *Config) { c.IDs.Ignore = []string{"-1"} }); got != same {
		t.Error("an ID to ignore changes it")
	}
	seen := map[string]string{same: "nothing"}
	for name, change := range map[string]func(*Config){
		"key":    func(c *Config) { c.Keys = []string{"value"} },
		"parts":  func(c *Config) { c.Keys = []string{"key", "value"} },
		"seed":   func(c *Config) { c.Seed++ },
		"filter": func(c *Config) { c.Kind = "classic" },
		"scope":  func(c *Config) { c.Scope = ScopeTopic },
		"UUIDs":  func(c *Config) { c.IDs.UUID = true },
	} {
		p := print(change)
		if other, ok := seen[p]; ok {
			t.Errorf("changing %s gives the fingerprint of changing %s", name, other)
		}
		seen[p] = name
	}
	// Stored states have this one.
	if want := fmt.Sprintf("%016x", xxhash.Sum64String("keys \"key\"\nseed 7\nscope partition\nfilter sliced\n")); same != want {
		t.Errorf("got %s, want %s", same, want)
	}
}

// A late record that the policy dropped never came out. A restart under another
// policy must not learn it: its next copy is the first.
func TestRebuildKeepsToThePolicyOfItsTime(t *testing.T) {
	s := shardOf(t, func(c *Config) { c.OnLate = Drop })
	b := batchOf(0, `{"id":"now"}`, `{"id":"x"}`)
	b.Records[1].Time -= (2 * time.Hour).Milliseconds()
	s.Process(b)
	cfg := s.rules
	cfg.OnLate = Pass
	for range 2 { // the second restart knows of the first one's time only from the metadata
		r, err := NewRebuild(cfg, p0, s.State())
		if err != nil {
			t.Fatal(err)
		}
		r.Learn(b)
		s = r.Done(0, b.Next)
		t.Cleanup(func() { _ = s.Close() })
	}
	again := batchOf(2, `{"id":"x"}`, `{"id":"now"}`)
	s.Process(again)
	if got := outcomes(again); got != "unique:out duplicate:dropped:duplicate" {
		t.Errorf("got %s", got)
	}
}

// A record that was too large for the output was diverted and taught nothing. A
// restart after the limit was raised must not learn it: its next copy is the first.
// Limits are what kafkaio makes of them; here it is the length of a value.
func TestRebuildKeepsToTheLimitOfItsTime(t *testing.T) {
	diverts := func(c *Config) { c.Diverts = true }
	read := func(b *Batch, limit int64) *Batch {
		b.SizeLimit, b.Oversize = limit, nil
		for _, r := range b.Records {
			b.Oversize = append(b.Oversize, int64(len(r.Value)) > limit)
		}
		return b
	}
	s := shardOf(t, diverts)
	history := batchOf(0, `{"id":1}`, `{"id":"large"}`)
	s.Process(read(history, 10))
	if got := outcomes(history); got != "unique:out unique:diverted:too_large" {
		t.Fatal(got)
	}
	for restart, raised := range []int64{100, 200, 200} {
		r, err := NewRebuild(s.rules, p0, s.State())
		if err != nil {
			t.Fatal(err)
		}
		if got := r.SizeLimit(); got != 10 {
			t.Errorf("restart %d: the limit is %d, want the least that counted, 10", restart, got)
		}
		r.Learn(read(history, min(raised, r.SizeLimit())))
		s = r.Done(0, history.Next)
		t.Cleanup(func() { _ = s.Close() })
		s.Process(&Batch{Partition: p0, Now: farFuture, First: history.Next, Next: history.Next, SizeLimit: raised})
	}
	again := read(batchOf(2, `{"id":"large"}`, `{"id":1}`), 200)
	s.Process(again)
	if got := outcomes(again); got != "unique:out duplicate:dropped:duplicate" {
		t.Errorf("got %s", got)
	}
}

// An old limit is forgotten with the generations that it counted for.
func TestSizeLimit(t *testing.T) {
	l := SizeLimit{}.change(100, 0).change(100, 5).change(0, 6)
	if l != (SizeLimit{Now: 100}) {
		t.Errorf("one limit: %v", l)
	}
	l = l.change(50, 10).change(200, 20)
	if l != (SizeLimit{Now: 200, Before: 50, Since: 20}) || l.least() != 50 {
		t.Errorf("lowered and raised: %v", l)
	}
	if got := l.from(19); got != l {
		t.Errorf("still needed: %v", got)
	}
	if got := l.from(20); got.least() != 200 {
		t.Errorf("not needed any more: %v", got)
	}
}
