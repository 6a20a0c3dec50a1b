package pipeline

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/window"
)

// changeOf is a change with so many hashes in each run.
func changeOf(t *testing.T, rng *rand.Rand, runs ...int) Change {
	s := shardOf(t, func(c *Config) { c.Window.Span = 7 * time.Second })
	s.Process(batchOf(0, `{"id":1}`, `{"id":2}`))
	c := Change{Begin: 17, Next: 99, State: s.State()}
	for i, n := range runs {
		l := Learned{Rotation: uint64(i), Until: 1_700_000_000_000 + int64(i), Hashes: make([]filter.Hash, n)}
		for k := range l.Hashes {
			l.Hashes[k] = filter.Hash(rng.Uint64())
		}
		c.Learned = append(c.Learned, l)
	}
	return c
}

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seed(t), 0))
}

// TestChangeRoundTrip splits changes into records of bounded size and puts them
// together again.
func TestChangeRoundTrip(t *testing.T) {
	rng := seeded(t)
	for _, runs := range [][]int{nil, {1}, {0, 3}, {maxHashes}, {maxHashes + 1}, {maxHashes - 1, 2, 3}, {10, 2*maxHashes + 7, 5}} {
		want := changeOf(t, rng, runs...)
		want.Acknowledged, want.Gap = len(runs)%2 == 1, len(runs)%3 == 1
		var got Change
		records := want.AppendRecords(nil)
		for i, record := range records {
			if len(record) > 512<<10 {
				t.Errorf("%v: record %d has %d bytes", runs, i, len(record))
			}
			part, last, err := ParseRecord(record)
			if err != nil || last != (i == len(records)-1) {
				t.Fatalf("%v: record %d of %d: last %v, %v", runs, i, len(records), last, err)
			}
			learned := slices.Concat(got.Learned, part.Learned)
			got, got.Learned = part, learned
		}
		if fmt.Sprint(got.State) != fmt.Sprint(want.State) || got.Begin != want.Begin || got.Next != want.Next ||
			got.Acknowledged != want.Acknowledged || got.Gap != want.Gap {
			t.Errorf("%v: got %+v, want %+v", runs, got, want)
		}
		if !slices.Equal(hashesOf(got), hashesOf(want)) {
			t.Errorf("%v: the hashes differ", runs)
		}
	}
}

func hashesOf(c Change) (all []string) {
	for _, run := range c.Learned {
		for _, h := range run.Hashes {
			all = append(all, fmt.Sprint(run.Rotation, run.Until, h))
		}
	}
	return all
}

// TestChangeIsSmall holds the cost of the changelog: 8 bytes an ID, and little
// beside it. What Kafka adds for the batch and the marker is 150 bytes.
func TestChangeIsSmall(t *testing.T) {
	rng := seeded(t)
	for _, n := range []int{0, 1, 1000, 100_000} {
		c := changeOf(t, rng, n)
		size := 0
		for _, record := range c.AppendRecords(nil) {
			size += len(record)
		}
		if over := size - 8*n; over > 150 {
			t.Errorf("%d hashes take %d bytes more than 8 each", n, over)
		}
	}
}

// TestParseRecordRefuses later versions by name and everything else that no
// version has written.
func TestParseRecordRefuses(t *testing.T) {
	c := changeOf(t, seeded(t), 3)
	good := c.AppendRecords(nil)[0]
	for n := range good {
		if _, _, err := ParseRecord(good[:n]); err == nil {
			t.Errorf("cut at %d: no error", n)
		}
	}
	later := slices.Clone(good)
	later[0] = ChangeVersion + 1
	if _, _, err := ParseRecord(later); !errors.Is(err, ErrForeignState) {
		t.Errorf("a later version: %v", err)
	}
	for _, slice := range []int64{0, -1} {
		c.State.Window.Slice = slice
		if _, _, err := ParseRecord(c.AppendRecords(nil)[0]); err == nil || !strings.Contains(err.Error(), "ms long") {
			t.Errorf("generations of %d ms: %v", slice, err)
		}
		if _, _, err := ParseState(c.State.AppendBinary(nil)); err == nil {
			t.Errorf("a state with generations of %d ms: no error", slice)
		}
	}
	if _, _, err := ParseRecord(append(slices.Clone(good), 0)); err == nil {
		t.Error("a byte too many: no error")
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte{ChangeVersion, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0})
	f.Add([]byte{ChangeVersion, flagLast, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 2, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 5, 10, 1, 4, 1, 0, 0, 0, 0, 0})
	f.Add([]byte{ChangeVersion, flagLast, 1, 2, 3, 4, 5, 6, 7, 8, 0, 2, 1, 0, 1, 2, 1, 0, 0, 0, 0, 1, 2, 2, 0}) // generations of 0 ms
	f.Fuzz(func(t *testing.T, b []byte) {
		c, last, err := ParseRecord(b)
		if err != nil {
			return
		}
		n := 0
		for _, run := range c.Learned {
			n += len(run.Hashes)
		}
		if 8*n > len(b) || last && (c.Next < c.Begin || c.State.Window.Slice < 1) {
			t.Errorf("%x gave %+v", b, c)
		}
	})
}

// TestShardLogsWhatItLearns follows shards through random cycles, committed or
// rolled back, often with the next one judged before that: a rollback leaves neither,
// and the changes of the committed ones make the same shard again, also where repeats
// extend the window, and so does the input, which may hold an ID in more generations.
func TestShardLogsWhatItLearns(t *testing.T) {
	rng := seeded(t)
	for life := range 20 {
		s := shardOf(t, func(c *Config) {
			c.Window.Span, c.LogChanges, c.Window.Refresh = 7*time.Second, true, life%2 == 0
		})
		var changes []Change
		var input []*Batch
		next := int64(0)
		read := func() *Batch {
			b := batchOf(next)
			for range rng.IntN(50) {
				next += 1 + int64(rng.IntN(2))
				b.Records = append(b.Records, Record{Value: fmt.Appendf(nil, `{"id":%d}`, rng.IntN(500)),
					Time: 1_700_000_000_000 + next*5 + int64(rng.IntN(200))})
				b.Offsets = append(b.Offsets, next)
			}
			next++
			b.Next = next
			s.Process(b)
			return b
		}
		committed, end, ahead := s.AppendState(nil), int64(0), (*Batch)(nil)
		for range 60 {
			b := ahead
			if b == nil {
				b = read()
			}
			s.Seal()
			at, sealed := s.Position(), s.AppendState(nil)
			if ahead = nil; rng.IntN(2) == 0 {
				ahead = read()
			}
			if rng.IntN(4) == 0 {
				s.Rollback()
				if !slices.Equal(s.AppendState(nil), committed) {
					t.Fatal("the rollback left something")
				}
				next, ahead = s.Next(), nil
				continue
			}
			if c := at.Change; c == nil || c.Begin != end || c.Next != at.Next || c.State.Metadata() != at.Metadata {
				t.Fatalf("change %+v of position %+v after %d", c, at, end)
			}
			changes = append(changes, copyOfChange(t, at.Change))
			input = append(input, b)
			s.Commit()
			committed, end = sealed, at.Next
		}
		s.Rollback()
		r, err := NewRebuild(s.rules, p0, s.State())
		if err != nil {
			t.Fatal(err)
		}
		for i := range changes {
			if err := r.LearnChange(&changes[i]); err != nil {
				t.Fatal(err)
			}
		}
		again := r.Done(0, s.Next())
		t.Cleanup(func() { _ = again.Close() })
		compareMemories(t, s, again)

		// Which setting it had before it does not say, and another may follow.
		s.rules.Window.Refresh = !s.rules.Window.Refresh
		if r, err = NewRebuild(s.rules, p0, s.State()); err != nil {
			t.Fatal(err)
		}
		for _, b := range input {
			r.Learn(b)
		}
		again = r.Done(0, s.Next())
		t.Cleanup(func() { _ = again.Close() })
		for id := range 600 {
			h := hashOfNumber(s, id)
			if was, is := s.set.Test(h), again.set.Test(h); was&^is != 0 {
				t.Fatalf("from the input, ID %d is held at ages %08b, was at %08b", id, is, was)
			}
		}
	}
}

// hashOfNumber is the hash under which s looks for one of these IDs.
func hashOfNumber(s *Shard, id int) filter.Hash {
	h, _ := s.extractor.Hash(&Record{Value: fmt.Appendf(nil, `{"id":%d}`, id)})
	return h
}

// copyOfChange goes through the records, as a changelog does.
func copyOfChange(t *testing.T, c *Change) Change {
	t.Helper()
	records := c.AppendRecords(nil)
	parsed, last, err := ParseRecord(records[0])
	if err != nil || !last || len(records) != 1 {
		t.Fatalf("%d records, last %v, %v", len(records), last, err)
	}
	return parsed
}

// compareMemories compares what two shards answer. Lines may have been cleaned at
// other times, so their bytes may differ.
func compareMemories(t *testing.T, a, b *Shard) {
	t.Helper()
	if a.State().Metadata() != b.State().Metadata() || a.Stats().Loads != b.Stats().Loads {
		t.Fatalf("%s with loads %v\nbecame %s with %v", a.State().Metadata(), a.Stats().Loads, b.State().Metadata(), b.Stats().Loads)
	}
	for id := range 600 {
		h := hashOfNumber(a, id)
		if was, is := a.set.Test(h), b.set.Test(h); was != is {
			t.Fatalf("ID %d is held at ages %08b, was at %08b", id, is, was)
		}
	}
}

// TestLearnChangeRefusesAnotherConfiguration since its hashes mean other IDs.
func TestLearnChangeRefusesAnotherConfiguration(t *testing.T) {
	c := changeOf(t, seeded(t), 3)
	s := shardOf(t, nil)
	r, err := NewRebuild(s.rules, p0, State{Fingerprint: s.print, Window: window.State{Slice: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	c.State.Fingerprint = "0123456789abcdef"
	if err := r.LearnChange(&c); !errors.Is(err, ErrForeignState) {
		t.Errorf("got %v", err)
	}
}
