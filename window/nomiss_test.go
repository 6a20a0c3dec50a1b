package window

import (
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// TestNoMissInsideWindow is the promise of the package on random streams, read
// in random batches with rollbacks, stacked commits and restarts, for thousands
// of rotations: whatever is read again before the stream has moved by the span, from
// its last copy on where repeats refresh it, is caught, through every restart, which
// may change that setting, unless a full generation could not take it;
// what the set must have forgotten passes, marks and loads are right.
func TestNoMissInsideWindow(t *testing.T) {
	rng := newRand(t)
	for name, open := range map[string]struct {
		set     func(testing.TB) filter.Set
		records int
		exact   bool
	}{
		"exact":   {sets["exact"], 2_000_000, true},
		"sliced":  {sets["sliced"], 8_000_000, false},
		"growing": {sets["growing"], 4_000_000, false},
	} {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		t.Run(name, func(t *testing.T) {
			const lives = 20
			var falsePositives, heldLonger, unlearned, restarts, rotations, refreshed int
			for range lives {
				l := newLife(t, rng, open.set, open.exact)
				l.run(scaled(open.records) / lives)
				if err := l.set.Close(); err != nil {
					t.Fatal(err)
				}
				falsePositives += l.model.falsePositives
				heldLonger += l.model.heldLonger
				unlearned += l.model.unlearned
				restarts += l.restarts
				rotations += int(l.model.rotations)
				refreshed += l.model.refreshed
			}
			t.Logf("%d rotations, %d false positives, %d refreshed; %d restarts hold %d hashes longer and found no room for %d",
				rotations, falsePositives, refreshed, restarts, heldLonger, unlearned)
			if limit := scaled(open.records) / 1000; falsePositives > limit || open.exact && falsePositives > 0 {
				t.Errorf("%d false positives in %d records", falsePositives, scaled(open.records))
			}
			if rotations < scaled(open.records)/1000 {
				t.Errorf("only %d rotations: the streams stand still", rotations)
			}
			if restarts < lives/4 || heldLonger == 0 || refreshed < scaled(open.records)/1000 {
				t.Errorf("%d restarts of %d lives hold %d hashes longer, %d are refreshed: the test is too tame", restarts, lives, heldLonger, refreshed)
			}
		})
	}
}

// life is a partition from its first record on, through restarts.
type life struct {
	t       *testing.T
	rng     *rand.Rand
	open    func(testing.TB) filter.Set
	cfg     Config
	history *history
	model   *model
	reader  reader

	set       filter.Set
	window    *Window
	pending   []record  // read since the last commit, or to be read again
	verdicts  []verdict // on pending, as far as they were read
	seals     []int     // sealed sections as ends in pending
	committed []record  // what a restart reads
	readings  []reading // where the stream was at each of these
	restarts  int
}

func newLife(t *testing.T, rng *rand.Rand, open func(testing.TB) filter.Set, exact bool) *life {
	spans := []time.Duration{7, 8, 48, 700, 5000, 60_000, 86_400_000}
	cfg := config(spans[rng.IntN(len(spans))] * time.Millisecond)
	if rng.IntN(3) == 0 {
		cfg.GenerationCapacity = 1 + rng.Uint64N(60)
	}
	cfg.LearnLate = rng.IntN(2) == 0
	cfg.Refresh = rng.IntN(2) == 0
	set := open(t)
	if _, grows := set.(*filter.Growing); grows {
		cfg.OnFull, cfg.GenerationCapacity = GrowWhenFull, 1<<40 // for the model: it is never full
	}
	l := &life{t: t, rng: rng, open: open, cfg: cfg, history: newHistory(rng, cfg), model: newModel(cfg, exact)}
	l.set = set
	l.window = mustNew(t, cfg, l.set)
	return l
}

func (l *life) run(records int) {
	for n := 0; n < records && !l.t.Failed(); {
		switch p := l.rng.IntN(1000); {
		case p < 800:
			n += l.read(1 + l.rng.IntN(1<<l.rng.IntN(9)))
		case p < 870:
			l.window.Seal()
			l.seals = append(l.seals, len(l.verdicts))
		case p < 970:
			l.commit()
		case p < 975:
			l.window.Sweep()
		case p < 987:
			l.window.Rollback()
			l.verdicts, l.seals = l.verdicts[:0], l.seals[:0]
		default:
			l.restart()
		}
	}
}

// read reads n records, first those that a rollback gave back, and returns how
// many of them are new.
func (l *life) read(n int) (fresh int) {
	at := len(l.verdicts)
	for len(l.pending) < at+n {
		l.pending = append(l.pending, l.history.next())
		fresh++
	}
	got, stop := l.reader.read(l.window, l.pending[at:at+n])
	if stop != StopNone || len(got) != n {
		l.t.Fatalf("read %d of %d records, stop %v", len(got), n, stop)
	}
	l.verdicts = append(l.verdicts, got...)
	return fresh
}

// commit makes the oldest sealed section final and has its verdicts checked.
func (l *life) commit() {
	if len(l.seals) == 0 {
		return
	}
	l.window.Commit()
	end := l.seals[0]
	for i, rec := range l.pending[:end] {
		here, err := l.model.check(rec, l.verdicts[i])
		if err != nil {
			l.t.Fatalf("%+v, %+v: %v", l.cfg, rec, err)
		}
		l.readings = append(l.readings, here)
	}
	l.committed = append(l.committed, l.pending[:end]...)
	l.pending = append(l.pending[:0], l.pending[end:]...)
	l.verdicts = append(l.verdicts[:0], l.verdicts[end:]...)
	l.seals = append(l.seals[:0], l.seals[1:]...)
	for i := range l.seals {
		l.seals[i] -= end
	}
}

// restart makes the window again from its state and the input. It does so where
// the model knows what a rebuild learns: what may have been late is for another
// test, and false positives make loads differ.
func (l *life) restart() {
	if !l.cfg.LearnLate || l.cfg.GenerationCapacity < 1<<40 && !l.model.exact {
		return
	}
	l.restarts++
	l.window.Seal()
	l.seals = append(l.seals, len(l.verdicts))
	for len(l.seals) > 0 {
		l.commit()
	}
	state := l.window.State()
	l.cfg.Refresh = l.rng.IntN(2) == 0
	l.model.cfg = l.cfg
	set := l.open(l.t)
	r, err := Rebuild(l.cfg, set, state)
	if err != nil {
		l.t.Fatal(err)
	}
	live := sort.Search(len(l.committed), func(i int) bool { return l.committed[i].offset >= r.From() })
	l.committed = slices.Delete(l.committed, 0, live)
	l.readings = slices.Delete(l.readings, 0, live)
	relearn(l.rng, r, l.committed)
	unlearned, err := l.model.rebuild(l.committed, l.readings)
	if err != nil {
		l.t.Fatal(err)
	}
	if got := r.Unlearned(); got != unlearned {
		l.t.Fatalf("the rebuild found no room for %d records, want %d", got, unlearned)
	}
	if err := l.set.Close(); err != nil {
		l.t.Fatal(err)
	}
	l.set, l.window = set, r.Done(r.From())
	if got := l.window.State(); !equalStates(got, state) {
		l.t.Fatalf("state after a restart is %+v, was %+v", got, state)
	}
}

// relearn gives r the records in random portions.
func relearn(rng *rand.Rand, r *Rebuilder, records []record) {
	for len(records) > 0 {
		n := min(len(records), 1+rng.IntN(1000))
		var offsets, times []int64
		var hashes []filter.Hash
		var learn []bool
		for _, rec := range records[:n] {
			offsets, times = append(offsets, rec.offset), append(times, rec.time)
			hashes, learn = append(hashes, rec.hash), append(learn, !rec.noID && !rec.noLearn)
		}
		r.Learn(offsets, times, hashes, learn)
		records = records[n:]
	}
}
