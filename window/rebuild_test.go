package window

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// TestRebuild makes windows again from their state and the input, and compares
// what the two hold, generation by generation. Each generation must have all its
// copies, and so all that the original held; no hash is held after the last of
// them would be.
func TestRebuild(t *testing.T) {
	rng := newRand(t)
	var same, longer, maybeLate int
	for range scaled(2000) {
		cfg := config(700 * time.Millisecond)
		cfg.LearnLate = rng.IntN(2) == 0
		cfg.Refresh = rng.IntN(2) == 0
		records := newHistory(rng, cfg).take(rng.IntN(5000))
		original := newExactSet()
		w := mustNew(t, cfg, original)
		var r reader
		r.read(w, records)

		state := w.State()
		rebuilt := newExactSet()
		b, err := Rebuild(cfg, rebuilt, state)
		if err != nil {
			t.Fatal(err)
		}
		from := slices.IndexFunc(records, func(rec record) bool { return rec.offset >= b.From() })
		relearn(rng, b, records[max(0, from-rng.IntN(100)):]) // it passes over what lies before
		again := b.Done(b.From())
		if got := again.State(); !equalStates(got, state) {
			t.Fatalf("state is %+v, was %+v", got, state)
		}
		if n := again.JournalBytes(); n != 0 {
			t.Fatalf("journal of %d bytes after a rebuild", n)
		}

		copies, late := map[filter.Hash]uint8{}, map[filter.Hash]bool{}
		for _, rec := range records[max(0, from):] {
			if !rec.noID && !rec.noLearn {
				copies[rec.hash] |= 1 << ageAt(state, rec.offset)
			}
			late[rec.hash] = late[rec.hash] || !cfg.LearnLate && rec.time > 0 && rec.time < w.m-w.span+2*w.slice
		}
		for _, rec := range records {
			switch was, is, all := original.Test(rec.hash), rebuilt.Test(rec.hash), copies[rec.hash]; {
			case is&^all != 0 || was&^all != 0:
				t.Fatalf("%+v: hash %x: ages %08b, were %08b, copies at %08b", cfg, rec.hash, is, was, all)
			case was == is:
				same++
			case late[rec.hash]:
				maybeLate++
			case is != all:
				t.Fatalf("%+v: hash %x: ages %08b, were %08b, copies at %08b", cfg, rec.hash, is, was, all)
			default:
				longer++
			}
		}
		for age, g := range again.gens {
			if g.added != uint64(len(rebuilt.gens[age])) {
				t.Fatalf("load at age %d is %d, the set holds %d", age, g.added, len(rebuilt.gens[age]))
			}
		}
	}
	t.Logf("records: %d held alike, %d in more generations, %d that may have been late", same, longer, maybeLate)
	if longer == 0 || same < maybeLate {
		t.Errorf("records: %d held alike, %d in more generations, %d that may have been late", same, longer, maybeLate)
	}
}

// ageAt is the age of the generation that the record at offset belongs to.
func ageAt(s State, offset int64) int {
	for i, g := range slices.Backward(s.Generations) {
		if offset >= g.FirstOffset {
			return len(s.Generations) - 1 - i
		}
	}
	panic("BUG: a record from before the oldest generation")
}

// TestRebuildHoldsWhatWasLearnedAnew restarts a window that learned an ID before
// the range, and anew in it, after a repeat: the repeat must not stand for the
// copy that was learned, which is to be held for the span.
func TestRebuildHoldsWhatWasLearnedAnew(t *testing.T) {
	const id, other = 1, 2
	cfg := config(70 * time.Millisecond)
	w := mustNew(t, cfg, newExactSet())
	var r reader
	records := []record{
		{offset: 0, time: 1000, hash: id},
		{offset: 1, time: 1070, hash: id},    // a repeat, within the span
		{offset: 2, time: 1080, hash: id},    // after it, learned anew
		{offset: 3, time: 1140, hash: other}, // the range is now from offset 1 on
	}
	for i := range records {
		records[i].now = records[i].time
	}
	got, _ := r.read(w, records)
	if want := []bool{true, false, true, true}; !slices.EqualFunc(got, want, func(v verdict, learned bool) bool { return v.learned == learned }) {
		t.Fatalf("verdicts %v, want learned %v", got, want)
	}
	set := newExactSet()
	b, err := Rebuild(cfg, set, w.State())
	if err != nil {
		t.Fatal(err)
	}
	if b.From() != 1 {
		t.Fatalf("learn from %d, want 1", b.From())
	}
	b.Learn([]int64{1, 2, 3}, []int64{1070, 1080, 1140}, []filter.Hash{id, id, other}, []bool{true, true, true})
	again := b.Done(1)
	for _, c := range []struct {
		time int64
		held bool
	}{{1150, true}, {1159, true}, {1160, false}} {
		got, _ := r.read(again, []record{{offset: c.time, time: c.time, now: c.time, hash: id}})
		if held := got[0].ages != 0; held != c.held {
			t.Errorf("read again at %d, after 1080: held is %v, want %v", c.time, held, c.held)
		}
	}
}

// TestRebuildPassesInDoubt leaves out what may have been late, to the millisecond.
func TestRebuildPassesInDoubt(t *testing.T) {
	cfg := config(70 * time.Millisecond)
	state := State{StreamTime: 1009, Believed: true, Slice: 10, Generations: []Generation{{Number: 100, FirstOffset: 5}}}
	for _, c := range []struct {
		lateKept, believed bool
		time               int64
		learned            bool
	}{
		{true, true, 940, true}, // 1010-70: not late at any time of the generation
		{true, true, 939, false},
		{true, true, 1, false},
		{true, true, 0, true}, // no time is never late
		{true, true, NoTime, true},
		{true, true, 1<<63 - 1, true},
		{true, false, 1, true}, // nor is anything by the clock
		{false, true, 1, true},
	} {
		// What the policy is by now does not matter.
		cfg.LearnLate = !cfg.LearnLate
		state.Generations[0].LateKept = c.lateKept
		state.Believed = c.believed
		set := newExactSet()
		r, err := Rebuild(cfg, set, state)
		if err != nil {
			t.Fatal(err)
		}
		r.Learn([]int64{5}, []int64{c.time}, []filter.Hash{1}, []bool{true})
		if kept := r.Done(5).State().Generations[0].LateKept; kept != (c.lateKept || !cfg.LearnLate) {
			t.Errorf("late kept %v, learn late %v: the window goes on with %v", c.lateKept, cfg.LearnLate, kept)
		}
		if learned := set.Test(1) != 0; learned != c.learned {
			t.Errorf("time %d, late kept %v, believed %v: learned %v", c.time, c.lateKept, c.believed, learned)
		}
	}
}

// TestRebuildKeepsCapacity fills a generation: what does not fit is counted.
func TestRebuildKeepsCapacity(t *testing.T) {
	cfg := config(70 * time.Millisecond)
	cfg.GenerationCapacity = 2
	set := newExactSet()
	r, err := Rebuild(cfg, set, State{StreamTime: 1010, Believed: true, Slice: 10, Generations: []Generation{{Number: 100, FirstOffset: 0}, {Number: 101, FirstOffset: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	r.Learn([]int64{0, 1, 2, 3, 4, 5, 6}, make([]int64, 7), []filter.Hash{1, 1, 2, 3, 3, 3, 4}, []bool{true, true, true, true, false, true, true})
	if n := r.Unlearned(); n != 1 {
		t.Errorf("%d unlearned, want 1", n)
	}
	stats := r.Done(0).Stats()
	if stats.Loads != [filter.Generations]uint64{2, 2} || !stats.Full {
		t.Errorf("stats %+v, want two full generations", stats)
	}
	for h, want := range map[filter.Hash]uint8{1: 2, 2: 2, 3: 1, 4: 1} {
		if got := set.Test(h); got != want {
			t.Errorf("hash %d has ages %b, want %b", h, got, want)
		}
	}
}

// TestRebuildCoverage has retention delete what the window should know.
func TestRebuildCoverage(t *testing.T) {
	var gens []Generation
	for i := range int64(8) {
		gens = append(gens, Generation{Number: 100 + i, FirstOffset: 10 * i})
	}
	full := State{StreamTime: 1075, Believed: true, Slice: 10, Generations: gens}
	cold := full
	cold.KnownFrom = 1040
	for _, c := range []struct {
		state      State
		firstKnown int64
		want       float64
	}{
		{full, -1, 1},
		{full, 0, 1},
		{full, 1, 65. / 70}, // generation 100 is known in part: it counts from 101 on
		{full, 10, 65. / 70},
		{full, 11, 55. / 70},
		{full, 70, 5. / 70},
		{full, 71, 0},
		{full, 1000, 0},
		{cold, 0, 35. / 70},
		{cold, 31, 35. / 70},
		{cold, 41, 25. / 70},
		{State{Slice: 10}, 1000, 1},
		{State{Slice: 10, KnownFrom: NoTime}, 1000, 0},
	} {
		r, err := Rebuild(config(70*time.Millisecond), newExactSet(), c.state)
		if err != nil {
			t.Fatal(err)
		}
		w := r.Done(c.firstKnown)
		if got := w.Coverage(); got != c.want {
			t.Errorf("first known %d of %+v: coverage %v, want %v", c.firstKnown, c.state, got, c.want)
		}
		w.Rollback()
		if got := w.Coverage(); got != c.want {
			t.Errorf("first known %d: coverage %v after a rollback, want %v", c.firstKnown, got, c.want)
		}
		// No record was read, not even those that began the generations.
		if got := w.State(); !slices.Equal(got.Generations, c.state.Generations) {
			t.Errorf("first known %d: generations %v, want %v", c.firstKnown, got.Generations, c.state.Generations)
		}
	}
}

// TestRebuildRefuses states that no window of this configuration has made.
func TestRebuildRefuses(t *testing.T) {
	good := State{StreamTime: 1015, Slice: 10, Generations: []Generation{{Number: 100, FirstOffset: 5}, {Number: 101, FirstOffset: 7}}}
	for _, c := range []struct {
		want  string
		spoil func(*State)
	}{
		{"", func(*State) {}},
		{"generations of 0 ms", func(s *State) { s.Slice = 0 }},
		{"11 generations", func(s *State) { s.Generations = make([]Generation, 11) }},
		{"generation 101 is filling, stream time 1020 ms lies in 102", func(s *State) { s.StreamTime = 1020 }},
		{"", func(s *State) { s.StreamTime, s.Believed = 1009, true }}, // after the clock's time
		{"generation 101 is filling, stream time 1009 ms lies in 100", func(s *State) { s.StreamTime = 1009 }},
		{"generation 101 is filling, stream time 999 ms lies in 99", func(s *State) { s.StreamTime, s.Believed = 999, true }},
		{"no time", func(s *State) { s.StreamTime = NoTime }},
		{"generation 101 from offset 7 follows 99 from offset 5", func(s *State) { s.Generations[0].Number = 99 }},
		{"generation 101 from offset 7 follows 100 from offset 8", func(s *State) { s.Generations[0].FirstOffset = 8 }},
		{"negative offset", func(s *State) { s.Generations[0].FirstOffset = -1 }},
		{"nothing is known", func(s *State) { s.KnownFrom = NoTime }},
	} {
		s := good
		s.Generations = slices.Clone(good.Generations)
		c.spoil(&s)
		_, err := Rebuild(config(70*time.Millisecond), newExactSet(), s)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	if _, err := Rebuild(Config{}, newExactSet(), good); err == nil || !strings.Contains(err.Error(), "Span") {
		t.Errorf("error %v, want one on the configuration", err)
	}
}

// TestRebuildOfNothing is a restart before the first record.
func TestRebuildOfNothing(t *testing.T) {
	w := mustNew(t, config(70*time.Millisecond), newExactSet())
	r, err := Rebuild(config(70*time.Millisecond), newExactSet(), w.State())
	if err != nil {
		t.Fatal(err)
	}
	if from := r.From(); from != -1 {
		t.Errorf("learn from %d, want -1", from)
	}
	r.Learn([]int64{3}, []int64{1000}, []filter.Hash{1}, []bool{true})
	again := r.Done(-1)
	if !slices.Equal(again.AppendState(nil), w.AppendState(nil)) {
		t.Error("a window of nothing rebuilt is not a new one")
	}
}
