package pipeline

import (
	"errors"
	"fmt"
	"slices"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/window"
)

// chunk is how many records are judged in one go: enough to hide the latency of
// memory behind each other, few enough that what pass 1 leaves for pass 2 stays
// in the second-level cache.
const chunk = 1024

// apart is how many of anything made of words fill lines of cache of their own. What a
// shard writes all the time begins with as many: the allocator sets smaller arrays side
// by side, and the neighbour may be another worker's.
const apart = 8

// Shard is one partition's memory and the rules it judges by. It has one owner:
// no method may run concurrently with another. [Shard.Process] does not allocate
// once the batches have had their largest size.
type Shard struct {
	rules Config
	finder
	allow  allowList
	set    filter.Set
	window *window.Window
	print  string       // fingerprint
	shown  window.Marks // all but no_time where nobody asked for the time

	partition Partition
	start     int64   // where the oldest cycle that is not committed began
	sealed    []int64 // where sealed cycles ended, oldest first
	next      int64   // the next offset to judge
	stopped   *Stop   // it judges nothing more until a rollback
	refusals  []Refusal
	limit     SizeLimit
	log       changeLog
	sample    sample
	hot       hotIDs
	gap       bool // the changelog lacks what lies before the first commit

	in      window.Batch // views into scratch
	scratch scratch
}

// scratch is the memory behind a window.Batch, and what pass 1 found.
type scratch struct {
	ids     identities // of the chunk: views into found, or into what came with the batch
	found   identities
	hashes  [chunk]filter.Hash // those to look for, where they are not those of the IDs
	hasID   [chunk]bool
	noLearn [chunk]bool
	learn   [chunk]bool
	ages    [chunk]uint8
	marks   [chunk]window.Marks
}

// NewShard makes the shard of p, which has seen nothing. Cold says that it
// should have: records were read before that it does not know, and its coverage
// of the window starts at zero.
func NewShard(cfg Config, p Partition, cold bool) (*Shard, error) {
	s, err := newShard(cfg, p)
	if err != nil {
		return nil, err
	}
	if s.window, err = window.New(s.rules.window(), s.set); err != nil {
		return nil, errors.Join(err, s.set.Close())
	}
	if cold {
		s.window.MarkCold()
	}
	return s, nil
}

// newShard is a shard without its window.
func newShard(cfg Config, p Partition) (*Shard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("make shard of %s: %w", p, err)
	}
	finder, err := newFinder(cfg)
	if err != nil {
		return nil, fmt.Errorf("make shard of %s: %w", p, err)
	}
	s := &Shard{
		in:    window.Batch{Runs: make([]window.Run, 0, apart)},
		rules: cfg, finder: finder, allow: newAllowList(cfg.Allow), partition: p,
		log:   changeLog{on: cfg.LogChanges, runs: make([]Learned, 0, apart)},
		shown: ^window.Marks(0),
	}
	if s.clock == nil {
		s.shown = ^window.MarkNoTime
	}
	if s.print, err = cfg.Fingerprint(); err != nil {
		return nil, fmt.Errorf("make shard of %s: %w", p, err)
	}
	if s.set, err = cfg.NewSet(); err != nil {
		return nil, fmt.Errorf("make shard of %s: %w", p, err)
	}
	capacity := cfg.Window.GenerationCapacity
	if g, grows := s.set.(*filter.Growing); grows {
		capacity = max(capacity, g.Capacity())
	}
	s.sample = newSample(capacity)
	return s, nil
}

// Process judges the records of b in order and fills its outcomes and counts.
// It stops early, and says so in b.Stopped, where a policy or the output lets
// the partition go no further; of batches after that it judges nothing.
func (s *Shard) Process(b *Batch) {
	b.Outcomes = slices.Grow(b.Outcomes[:0], len(b.Records))
	b.Counts = Counts{}
	b.Slice = s.rules.Window.Slice()
	b.Stopped = s.stopped
	if s.stopped != nil {
		return
	}
	b.IDs.check(b)
	for from := 0; from < len(b.Records) && b.Stopped == nil; {
		from += s.judge(b, from, min(from+chunk, len(b.Records)))
	}
	s.limit = s.limit.change(b.SizeLimit, b.First)
	s.next = b.Next
	if b.Stopped != nil {
		s.stopped, s.next = b.Stopped, b.Stopped.Offset
	}
}

// judge judges records of b from from on, at most a chunk and none from to on. It
// returns how many, which is at least one unless the partition stops before it.
func (s *Shard) judge(b *Batch, from, to int) int {
	n, stop := s.extract(b, from, to)
	observed, full := s.window.Observe(&s.in)
	s.log.take(&s.in)
	s.audit(b, from, observed)
	s.look(b, from, observed)
	if observed < n {
		stop = s.stop(b, from+observed, windowReason(full), nil)
	}
	b.Stopped = stop
	s.conclude(b, observed)
	return observed
}

// extract is pass 1: the IDs and times of records from from on, as far as the
// policies let the partition go. It sets s.in to them and returns their number.
func (s *Shard) extract(b *Batch, from, to int) (n int, stop *Stop) {
	x := &s.scratch
	if b.IDs != nil {
		x.ids = b.IDs.of.part(from, to)
	} else {
		s.find(b.Records[from:to], b.Now, &x.found)
		x.ids = x.found
	}
	hashes := x.ids.hashes
	if s.allow != nil {
		hashes = s.allow.replace(x.hashes[:0], hashes)
	}
	s.in = window.Batch{Now: s.now(b), Hashes: hashes, Runs: s.in.Runs}
	n, stop = s.passable(b, from, x.ids.found)
	if b.Oversize != nil || len(s.refusals) > 0 {
		n, stop = s.takeable(b, from, n, stop)
	}
	if s.in.HasID != nil {
		s.in.HasID = s.in.HasID[:n]
	}
	s.in.Offsets, s.in.Times, s.in.Hashes = b.Offsets[from:from+n], x.ids.times[:n], hashes[:n]
	s.in.Learn, s.in.Ages, s.in.Marks = x.learn[:n], x.ages[:n], x.marks[:n]
	return n, stop
}

// passable is how many of the chunk's records, which begin at record from of b, the
// policies about their IDs let the partition go past, and why no more. It sets s.in.HasID.
func (s *Shard) passable(b *Batch, from int, found []keys.Outcome) (n int, stop *Stop) {
	var odd keys.Outcome
	for _, f := range found {
		odd |= f
	}
	if odd == keys.Found {
		return len(found), nil // and HasID stays nil: all have one
	}
	s.in.HasID = s.scratch.hasID[:0]
	for i, f := range found {
		if policy, why := s.policy(f); f != keys.Found && policy == Fail {
			return i, s.stop(b, from+i, why, nil)
		}
		s.in.HasID = append(s.in.HasID, f == keys.Found)
	}
	return len(found), nil
}

// takeable is how many of the chunk's first n records the partition can go past
// though an output does not take some of them, and why no more; else it is n and the
// stop that was known before. It ends before a record of which the look-up decides
// that, unless it is the first: then all before it is learned. It sets s.in.NoLearn.
func (s *Shard) takeable(b *Batch, from, n int, stop *Stop) (int, *Stop) {
	s.in.NoLearn = s.scratch.noLearn[:0]
	for i := range n {
		tooLarge := s.tooLarge(b, from+i)
		if tooLarge && !s.takenAside(b.Offsets[from+i]) {
			if i > 0 {
				return i, nil
			}
			if stop := s.mustStop(b, from); stop != nil {
				return 0, stop
			}
		}
		s.in.NoLearn = append(s.in.NoLearn, tooLarge)
	}
	return n, stop
}

// now is the wall clock that b's times are compared with.
func (s *Shard) now(b *Batch) int64 {
	if s.clock == nil {
		return 0
	}
	return b.Now
}

// tooLarge is whether the output does not take record i of b.
func (s *Shard) tooLarge(b *Batch, i int) bool {
	return b.Oversize != nil && b.Oversize[i] || s.refused(b.Offsets[i])
}

// takenAside is whether there is an output for a diverted record at offset.
func (s *Shard) takenAside(offset int64) bool {
	refusal := s.refusal(offset)
	return s.rules.Diverts && (refusal == nil || !refusal.Diverted)
}

// mustStop is why the partition cannot go past record i of b, the chunk's first, which
// no output takes. It is nil where that is dropped: it needs none.
func (s *Shard) mustStop(b *Batch, i int) *Stop {
	found := s.scratch.ids.found[0]
	ages, marks := s.window.Peek(s.scratch.ids.times[0], s.in.Now, s.in.Hashes[0])
	if found != keys.Found {
		ages = 0
	}
	late := marks&window.MarkLate != 0 && s.rules.OnLate == Fail // the window stops at it
	if late || s.outcome(found, ages, marks, true).Fate == Dropped {
		return nil
	}
	var err error
	if refusal := s.refusal(b.Offsets[i]); refusal != nil {
		err = refusal.Err
	}
	return s.stop(b, i, ReasonTooLarge, err)
}

// policy is what happens to a record because of its ID, and the reason.
func (s *Shard) policy(found keys.Outcome) (Policy, Reason) {
	switch found {
	case keys.Found:
		return Pass, NoReason
	case keys.Invalid:
		return s.rules.OnInvalid, ReasonInvalid
	}
	return s.rules.OnMissing, ReasonMissing
}

func (s *Shard) stop(b *Batch, i int, why Reason, err error) *Stop {
	return &Stop{Partition: b.Partition, Offset: b.Offsets[i], Reason: why, Err: err}
}

func windowReason(s window.Stop) Reason {
	if s == window.StopLate {
		return ReasonLate
	}
	return ReasonFull
}

// conclude fills the outcomes and counts of the chunk's first n records. Of nearly all
// there is nothing to say but whether they are duplicates.
func (s *Shard) conclude(b *Batch, n int) {
	x := &s.scratch
	found, repeated, marks, ages := x.ids.found[:n], x.ids.repeated[:n], x.marks[:n], x.ages[:n]
	at := len(b.Outcomes)
	b.Outcomes = b.Outcomes[:at+n]
	outcomes := b.Outcomes[at:]
	unique, duplicate := 0, s.outcome(keys.Found, 1, 0, false)
	for i := range outcomes {
		switch {
		case uint8(found[i])|uint8(marks[i]&s.shown) != 0 || repeated[i] || s.in.NoLearn != nil && s.in.NoLearn[i]:
			outcomes[i] = s.outcome(found[i], ages[i], marks[i], s.in.NoLearn != nil && s.in.NoLearn[i])
			b.Counts.add(outcomes[i])
			b.Counts.found(found[i], repeated[i])
		case ages[i] != 0:
			duplicate.Age = ages[i]
			outcomes[i] = duplicate
			b.Counts.add(duplicate)
		default:
			outcomes[i] = Outcome{}
			unique++
		}
	}
	b.Counts.addUnique(uint64(unique))
}

// outcome is what becomes of a record, by what the look-up found.
func (s *Shard) outcome(found keys.Outcome, ages uint8, marks window.Marks, tooLarge bool) Outcome {
	o := Outcome{Marks: Marks(marks & s.shown), Age: ages}
	switch found {
	case keys.Found:
		if o.Age != 0 {
			o.Verdict, o.Reason = Duplicate, ReasonDuplicate
			o.Fate = fatesOfDuplicates[s.rules.OnDuplicate]
		}
	case keys.Invalid:
		o.Verdict = Invalid
	default:
		o.Verdict = Missing
	}
	o.send(s.policy(found))
	if o.Fate == Out && o.Marks&Late != 0 {
		o.send(s.rules.OnLate, ReasonLate)
	}
	if o.Fate == Out && tooLarge {
		o.send(Divert, ReasonTooLarge)
	}
	return o
}

var fatesOfDuplicates = [...]Fate{DropDuplicates: Dropped, DivertDuplicates: Diverted, TagDuplicates: Out}

// send applies a policy.
func (o *Outcome) send(p Policy, why Reason) {
	switch p {
	case Drop:
		o.Fate, o.Reason = Dropped, why
	case Divert:
		o.Fate, o.Reason = Diverted, why
	}
}

// Refuse says that the output, or the divert topic, refused a record for itself:
// when it is read again it is diverted, or the partition stops before it.
func (s *Shard) Refuse(r Refusal) { s.refusals = append(s.refusals, r) }

func (s *Shard) refused(offset int64) bool {
	return len(s.refusals) > 0 && s.refusal(offset) != nil
}

// refusal is the last word on a record: the divert topic may have refused what
// the output refused before.
func (s *Shard) refusal(offset int64) *Refusal {
	for i := len(s.refusals) - 1; i >= 0; i-- {
		if s.refusals[i].Offset == offset {
			return &s.refusals[i]
		}
	}
	return nil
}

// Next is the next offset to judge.
func (s *Shard) Next() int64 { return s.next }

// Begin sets the next offset of a shard that has judged nothing yet.
func (s *Shard) Begin(next int64) { s.start, s.next = next, next }

// Position is the next offset, as metadata what it takes to rebuild the shard's
// memory from the input, and what was learned in the cycle that was sealed last, or in
// the open one where none is sealed. It is asked for before anything else is judged.
func (s *Shard) Position() Position {
	state := s.State()
	p := Position{Partition: s.partition, Next: s.next, Metadata: state.Metadata()}
	if s.log.on {
		begin := s.start
		if n := len(s.sealed); n > 1 {
			begin = s.sealed[n-2]
		}
		p.Change = &Change{
			Begin: begin, Next: s.next, Gap: s.gap, State: state, Learned: s.log.live(state.Window.Rotation),
		}
	}
	return p
}

// Seal ends the cycle: what comes after it is another's.
func (s *Shard) Seal() {
	s.window.Seal()
	s.sample.seal()
	s.log.seal()
	s.sealed = append(s.sealed, s.next)
}

// Commit forgets how to undo the oldest sealed cycle. Without one it panics.
func (s *Shard) Commit() {
	s.window.Commit()
	s.sample.commit()
	s.log.commit()
	s.start = s.sealed[0]
	s.sealed = append(s.sealed[:0], s.sealed[1:]...)
	s.gap = false
	kept := s.refusals[:0]
	for _, r := range s.refusals {
		if r.Offset >= s.start {
			kept = append(kept, r)
		}
	}
	s.refusals = kept
}

// Rollback takes back everything since the last commit, byte for byte.
func (s *Shard) Rollback() {
	s.window.Rollback()
	s.sample.rollback()
	s.log.rollback()
	s.next, s.sealed = s.start, s.sealed[:0]
	s.stopped = nil
}

// slabs is how often the number of slabs of a memory that grows has changed.
func (s *Shard) slabs() uint64 {
	if g, grows := s.set.(*filter.Growing); grows {
		_, changed := g.Slabs()
		return changed
	}
	return 0
}

// Sweep does a small step of the cleaning that rotations owe.
func (s *Shard) Sweep() { s.window.Sweep() }

// Stats is the state of the memory in figures.
func (s *Shard) Stats() window.Stats { return s.window.Stats() }

// JournalBytes is how much it would take to undo the open cycle.
func (s *Shard) JournalBytes() uint64 { return s.window.JournalBytes() }

// AppendState appends the whole memory, for comparing two shards.
func (s *Shard) AppendState(b []byte) []byte { return s.window.AppendState(b) }

// Close gives the memory back. The shard must not be used afterwards.
func (s *Shard) Close() error { return s.set.Close() }
