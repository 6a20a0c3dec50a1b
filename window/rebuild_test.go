package window

import (
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// TestRebuild makes windows again from their state and the input, and compares
// what the two hold, generation by generation. They must differ by nothing but
// what the Rebuilder admits.
func TestRebuild(t *testing.T) {
	rng := newRand(t)
	var same, longer, shorter, maybeLate int
	for range scaled(2000) {
		cfg := config(700 * time.Millisecond)
		cfg.LearnLate = rng.IntN(2) == 0
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

		before := idsOf(records[:max(0, from)])
		late := map[filter.Hash]bool{}
		for _, rec := range records[max(0, from):] {
			late[rec.hash] = late[rec.hash] || !cfg.LearnLate && rec.time > 0 && rec.time < w.m-w.span+w.slice
		}
		for _, h := range idsOf(records).list {
			switch was, is := original.Test(h), rebuilt.Test(h); {
			case was == is:
				same += bits.OnesCount8(is)
			case late[h]:
				maybeLate++
			case !before.has[h]:
				t.Fatalf("%+v: hash %x first read in the range: ages %08b, were %08b", cfg, h, is, was)
			case was == 0 || is != 0 && is < was:
				longer++
			case is > was:
				shorter++
			default:
				t.Fatalf("%+v: hash %x: ages %08b, were %08b", cfg, h, is, was)
			}
		}
		for age, g := range again.gens {
			if g.added != uint64(len(rebuilt.gens[age])) {
				t.Fatalf("load at age %d is %d, the set holds %d", age, g.added, len(rebuilt.gens[age]))
			}
		}
	}
	t.Logf("%d hashes held alike, %d longer, %d shorter, %d that may have been late", same, longer, shorter, maybeLate)
	if odd := longer + shorter + maybeLate; same < 10*odd {
		t.Errorf("%d hashes held alike and %d otherwise", same, odd)
	}
}

// ids is a set of hashes and its members in order of appearance.
type ids struct {
	has  map[filter.Hash]bool
	list []filter.Hash
}

func idsOf(records []record) ids {
	s := ids{has: map[filter.Hash]bool{}}
	for _, rec := range records {
		if !s.has[rec.hash] {
			s.has[rec.hash] = true
			s.list = append(s.list, rec.hash)
		}
	}
	return s
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
		{"generations of 20ms, a window of 70ms has generations of 10ms", func(s *State) { s.Slice = 20 }},
		{"11 generations", func(s *State) { s.Generations = make([]Generation, 11) }},
		{"generation 101 is filling, stream time 1020 ms lies in 102", func(s *State) { s.StreamTime = 1020 }},
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
