package window

import (
	"slices"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// TestCase_WIN_01 repeats an ID at the edges of the window, first placed all over
// a generation and so also 1 ms before and after a rotation.
func TestCase_WIN_01(t *testing.T) {
	cfg := config(time.Minute)
	w, slice := cfg.Span.Milliseconds(), cfg.Slice()
	start := 1_000_000 * slice
	for _, place := range []int64{0, 1, 2, slice / 2, slice - 2, slice - 1} {
		for _, c := range []struct {
			distance  int64
			duplicate bool
		}{
			{0, true},
			{w - 1, true},
			{w, true},
			{filter.Generations * slice, false}, // W, a slice, and 4 ms of rounding here
			{filter.Generations*slice + 1, false},
		} {
			win := mustNew(t, cfg, newExactSet())
			var r reader
			first := start + place
			r.read(win, []record{{offset: 0, time: start - 1, now: first, hash: hashOf(1)}, {offset: 1, time: first, now: first, hash: hashOf(2)}})
			now := first + c.distance
			got, _ := r.read(win, []record{{offset: 2, time: now, now: now, hash: hashOf(2)}})
			if duplicate := got[0].ages != 0; duplicate != c.duplicate {
				t.Errorf("first %d ms into a generation, repeat after %d ms: duplicate is %v", place, c.distance, duplicate)
			}
		}
	}
	if rounding := filter.Generations*slice - w - slice; rounding < 0 || rounding > 6 {
		t.Errorf("generations add %d ms to W and a slice, want 0 to 6", rounding)
	}
}

// TestCase_WIN_02 sends one ID every minute, through a window of two: a repeat does not
// extend it, so a producer that is stuck cannot hide a live alarm for ever, unless it is
// told to.
func TestCase_WIN_02(t *testing.T) {
	for refresh, want := range map[bool][]int64{false: {0, 3, 6, 9}, true: {0}} {
		cfg := config(2 * time.Minute)
		cfg.Refresh = refresh
		win := mustNew(t, cfg, newExactSet())
		var r reader
		var passed []int64
		for minute := range int64(11) {
			now := 1_700_000_000_000 + minute*60_000
			got, _ := r.read(win, []record{{offset: minute, time: now, now: now, hash: hashOf(1)}})
			if got[0].ages == 0 {
				passed = append(passed, minute)
			}
		}
		if !slices.Equal(passed, want) {
			t.Errorf("refresh %v: passed at minutes %v, want %v", refresh, passed, want)
		}
	}
}

// TestCase_WIN_03 reads a record from a device ten years ahead: it expires nobody.
func TestCase_WIN_03(t *testing.T) {
	const now = 1_700_000_000_000
	win := mustNew(t, config(time.Hour), newExactSet())
	var r reader
	records := []record{{offset: 0, time: now, now: now, hash: hashOf(0)}}
	records = append(records, record{offset: 1, time: now + 10*365*24*3_600_000, now: now, hash: hashOf(1)})
	for i := range int64(1000) {
		records = append(records, record{offset: 2 + i, time: now + i, now: now + i, hash: hashOf(uint64(i) % 500)})
	}
	got, _ := r.read(win, records)
	for i, v := range got {
		wantNew := i < 2 || i >= 4 && i < 502 // 0 and 1 are repeated from offset 2 on
		if (v.ages == 0) != wantNew {
			t.Errorf("record %d: %v, want new %v", i, v, wantNew)
		}
		if ahead := v.marks == MarkAhead; ahead != (i == 1) || !ahead && v.marks != 0 {
			t.Errorf("record %d: marks %v", i, v.marks)
		}
	}
}

// TestCase_WIN_04 reads times that are none.
func TestCase_WIN_04(t *testing.T) {
	const now = 1_700_000_000_000
	win := mustNew(t, config(time.Hour), newExactSet())
	var r reader
	r.read(win, []record{{offset: 0, time: now, now: now, hash: hashOf(0)}})
	before := win.State()
	for i, bad := range []int64{-1, 0, 9223372036854775807, -62135596800000, NoTime} {
		rec := record{offset: int64(1 + i), time: bad, now: now + 5*3_600_000, hash: hashOf(uint64(1 + i))}
		got, stop := r.read(win, []record{rec, rec})
		if stop != StopNone || got[0].ages != 0 || got[1].ages != 1 || got[0].marks != MarkNoTime {
			t.Errorf("time %d: stop %v, %v, then %v", bad, stop, got[0], got[1])
		}
	}
	if after := win.State(); !equalStates(before, after) {
		t.Errorf("state is %+v, was %+v", after, before)
	}
}

// TestCase_WIN_05 reads an event that was stamped 30 days ago, twice, among others: as
// its producer's clock has it, it is late, and as the broker's has it, it is not. Both
// ways it is new once, and the stream's time is that of the newest record.
func TestCase_WIN_05(t *testing.T) {
	const now, month = 1_700_000_000_000, 30 * 24 * 3_600_000
	for kind, stamp := range map[string]int64{"CreateTime": now - month, "LogAppendTime": now} {
		win := mustNew(t, config(24*time.Hour), newExactSet())
		var r reader
		got, _ := r.read(win, []record{
			{offset: 0, time: now, now: now, hash: hashOf(1)},
			{offset: 1, time: stamp, now: now, hash: hashOf(2)},
			{offset: 2, time: stamp, now: now, hash: hashOf(2)},
			{offset: 3, time: now, now: now, hash: hashOf(1)},
		})
		var mark Marks
		if kind == "CreateTime" {
			mark = MarkLate
		}
		want := []verdict{{0, 0, true}, {0, mark, true}, {1, mark, false}, {1, 0, false}}
		if !slices.Equal(got, want) || win.State().StreamTime != now {
			t.Errorf("%s: %v at %d, want %v at %d", kind, got, win.State().StreamTime, want, now)
		}
	}
}

// TestCase_WIN_06 replays old input: what is within the span of the stream time
// is caught, what was forgotten passes again and is late, and later copies of it
// are caught.
func TestCase_WIN_06(t *testing.T) {
	const hour = 3_600_000
	const start = 1_700_000_000_000
	win := mustNew(t, config(24*time.Hour), newExactSet())
	var r reader
	week := make([]record, 7*24)
	for i := range week {
		at := start + int64(i)*hour
		week[i] = record{offset: int64(i), time: at, now: at, hash: hashOf(uint64(i))}
	}
	r.read(win, week)
	for i := range week {
		week[i].now = start + 8*24*hour
	}
	for pass, wantForgotten := range []bool{true, false} {
		got, _ := r.read(win, week)
		for i, v := range got {
			age := int64(len(week)-1-i) * hour
			switch {
			case age <= 24*hour && (v.ages == 0 || v.marks != 0):
				t.Errorf("replay %d: record %d h old: %v, want a duplicate", pass, age/hour, v)
			case age > 24*hour && v.marks != MarkLate:
				t.Errorf("replay %d: record %d h old: %v, want it late", pass, age/hour, v)
			case age > 28*hour && (v.ages == 0) != wantForgotten:
				t.Errorf("replay %d: record %d h old: %v, forgotten should be %v", pass, age/hour, v, wantForgotten)
			}
		}
	}
}

// TestCase_WIN_11 runs two partitions six hours apart: each has its own time.
func TestCase_WIN_11(t *testing.T) {
	const noon = 1_700_000_000_000
	for _, at := range []int64{noon, noon - 6*3_600_000} {
		win := mustNew(t, config(time.Hour), newExactSet())
		var r reader
		got, _ := r.read(win, []record{
			{offset: 0, time: at, now: noon, hash: hashOf(1)},
			{offset: 1, time: at + 3_600_000, now: noon + 3_600_000, hash: hashOf(1)},
		})
		if got[0].ages != 0 || got[1].ages == 0 || got[0].marks != 0 {
			t.Errorf("partition at %d: %v, then %v", at, got[0], got[1])
		}
	}
}

// TestCase_WIN_12 has a copy with an earlier time behind one with a later: the first
// that is read is kept, in each partition for itself.
func TestCase_WIN_12(t *testing.T) {
	const now = 1_700_000_000_000
	for partition, records := range [][]record{
		{{offset: 5, time: now + 10, now: now, hash: hashOf(1)}, {offset: 6, time: now + 5, now: now, hash: hashOf(1)}},
		{{offset: 2, time: now + 5, now: now, hash: hashOf(1)}, {offset: 3, time: now + 10, now: now, hash: hashOf(1)}},
	} {
		win := mustNew(t, config(time.Hour), newExactSet())
		var r reader
		if got, _ := r.read(win, records); got[0].ages != 0 || got[1].ages == 0 {
			t.Errorf("partition %d: %v, want the first that is read to be new", partition, got)
		}
	}
}

// TestCase_WIN_13 restarts a window of 24 h as one of 1 h and one of 48 h. What is
// outside of the shorter one is forgotten at once, and nothing inside; the longer one
// knows what was known, and says for how long it does not know all. A copy of the bits
// is refused: they mean other generations.
func TestCase_WIN_13(t *testing.T) {
	const hour, start = 3_600_000, 1_700_000_000_000
	day := config(24 * time.Hour)
	w := mustNew(t, day, newExactSet())
	l := newRunLog()
	for i := range int64(60) {
		at := start + i*hour
		l.read(w, []record{{offset: i, time: at, now: at, hash: hashOf(uint64(i))}})
	}
	// A changelog is trimmed of what is forgotten.
	live := slices.DeleteFunc(l.runs, func(run logged) bool { return w.State().Age(run.Run) >= filter.Generations })
	rng := newRand(t)
	for _, c := range []struct {
		span         time.Duration
		held, maybe  int64 // hours within which all are held, and from which on none is
		coverage     float64
		fullCoverage int64 // hours later
	}{
		// The generations of 24 h are 3 h 26 m long: one is held to its end.
		{time.Hour, 1, 1 + 4 + 1, 1, 0},
		{48 * time.Hour, 24, 24 + 4 + 7, 24. / 48, 24},
	} {
		cfg := config(c.span)
		again, set := relearnRuns(t, rng, cfg, w.State(), live)
		for i := range int64(60) {
			held, age := set.Test(hashOf(uint64(i))) != 0, 59-i
			if age <= c.held && !held || age >= c.maybe && held {
				t.Errorf("%v: an ID learned %d h ago is held: %v", c.span, age, held)
			}
		}
		if got := again.Coverage(); got < c.coverage || got > c.coverage+4./48 {
			t.Errorf("%v: coverage %v, want %v", c.span, got, c.coverage)
		}
		at := start + (59+c.fullCoverage)*hour
		new(reader).read(again, []record{{offset: 60, time: at, now: at, hash: hashOf(99)}})
		if got := again.Coverage(); got != 1 {
			t.Errorf("%v: coverage %v after %d h, want 1", c.span, got, c.fullCoverage)
		}
		r, err := Rebuild(cfg, newExactSet(), w.State())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Loaded(w.State().Rotation, [filter.Generations]uint64{}); err == nil {
			t.Errorf("%v: the bits of a window of 24 h are taken for its own", c.span)
		}
	}
}

// TestCase_BLOOM_03 sends three times what the window is planned for. Where it
// would otherwise withhold a quarter of the new records, it stops learning.
func TestCase_BLOOM_03(t *testing.T) {
	const planned, fpr = 100_000, 1e-3
	params, err := filter.Size(planned, fpr, filter.Compact)
	if err != nil {
		t.Fatal(err)
	}
	set, err := filter.NewSliced(params)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	}()
	cfg := config(70 * time.Second)
	cfg.GenerationCapacity = planned / filter.Sealed
	win := mustNew(t, cfg, set)
	var r reader
	const start = 1_700_000_000_000
	var withheld, unlearned int
	for i := range int64(3 * planned) {
		at := start + i*80_000/(3*planned) // all eight generations, evenly
		got, _ := r.read(win, []record{{offset: i, time: at, now: at, hash: hashOf(uint64(i))}})
		if got[0].ages != 0 {
			withheld++
		}
		if got[0].marks == MarkUnlearned {
			unlearned++
		}
	}
	t.Logf("%d of %d new records withheld, %d unlearned", withheld, 3*planned, unlearned)
	if limit := int(2 * fpr * 3 * planned); withheld > limit {
		t.Errorf("%d new records withheld, want at most %d", withheld, limit)
	}
	stats := win.Stats()
	if stats.FPR > 1.2*fpr {
		t.Errorf("the rate is estimated at %g, want at most %g", stats.FPR, fpr)
	}
	var load uint64
	for _, n := range stats.Loads {
		load += n
	}
	if want := cfg.GenerationCapacity * filter.Generations; !stats.Full || load != want {
		t.Errorf("full is %v with %d hashes, want it full with %d", stats.Full, load, want)
	}
	if withheld+unlearned+int(load) != 3*planned {
		t.Errorf("withheld %d, unlearned %d and learned %d do not make %d", withheld, unlearned, load, 3*planned)
	}
}

// TestCase_BLOOM_07 sends a thousand IDs ten thousand times (a thousand by
// default): load counts unique ones.
func TestCase_BLOOM_07(t *testing.T) {
	cfg := config(time.Hour)
	cfg.GenerationCapacity = 1000
	win := mustNew(t, cfg, openSet(t, sets["sliced"]))
	records := make([]record, 1000)
	var r reader
	for round := range scaled(10_000) {
		for i := range records {
			records[i] = record{offset: int64(round*1000 + i), time: 1_700_000_000_000, now: 1_700_000_000_000, hash: hashOf(uint64(i))}
		}
		got, _ := r.read(win, records)
		for i, v := range got {
			if (v.ages == 0) != (round == 0) || v.marks != 0 {
				t.Fatalf("round %d, ID %d: %v", round, i, v)
			}
		}
	}
	if stats := win.Stats(); stats.Loads != [filter.Generations]uint64{1000} || len(stats.Generations) != 1 || !stats.Full {
		t.Errorf("stats %+v, want one full generation of 1000", stats)
	}
}

// TestCase_MEM_03 reads ten windows of new IDs, with and without repeats that refresh:
// once the first has passed, nothing grows any more.
func TestCase_MEM_03(t *testing.T) {
	const perSlice, perRead = 1000, 100
	for _, refresh := range []bool{false, true} {
		cfg := config(70 * time.Second)
		cfg.GenerationCapacity, cfg.Refresh = 2*perSlice, refresh
		win := mustNew(t, cfg, openSet(t, sets["sliced"]))
		var r reader
		var offset, learned int64
		records := make([]record, 2*perRead)
		slice := func() {
			for range perSlice / perRead {
				for i := range records {
					// Every other one comes for the second time, a slice after the first.
					at := 1_700_000_000_000 + offset*cfg.Slice()/(2*perSlice)
					id := uint64(offset)
					if i%2 == 1 {
						id = uint64(max(0, offset-2*perSlice-1))
					}
					records[i] = record{offset: offset, time: at, now: at - at%1000, hash: hashOf(id)}
					offset++
				}
				got, stop := r.read(win, records)
				if stop != StopNone {
					t.Fatal(stop)
				}
				for _, v := range got {
					if v.learned {
						learned++
					}
					if v.marks&MarkUnlearned != 0 {
						t.Fatal("a generation is full")
					}
				}
				win.Seal()
				win.Commit()
			}
		}
		for range filter.Generations + 2 {
			slice()
		}
		before, bytes := learned, win.Stats().Bytes
		if allocated := testing.AllocsPerRun(9*filter.Sealed, slice); allocated != 0 {
			t.Errorf("refresh %v: a slice of the stream allocates %v times, want 0", refresh, allocated)
		}
		stats := win.Stats()
		if stats.Bytes != bytes || win.JournalBytes() != 0 || len(stats.Generations) != filter.Generations {
			t.Errorf("refresh %v: %d bytes in %d generations and a journal of %d, %d bytes before", refresh, stats.Bytes, len(stats.Generations), win.JournalBytes(), bytes)
		}
		want := int64(perSlice)
		if refresh {
			want *= 2
		}
		// The first of a run of slices is one for warming up.
		if per := (learned - before) / (9*filter.Sealed + 1); per < want*9/10 || per > want {
			t.Errorf("refresh %v: %d IDs are learned in a slice, want about %d", refresh, per, want)
		}
	}
}
