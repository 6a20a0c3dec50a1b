package pipeline

import (
	"testing"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
)

// hashOfID is the hash of a JSON ID under the rules of most tests.
func hashOfID(t *testing.T, cfg Config, id string) filter.Hash {
	t.Helper()
	e, err := keys.Parse(cfg.Keys, cfg.Seed, cfg.IDs)
	if err != nil {
		t.Fatal(err)
	}
	h, err := e.HashWritten([]byte(id))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// An allowed ID passes once more, and is then a duplicate as before: in this
// process, after a rollback, and in one that restores from the changelog.
func TestAllowedIDPassesOnceMore(t *testing.T) {
	withChanges := func(c *Config) { c.LogChanges = true }
	before := shardOf(t, withChanges)
	before.Process(batchOf(0, `{"id":"a"}`, `{"id":"b"}`))
	before.Seal()
	changes := []Change{copyOfChange(t, before.Position().Change)}
	before.Commit()

	cfg := before.rules
	cfg.Allow = []filter.Hash{hashOfID(t, cfg, `"z"`), hashOfID(t, cfg, `"a"`)}
	restore := func(next int64) *Shard {
		r, err := NewRebuild(cfg, p0, before.State())
		if err != nil {
			t.Fatal(err)
		}
		for i := range changes {
			if err := r.LearnChange(&changes[i]); err != nil {
				t.Fatal(err)
			}
		}
		s := r.Done(0, next)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	const dup = "duplicate:dropped:duplicate"
	f := func(s *Shard, first int64, want string, values ...string) {
		t.Helper()
		b := batchOf(first, values...)
		s.Process(b)
		s.Seal()
		if got := outcomes(b); got != want {
			t.Errorf("at offset %d: got  %s\nwant %s", first, got, want)
		}
	}
	s := restore(2)
	f(s, 2, "unique:out "+dup+" "+dup, `{"id":"a"}`, `{"id":"b"}`, `{"id":"a"}`)
	s.Rollback()
	f(s, 2, "unique:out "+dup, `{"id":"a"}`, `{"id":"a"}`)
	changes = append(changes, copyOfChange(t, s.Position().Change))
	s.Commit()

	f(restore(4), 4, dup+" "+dup+" unique:out "+dup, `{"id":"a"}`, `{"id":"b"}`, `{"id":"z"}`, `{"id":"z"}`)

	// Without the list the ID is looked for as ever.
	cfg.Allow = nil
	f(restore(4), 4, dup, `{"id":"a"}`)
}

// From the input it cannot be told which copy was let through, so none teaches: in
// doubt one passes.
func TestRebuildFromTheInputDoesNotLearnAllowedIDs(t *testing.T) {
	s := shardOf(t, nil)
	past := batchOf(0, `{"id":"a"}`, `{"id":"b"}`)
	s.Process(past)
	cfg := s.rules
	cfg.Allow = []filter.Hash{hashOfID(t, cfg, `"a"`)}
	r, err := NewRebuild(cfg, p0, s.State())
	if err != nil {
		t.Fatal(err)
	}
	r.Learn(past)
	again := r.Done(0, 2)
	t.Cleanup(func() { _ = again.Close() })
	b := batchOf(2, `{"id":"a"}`, `{"id":"b"}`, `{"id":"a"}`)
	again.Process(b)
	if got, want := outcomes(b), "unique:out duplicate:dropped:duplicate duplicate:dropped:duplicate"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The other hash is in changelogs: this vector never changes.
func TestAnewIsGolden(t *testing.T) {
	for h, want := range map[filter.Hash]filter.Hash{
		0: 0x492b8d6066c09227, 1: 0x3564b439cd1e1f16, 0xfedcba9876543210: 0xa1ddb6e1c4e9d564,
	} {
		if got := anew(h); got != want {
			t.Errorf("anew(%#x) is %#x, want %#x", uint64(h), uint64(got), uint64(want))
		}
	}
}
