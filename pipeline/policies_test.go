package pipeline

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/window"
)

// oddRecord is a record and what the output thinks of it.
type oddRecord struct {
	id       string // "" has none, and malformed is not even JSON
	time     int64
	oversize bool // as the source knows beforehand
	refused  bool // as only the output knows
}

const malformed = "malformed"

func (r *oddRecord) record() Record {
	value := fmt.Sprintf(`{"id":%q}`, r.id)
	switch r.id {
	case "":
		value = `{}`
	case malformed:
		value = `{"id`
	}
	return Record{Value: []byte(value), Time: r.time}
}

// oddStream is a stream with everything that a policy is for: repeats near and far,
// records late, ahead and without a time, gaps, and some that the output does not take.
func oddStream(rng *rand.Rand, n int, span int64) []oddRecord {
	records := make([]oddRecord, n)
	now := epoch0
	ids, steps := 1+rng.IntN(2000), span/int64(1+rng.IntN(400))
	largeOneOf := []int{20, 1000, 1 << 30}[rng.IntN(3)]
	for i := range records {
		if now += rng.Int64N(1 + steps); rng.IntN(500) == 0 {
			now += rng.Int64N(3 * span)
		}
		r := oddRecord{time: now, id: strconv.Itoa(rng.IntN(ids)), oversize: rng.IntN(largeOneOf) == 0, refused: rng.IntN(largeOneOf) == 1}
		switch rng.IntN(60) {
		case 0, 1:
			r.id = ""
		case 2, 3:
			r.id = malformed
		case 4, 5, 6:
			r.time = now - rng.Int64N(3*span)
		case 7, 8, 9:
			if i > 0 { // the clock of the partition is one of records
				r.time = []int64{-1, 0, 1 << 62, 1<<63 - 1, 2 * farFuture}[rng.IntN(5)]
			}
		case 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21:
			r.id = fmt.Sprint("new-", i)
		}
		records[i] = r
	}
	return records
}

// oddRules are rules of any kind. Tiny says that the filter is one that is often wrong.
func oddRules(rng *rand.Rand) (cfg Config, tiny bool) {
	cfg = rules()
	cfg.Keys = []string{"json:id"}
	cfg.Diverts, cfg.LogChanges = rng.IntN(2) == 0, rng.IntN(2) == 0
	policies := []Policy{Pass, Drop, Pass, Drop, Fail}
	cfg.OnDuplicate = []DuplicatePolicy{DropDuplicates, TagDuplicates}[rng.IntN(2)]
	if cfg.Diverts {
		policies = append(policies, Divert, Divert)
		cfg.OnDuplicate = DuplicatePolicy(rng.IntN(3))
	}
	policy := func() Policy { return policies[rng.IntN(len(policies))] }
	cfg.OnLate, cfg.OnMissing, cfg.OnInvalid = policy(), policy(), policy()
	w := &cfg.Window
	w.Span, w.Refresh = time.Duration(7+rng.IntN(700))*time.Millisecond, rng.IntN(2) == 0
	if rng.IntN(2) == 0 {
		w.GenerationCapacity = uint64(1 + rng.IntN(100))
	}
	if rng.IntN(8) == 0 {
		w.OnFull = window.FailWhenFull
	}
	lines, picks := uint64(1<<14), 8
	if tiny = rng.IntN(3) == 0; tiny {
		lines, picks = 64, 2
	}
	cfg.NewSet = func() (filter.Set, error) {
		return filter.NewSliced(filter.Params{Lines: lines, LinesPerKey: 2, CellsPerLine: picks})
	}
	if rng.IntN(2) == 0 {
		cfg.NewSet = func() (filter.Set, error) {
			return filter.NewClassic(filter.ClassicParams{Bits: lines * 64, Hashes: uint(picks)})
		}
	}
	if rng.IntN(3) == 0 {
		w.OnFull, w.GenerationCapacity = window.GrowWhenFull, uint64(1+rng.IntN(30))
		limit := rng.Uint64N(1 << 21)
		cfg.NewSet = func() (filter.Set, error) {
			return newGrowing(w.GenerationCapacity, filter.Params{Lines: lines, LinesPerKey: 2, CellsPerLine: picks}, limit)
		}
	}
	return cfg, tiny
}

// newGrowing is a memory whose first filter takes so many IDs of a generation.
func newGrowing(capacity uint64, first filter.Params, limit uint64) (filter.Set, error) {
	return filter.NewGrowing(filter.GrowingConfig{Sliced: first, FPR: 1e-6, GenerationCapacity: capacity, MaxBytes: limit})
}

// oddRun is how a stream is put through a shard, and what came of it in committed cycles.
type oddRun struct {
	cfg      Config
	records  []oddRecord
	luck     *rand.Rand
	batch    int  // records in the largest
	restarts bool // now and then the shard is made again

	outcomes  []Outcome
	counts    Counts
	stopped   *Stop
	restarted int
}

func (x *oddRun) run(t *testing.T) {
	t.Helper()
	s, err := NewShard(x.cfg, p0, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	x.refuse(s)
	identifier, err := NewIdentifier(x.cfg)
	if err != nil {
		t.Fatal(err)
	}
	var changes []Change
	var open []Outcome
	var counts Counts
	for s.Next() < int64(len(x.records)) && x.stopped == nil {
		b := x.part(int(s.Next()), min(int(s.Next())+1+x.luck.IntN(x.batch), len(x.records)))
		if x.luck.IntN(2) == 0 {
			identifier.Identify(b)
		}
		s.Process(b)
		open = append(open, b.Outcomes...)
		counts.Plus(&b.Counts)
		if b.Stopped == nil && x.luck.IntN(5) == 0 {
			s.Rollback()
			open, counts = nil, Counts{}
			continue
		}
		if b.Stopped == nil && s.Next() < int64(len(x.records)) && x.luck.IntN(2) == 0 {
			continue // the cycle goes on
		}
		x.stopped = b.Stopped
		s.Seal()
		if at := s.Position(); at.Change != nil {
			changes = append(changes, copyOfChange(t, at.Change))
		}
		s.Commit()
		x.outcomes = append(x.outcomes, open...)
		x.counts.Plus(&counts)
		open, counts = nil, Counts{}
		if x.restarts && x.luck.IntN(6) == 0 {
			s = x.again(t, s, changes)
		}
	}
	if err := x.counts.Check(); err != nil || x.counts.In != uint64(len(x.outcomes)) {
		t.Errorf("%v, %d outcomes of %d records", err, len(x.outcomes), x.counts.In)
	}
}

// part is the records from from up to to.
func (x *oddRun) part(from, to int) *Batch {
	b := batchOf(int64(from))
	b.Next = int64(to)
	for i := from; i < to; i++ {
		b.Records = append(b.Records, x.records[i].record())
		b.Offsets = append(b.Offsets, int64(i))
		b.Oversize = append(b.Oversize, x.records[i].oversize)
	}
	return b
}

// refuse tells the shard what the output has refused.
func (x *oddRun) refuse(s *Shard) {
	for i := range x.records {
		if x.records[i].refused {
			s.Refuse(Refusal{Partition: p0, Offset: int64(i), Err: errTooLarge})
		}
	}
}

// again is the shard after a restart, from its changes or from the input.
func (x *oddRun) again(t *testing.T, s *Shard, changes []Change) *Shard {
	t.Helper()
	x.restarted++
	r, err := NewRebuild(x.cfg, p0, s.State())
	if err != nil {
		t.Fatal(err)
	}
	if x.cfg.LogChanges && x.luck.IntN(2) == 0 {
		for i := range changes {
			if err := r.LearnChange(&changes[i]); err != nil {
				t.Fatal(err)
			}
		}
	} else {
		b := x.part(0, int(s.Next()))
		for i := range b.Oversize {
			b.Oversize[i] = b.Oversize[i] || x.records[i].refused
		}
		r.Learn(b)
	}
	again := r.Done(0, s.Next())
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	x.refuse(again)
	return again
}

// check holds the outcomes, of a filter that is never wrong, to the promises: what is
// taken for a duplicate is one of a record that came out, and, unless the shard was made
// again of the input, one inside the window is taken for one.
func (x *oddRun) check(t *testing.T) {
	t.Helper()
	span := x.cfg.Window.Span.Milliseconds()
	came, learned := map[string]bool{}, map[string]int64{} // IDs, and the stream time then
	m := int64(-1)
	for i, o := range x.outcomes {
		r := &x.records[i]
		late := m >= 0 && r.time > 0 && r.time < m-span
		if r.time <= farFuture {
			m = max(m, r.time)
		}
		if late != (o.Marks&Late != 0) {
			t.Fatalf("record %d, %+v: %+v, but late is %v", i, r, o, late)
		}
		if r.id == "" || r.id == malformed {
			continue
		}
		at, is := learned[r.id]
		switch {
		case o.Verdict == Duplicate && !came[r.id]:
			t.Fatalf("record %d, %+v: %+v, but no copy of it came out; rules %+v", i, r, o, x.cfg)
		case o.Verdict != Duplicate && is && m-at <= span && !x.restarts:
			t.Fatalf("record %d, %+v: %+v, but a copy of it came out %d ms before; rules %+v", i, r, o, m-at, x.cfg)
		}
		if o.Verdict == Unique && o.Fate == Out {
			came[r.id] = true
			if o.Marks&Unlearned == 0 {
				learned[r.id] = m
			}
		}
	}
}

// Under any rules, however a stream is cut, identified beforehand, committed and rolled
// back: the same outcomes, no first copy lost, and no duplicate missed. And over restarts,
// from the input too, no first copy lost: whatever a policy took out teaches nothing.
func TestAnyPoliciesKeepThePromises(t *testing.T) {
	rounds := 60
	if os.Getenv("STREAMDEDUP_LONG") == "1" {
		rounds = 600
	}
	base := rand.New(rand.NewPCG(seed(t), 31))
	stops := map[Reason]int{}
	var sum Counts
	restarted := 0
	for range rounds {
		rng := rand.New(rand.NewPCG(base.Uint64(), 0))
		cfg, tiny := oddRules(rng)
		records := oddStream(rng, 3000, cfg.Window.Span.Milliseconds())
		var first *oddRun
		for _, batch := range []int{1, 7, 3000} {
			x := &oddRun{cfg: cfg, records: records, luck: rng, batch: batch}
			x.run(t)
			if first == nil {
				first = x
			} else if !slices.Equal(x.outcomes, first.outcomes) || x.counts != first.counts || fmt.Sprint(x.stopped) != fmt.Sprint(first.stopped) {
				t.Fatalf("batches of up to %d: %+v, stopped %v; of one record: %+v, stopped %v; rules %+v",
					batch, x.counts, x.stopped, first.counts, first.stopped, cfg)
			}
		}
		sum.Plus(&first.counts)
		if first.stopped != nil {
			stops[first.stopped.Reason]++
		}
		if tiny {
			continue
		}
		first.check(t)
		x := &oddRun{cfg: cfg, records: records, luck: rng, batch: 300, restarts: true}
		x.run(t)
		x.check(t)
		restarted += x.restarted
	}
	// The sink alone gives the last mark, retimed.
	for _, n := range [][]uint64{sum.Verdicts[:], sum.Fates[:], sum.Marks[:5]} {
		if slices.Contains(n, 0) {
			t.Errorf("%+v: the streams are too tame", sum)
		}
	}
	if len(stops) < 3 || restarted == 0 {
		t.Errorf("stops %v, %d restarts: the rules are too tame", stops, restarted)
	}
}
