package pipeline

import (
	"testing"
	"time"
)

// What becomes of duplicates, also of those that are late or too large.
func TestDuplicatePolicies(t *testing.T) {
	const size = 4
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   [size]string // a first copy, a copy, a late one, one too large
	}{
		{"drop", nil,
			[size]string{"unique:out", "duplicate:dropped:duplicate", "duplicate:dropped:duplicate", "duplicate:dropped:duplicate"}},
		{"divert", func(c *Config) { c.OnDuplicate = DivertDuplicates },
			[size]string{"unique:out", "duplicate:diverted:duplicate", "duplicate:diverted:duplicate", "duplicate:diverted:duplicate"}},
		{"tag", func(c *Config) { c.OnDuplicate = TagDuplicates },
			[size]string{"unique:out", "duplicate:out:duplicate", "duplicate:out:duplicate", "duplicate:diverted:too_large"}},
		{"tag, drop late", func(c *Config) { c.OnDuplicate, c.OnLate = TagDuplicates, Drop },
			[size]string{"unique:out", "duplicate:out:duplicate", "duplicate:dropped:late", "duplicate:diverted:too_large"}},
		{"tag, divert late", func(c *Config) { c.OnDuplicate, c.OnLate = TagDuplicates, Divert },
			[size]string{"unique:out", "duplicate:out:duplicate", "duplicate:diverted:late", "duplicate:diverted:too_large"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := shardOf(t, func(cfg *Config) {
				cfg.Diverts = true
				if c.change != nil {
					c.change(cfg)
				}
			})
			b := batchOf(0, `{"id":1}`, `{"id":1}`, `{"id":1}`, `{"id":1}`)
			b.Records[2].Time -= (2 * time.Hour).Milliseconds()
			b.Oversize = []bool{false, false, false, true}
			s.Process(b)
			want := c.want[0]
			for _, w := range c.want[1:] {
				want += " " + w
			}
			if got := outcomes(b); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if err := b.Counts.Check(); err != nil || b.Counts.Verdicts[Duplicate] != 3 {
				t.Errorf("%v, counts %+v", err, b.Counts)
			}
			if got := s.Stats().Loads[0]; got != 1 {
				t.Errorf("%d IDs were learned, want 1", got)
			}
		})
	}
}

// A tagged record that the output refuses for its size goes where diverted records
// go, and without such a place stops the partition.
func TestTaggedRecordTooLarge(t *testing.T) {
	for _, diverts := range []bool{true, false} {
		s := shardOf(t, func(c *Config) { c.OnDuplicate, c.Diverts = TagDuplicates, diverts })
		s.Refuse(Refusal{Partition: p0, Offset: 1, Err: errTooLarge})
		b := batchOf(0, `{"id":1}`, `{"id":1}`, `{"id":2}`)
		s.Process(b)
		want := "unique:out duplicate:diverted:too_large unique:out"
		if !diverts {
			want = "unique:out"
		}
		if got := outcomes(b); got != want || (b.Stopped == nil) != diverts {
			t.Errorf("diverts %v: got %s, stopped %v", diverts, got, b.Stopped)
		}
	}
}

// The age is the distance of two generations: that of the copy before, where repeats are
// learned.
func TestAgeOfADuplicate(t *testing.T) {
	for _, refresh := range []bool{false, true} {
		s := shardOf(t, func(c *Config) { c.Window.Span, c.Window.Refresh = 70*time.Second, refresh })
		b := batchOf(0, `{"id":1}`, `{"id":2}`, `{"id":1}`, `{"n":1}`, `{"id":1}`)
		for i, seconds := range []int64{0, 20, 39, 40, 50} {
			b.Records[i].Time = epoch0 + seconds*1000
		}
		s.Process(b)
		want := []time.Duration{0, 0, 30 * time.Second, 0, 50 * time.Second}
		if refresh {
			want[4] = 20 * time.Second
		}
		for i, want := range want {
			if got := b.Age(i); got != want {
				t.Errorf("refresh %v, record %d: got %v, want %v", refresh, i, got, want)
			}
		}
	}
}

func TestParseDuplicatePolicy(t *testing.T) {
	for _, want := range []DuplicatePolicy{DropDuplicates, DivertDuplicates, TagDuplicates} {
		if got, err := ParseDuplicatePolicy(want.String()); err != nil || got != want {
			t.Errorf("%s: got %v, %v", want, got, err)
		}
	}
	if _, err := ParseDuplicatePolicy("pass"); err == nil {
		t.Error("pass: no error")
	}
	cfg := rules()
	if cfg.OnDuplicate = DivertDuplicates; cfg.Validate() == nil {
		t.Error("divert without a place for it: no error")
	}
	if cfg.OnDuplicate = TagDuplicates + 1; cfg.Validate() == nil {
		t.Error("an unknown policy: no error")
	}
}
