package bench

import (
	"context"
	"math"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

// judge is what is measured: it judges batches and ends cycles.
type judge interface {
	judge(b *pipeline.Batch)
	// duplicates is how many the last batch had.
	duplicates() uint64
	commit()
	journalBytes() uint64
}

// engine is what it takes to know a duplicate, and nothing more: hash of the ID,
// window, filter with its stamps and its sweep, journal, commits.
type engine struct {
	ids      *keys.Extractor
	found    []keys.Outcome
	repeated []bool
	window   *window.Window
	in       window.Batch
}

func newEngine(seed, perGen uint64, set filter.Set) (*engine, error) {
	ids, err := keys.Parse([]string{"key"}, seed, keys.Options{})
	if err != nil {
		return nil, err
	}
	w, err := window.New(windowConfig(perGen), set)
	if err != nil {
		return nil, err
	}
	return &engine{ids: ids, window: w, found: make([]keys.Outcome, feedBatch), repeated: make([]bool, feedBatch), in: window.Batch{
		Times: make([]int64, feedBatch), Hashes: make([]filter.Hash, feedBatch),
		Learn: make([]bool, feedBatch), Ages: make([]uint8, feedBatch), Marks: make([]window.Marks, feedBatch),
	}}, nil
}

func windowConfig(perGen uint64) window.Config {
	return window.Config{Span: filter.Sealed * engineSlice, GenerationCapacity: perGen, LearnLate: true}
}

func (e *engine) judge(b *pipeline.Batch) {
	e.ids.HashAll(b.Records, e.in.Hashes, e.found, e.repeated)
	for i := range b.Records {
		e.in.Times[i] = b.Records[i].Time
	}
	e.in.Offsets, e.in.Now = b.Offsets, b.Now
	e.window.Observe(&e.in)
}

// hashAlone is what the hashes of records take by themselves, in nanoseconds a record:
// the middle of several passes over the same ones.
func (e *engine) hashAlone(records []keys.Record) float64 {
	passes := make([]float64, hashPasses)
	for i := range passes {
		began := threadTime()
		e.ids.HashAll(records, e.in.Hashes, e.found, e.repeated)
		passes[i] = float64((threadTime() - began).Nanoseconds()) / float64(len(records))
	}
	return median(passes)
}

func (e *engine) duplicates() (n uint64) {
	for _, ages := range e.in.Ages {
		if ages != 0 {
			n++
		}
	}
	return n
}

func (e *engine) commit() {
	e.window.Seal()
	e.window.Commit()
}

func (e *engine) journalBytes() uint64 { return e.window.JournalBytes() }

// shard is the product's: around the engine it has verdicts, policies, counts,
// the audit sample, hot IDs.
type shard struct {
	*pipeline.Shard
	last pipeline.Counts
}

func newShard(seed uint64, kind string, w window.Config, set filter.Set) (*shard, error) {
	s, err := pipeline.NewShard(pipeline.Config{
		Keys: []string{"key"}, Seed: seed, Time: "record", Kind: kind, Window: w,
		NewSet: func() (filter.Set, error) { return set, nil },
	}, pipeline.Partition{Topic: "bench"}, false)
	return &shard{Shard: s}, err
}

func (s *shard) judge(b *pipeline.Batch) {
	s.Process(b)
	s.last = b.Counts
}

func (s *shard) duplicates() uint64 { return s.last.Verdicts[pipeline.Duplicate] }

func (s *shard) commit() {
	s.Seal()
	s.Commit()
}

func (s *shard) journalBytes() uint64 { return s.JournalBytes() }

const (
	// A cycle whose journal passes this share of the filter ends early, as in run.
	journalShare = 8
	minJournal   = 8 << 20
	// A checkpoint is copied in such steps between cycles, so many or so long.
	copyStep  = 1 << 20
	copySteps = 16
	copyFor   = 3 * time.Millisecond
	// hashPasses are enough for an interrupt to spoil one only.
	hashPasses = 9
)

// lane is a judge at work, with its own stream time.
type lane struct {
	judge
	set    filter.Set
	grows  *filter.Growing // the set, if it grows
	feed   *feed
	perGen uint64 // new IDs that fill a generation

	duplicates uint64 // so far
	generation int64
	filled     uint64 // new IDs in it
	open       uint64 // events since the last commit
	copied     uint64 // bytes of the checkpoint that is being copied
	changed    uint64 // how often the set's slabs had changed when that began
	buf        []byte
	measured   measured
}

func newLane(j judge, set filter.Set, f *feed, perGen uint64) *lane {
	grows, _ := set.(*filter.Growing)
	return &lane{judge: j, set: set, grows: grows, feed: f, perGen: perGen}
}

// turn is how long a lane is measured: whole generations, as many as it takes to
// have made the rotations and to have seen enough events, unless a limit comes
// first. Events and limit are for all of them together; zero events is no limit.
type turn struct {
	rotations int
	events    uint64
	limit     time.Duration
	copies    bool // checkpoints are copied meanwhile
}

// step is what a shard's thread does in one go, while the shard can do nothing
// else.
type step uint8

const (
	stepBatch    step = iota
	stepRotation      // the first batch of a generation
	stepGrowth        // a batch that made memory of a slab resident, or came to one
	stepCommit
	stepCopy
	steps
)

var stepNames = [steps]string{"batch", "rotation", "growth", "commit", "checkpoint copy"}

func (s step) String() string { return stepNames[s] }

// measured is what a turn took.
type measured struct {
	events    uint64
	fresh     uint64          // of them new IDs, by the feed
	took      time.Duration   // in the judge, copies left out
	batches   []time.Duration // of each batch
	spent     [steps]time.Duration
	longest   [steps]time.Duration
	rotations int
	slabs     int // that the set was grown by
}

// away is the longest that the thread was away with one step, and with which.
func (m *measured) away() (longest time.Duration, which step) {
	for kind, took := range m.longest {
		if took > longest {
			longest, which = took, step(kind)
		}
	}
	return longest, which
}

// begin gives the window its stream time. What it learns is on top of a generation
// that is full, so it is little.
func (l *lane) begin() {
	l.batch(stepBatch)
	l.end()
}

// measure runs for a turn, which begins with a rotation.
func (l *lane) measure(ctx context.Context, t turn) measured {
	l.measured = measured{}
	return l.goOn(ctx, t)
}

// goOn is measure, on top of what was measured before.
func (l *lane) goOn(ctx context.Context, t turn) measured {
	m := &l.measured
	enough := max(t.events, feedBatch)
	if t.events == 0 {
		enough = leastEvents
	}
	for (m.rotations < t.rotations || m.events < enough) && m.took < t.limit && ctx.Err() == nil {
		l.rotate()
		// A limit is shared by the generations that are to come.
		left := max(1, t.rotations-m.rotations+1)
		part := turn{limit: m.took + (t.limit-m.took)/time.Duration(left), events: math.MaxUint64, copies: t.copies}
		if t.events > 0 {
			part.events = m.events + max(feedBatch, (enough-min(enough, m.events))/uint64(left))
		}
		l.fill(ctx, stepRotation, part)
	}
	l.end()
	return *m
}

// fill feeds a generation until it has its share, or all events or the time of a turn are
// used up. First is what kind of step the first batch is.
func (l *lane) fill(ctx context.Context, first step, t turn) {
	m := &l.measured
	for kind := first; l.filled+feedBatch <= l.perGen && m.took < t.limit && m.events < t.events && ctx.Err() == nil; kind = stepBatch {
		l.batch(kind)
		if t.copies && l.open == 0 {
			l.copyCheckpoint()
		}
	}
}

// rotate lets the stream's time go on to the next generation.
func (l *lane) rotate() {
	l.generation++
	l.filled = 0
	l.measured.rotations++
	l.feed.rotate()
}

// batch feeds one batch, and commits where a cycle ends.
func (l *lane) batch(kind step) {
	fresh := l.feed.fresh
	b := l.feed.next(l.generation)
	memory, slabs := l.grown()
	took := timed(func() { l.judge.judge(b) })
	if more, now := l.grown(); more > memory || now > slabs {
		kind = stepGrowth
		l.measured.slabs += max(0, now-slabs)
	}
	l.note(kind, took)
	l.measured.took += took
	l.measured.batches = append(l.measured.batches, took)
	l.measured.events += feedBatch
	l.measured.fresh += l.feed.fresh - fresh
	l.filled += l.feed.fresh - fresh
	l.duplicates += l.judge.duplicates()
	l.open += feedBatch
	if l.open >= engineCycle || l.journalBytes() > max(minJournal, l.set.Bytes()/journalShare) {
		l.end()
	}
}

// grown is how far a set that grows has, in memory and in slabs.
func (l *lane) grown() (bytes uint64, slabs int) {
	if l.grows == nil {
		return 0, 0
	}
	slabs, _ = l.grows.Slabs()
	return l.grows.Bytes(), slabs
}

// end ends the cycle.
func (l *lane) end() {
	if l.open > 0 {
		took := timed(l.commit)
		l.note(stepCommit, took)
		l.measured.took += took
		l.open = 0
	}
}

// copyCheckpoint goes on with a copy of the set's body, as far as run does between
// two cycles, and begins again at its end.
func (l *lane) copyCheckpoint() {
	if l.buf == nil {
		l.buf = make([]byte, 0, copyStep)
	}
	if l.grows != nil {
		if _, changed := l.grows.Slabs(); changed != l.changed {
			l.copied, l.changed = 0, changed // as run does: the copy is of no use any more
		}
	}
	took := time.Duration(0)
	for range copySteps {
		from, end := l.copied, l.set.BodyBytes()
		to := min(end, from+copyStep)
		if took >= copyFor || from == to {
			return
		}
		one := timed(func() { l.buf = l.set.AppendBody(l.buf[:0], from, to) })
		l.note(stepCopy, one)
		took += one
		if l.copied = to; to == end {
			l.copied = 0
		}
	}
}

// timed does a step of the shard's thread and returns how long it took.
func timed(do func()) time.Duration {
	began := threadTime()
	do()
	return threadTime() - began
}

// note notes how long a step took.
func (l *lane) note(kind step, took time.Duration) {
	l.measured.spent[kind] += took
	l.measured.longest[kind] = max(l.measured.longest[kind], took)
}
