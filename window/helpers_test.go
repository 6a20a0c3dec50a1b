package window

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// newRand is seeded from STREAMDEDUP_SEED, else by chance, and prints the seed.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("STREAMDEDUP_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("read STREAMDEDUP_SEED: %v", err)
		}
	}
	t.Logf("STREAMDEDUP_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// scaled is n in the long run and a tenth of it otherwise.
func scaled(n int) int {
	if os.Getenv("STREAMDEDUP_LONG") == "1" {
		return n
	}
	return n / 10
}

// hashOf mixes i well (SplitMix64), as the hash of a real ID would be.
func hashOf(i uint64) filter.Hash {
	z := i*0x9e3779b97f4a7c15 + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return filter.Hash(z ^ z>>31)
}

// record is a row of a Batch, read at a wall clock of its own.
type record struct {
	offset, time, now int64
	hash              filter.Hash
	noID, noLearn     bool
}

// verdict is what Observe said about a record.
type verdict struct {
	ages    uint8
	marks   Marks
	learned bool
}

// reader feeds records to a window and owns the memory of the batches.
type reader struct {
	batch    Batch
	verdicts []verdict
}

// read gives the records to w, in a batch for each stretch of equal clocks, and
// returns the verdicts, valid until the next read.
func (r *reader) read(w *Window, records []record) ([]verdict, Stop) {
	r.verdicts = r.verdicts[:0]
	for from := 0; from < len(records); {
		to := from + 1
		for to < len(records) && records[to].now == records[from].now {
			to++
		}
		b := r.fill(records[from:to])
		n, stop := w.Observe(b)
		for i := range n {
			r.verdicts = append(r.verdicts, verdict{b.Ages[i], b.Marks[i], b.Learn[i]})
		}
		if stop != StopNone {
			return r.verdicts, stop
		}
		from = to
	}
	return r.verdicts, StopNone
}

// fill makes a batch of records of equal clocks. The outputs hold rubbish, which
// Observe must not read.
func (r *reader) fill(records []record) *Batch {
	b := &r.batch
	*b = Batch{
		Offsets: b.Offsets[:0], Times: b.Times[:0], Hashes: b.Hashes[:0], HasID: b.HasID[:0], NoLearn: b.NoLearn[:0],
		Learn: b.Learn[:0], Ages: b.Ages[:0], Marks: b.Marks[:0], Runs: b.Runs, Now: records[0].now,
	}
	for _, rec := range records {
		b.Offsets = append(b.Offsets, rec.offset)
		b.Times = append(b.Times, rec.time)
		b.Hashes = append(b.Hashes, rec.hash)
		b.HasID = append(b.HasID, !rec.noID)
		b.NoLearn = append(b.NoLearn, rec.noLearn)
		b.Learn = append(b.Learn, rec.offset%2 == 0)
		b.Ages = append(b.Ages, 0xa5)
		b.Marks = append(b.Marks, 0xff)
	}
	return b
}

// config is a window that learns everything and is never full.
func config(span time.Duration) Config {
	return Config{Span: span, GenerationCapacity: 1 << 40, LearnLate: true}
}

func mustNew(t testing.TB, cfg Config, set filter.Set) *Window {
	t.Helper()
	w, err := New(cfg, set)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// sets are the implementations that a property has to hold for. Whoever opens
// one closes it.
var sets = map[string]func(testing.TB) filter.Set{
	"exact": func(testing.TB) filter.Set { return newExactSet() },
	"sliced": func(t testing.TB) filter.Set {
		s, err := filter.NewSliced(filter.Params{Lines: 1024, LinesPerKey: 3, CellsPerLine: 4})
		if err != nil {
			t.Fatal(err)
		}
		return s
	},
	"classic": func(t testing.TB) filter.Set {
		s, err := filter.NewClassic(filter.ClassicParams{Bits: 1 << 14, Hashes: 12})
		if err != nil {
			t.Fatal(err)
		}
		return s
	},
	"growing": func(t testing.TB) filter.Set { return newGrowing(t, 40, math.MaxInt64) },
}

// newGrowing is a set whose first filter takes so many hashes of a generation.
func newGrowing(t testing.TB, capacity, limit uint64) *filter.Growing {
	g, err := filter.NewGrowing(filter.GrowingConfig{
		Sliced: filter.Params{Lines: 512, LinesPerKey: 3, CellsPerLine: 4}, FPR: 1e-6,
		GenerationCapacity: capacity, MaxBytes: limit,
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// openSet opens one of the sets until the test ends.
func openSet(t testing.TB, open func(testing.TB) filter.Set) filter.Set {
	t.Helper()
	s := open(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close set: %v", err)
		}
	})
	return s
}

// history makes random records of one partition: mostly in order, with gaps,
// stragglers, wrong and missing times, and repeats from all over the window.
type history struct {
	rng    *rand.Rand
	span   int64
	slice  int64
	now    int64 // where the producers' clocks are
	offset int64
	ids    uint64
	clock  int // records at the start that have no believable time
	known  []filter.Hash
}

func newHistory(rng *rand.Rand, cfg Config) *history {
	h := &history{rng: rng, span: cfg.Span.Milliseconds(), slice: cfg.Slice(), now: 1_700_000_000_000, ids: rng.Uint64()}
	if rng.IntN(2) == 0 {
		h.clock = rng.IntN(2000)
	}
	return h
}

// next is the next record. About 100 of them make a generation.
func (h *history) next() record {
	rng := h.rng
	h.offset += 1 + rng.Int64N(3)/2
	switch p := rng.IntN(10_000); {
	case p < 3:
		h.now += rng.Int64N(40 * h.slice)
	case p < 20:
		h.now += rng.Int64N(3 * h.slice)
	default:
		h.now += rng.Int64N(h.slice/50 + 2)
	}
	rec := record{offset: h.offset, time: h.now, now: h.now + rng.Int64N(2)}
	switch p := rng.IntN(100); {
	case p < 15:
		rec.time -= rng.Int64N(h.slice)
	case p < 20:
		rec.time -= rng.Int64N(2 * h.span)
	case p < 23:
		rec.time = rec.now + rng.Int64N(h.slice+2)
	case p < 25:
		rec.time += rng.Int64N(100 * h.span)
	case p < 27:
		rec.time = [...]int64{NoTime, -1, 0, 1<<63 - 1, 1<<62 + 1}[rng.IntN(5)]
	}
	if h.clock > 0 {
		h.clock--
		rec.time = [...]int64{NoTime, rec.now + 1000*h.span}[rng.IntN(2)]
	}
	rec.hash = h.id()
	rec.noID = rng.IntN(50) == 0
	rec.noLearn = rng.IntN(50) == 0
	return rec
}

// id is a new hash, or one of the last few thousand again.
func (h *history) id() filter.Hash {
	const remembered = 2000
	if len(h.known) > 0 && h.rng.IntN(2) == 0 {
		return h.known[h.rng.IntN(len(h.known))]
	}
	h.ids++
	id := hashOf(h.ids)
	if len(h.known) < remembered {
		h.known = append(h.known, id)
	} else {
		h.known[h.rng.IntN(remembered)] = id
	}
	return id
}

func (h *history) take(n int) []record {
	records := make([]record, n)
	for i := range records {
		records[i] = h.next()
	}
	return records
}

func (v verdict) String() string {
	return fmt.Sprintf("ages %08b marks %v learned %v", v.ages, v.marks, v.learned)
}
