package window

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// Window remembers the hashes of one partition for a span of its stream time.
// The package comment has the rules. It has one owner: no method may run
// concurrently with another.
type Window struct {
	set      filter.Set
	grows    *filter.Growing // it is the set, with GrowWhenFull, else nil
	cfg      Config
	span     int64 // W in ms
	slice    int64 // length of a generation in ms
	maxAhead int64 // ms

	core          // the state apart from the set's
	base   core   // what it was after the last committed section
	sealed []core // what it was at the end of each sealed section, oldest first

	estimate estimate
}

// core is what a window knows apart from its set. It is a small value, so the
// journal of it is copies.
type core struct {
	m         int64  // stream time, NoTime before the first record
	believed  bool   // m comes from a record, not from the wall clock
	knownFrom int64  // see State.KnownFrom
	number    int64  // of the filling generation; age a has number-a
	rotation  uint64 // see State.Rotation
	begun     int    // how many generations are live: gens[:begun]
	gens      [filter.Generations]generation
}

// generation is one slice of the stream, found in core.gens by its age.
type generation struct {
	firstOffset int64  // of the record whose time began it
	added       uint64 // hashes learned in it
	lateKept    bool   // late records may have been kept from the output in it
}

// New makes a window that knows of everything before it that there was nothing:
// its coverage is 1 from the start. Where records may have been read before that
// nobody remembers, call [Window.MarkCold]. The set must be empty; it is the
// window's from now on, except that the caller closes it.
func New(cfg Config, set filter.Set) (*Window, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("make window: %w", err)
	}
	w, err := newWindow(cfg, set, core{m: NoTime})
	if err != nil {
		return nil, fmt.Errorf("make window: %w", err)
	}
	return w, nil
}

func newWindow(cfg Config, set filter.Set, c core) (*Window, error) {
	var grows *filter.Growing
	if cfg.OnFull == GrowWhenFull {
		var ok bool
		if grows, ok = set.(*filter.Growing); !ok {
			return nil, fmt.Errorf("window.Config.OnFull is %v: the set does not grow", cfg.OnFull)
		}
	}
	return &Window{
		set:      set,
		grows:    grows,
		cfg:      cfg,
		span:     cfg.Span.Milliseconds(),
		slice:    cfg.Slice(),
		maxAhead: cfg.maxAheadMillis(),
		core:     c,
		base:     c,
	}, nil
}

// MarkCold says that records were read before this window which it does not
// know: its coverage is 0 and climbs as the stream moves on from its first time.
// It is part of making a window, not a step that Rollback takes back, and panics
// after the first record.
func (w *Window) MarkCold() {
	if w.begun > 0 || len(w.sealed) > 0 {
		panic("BUG: window: MarkCold after the first record")
	}
	w.knownFrom = NoTime
	w.base = w.core
}

// Observe judges the records of b in order and learns the new ones. It returns
// how many it judged, which is all of them unless it gives a reason to stop
// before the next one. The window is then as if the batch had ended there, and
// what the outputs hold from there on means nothing.
//
// Observe works from rotation to rotation: the records between two of them go
// to the set in one call.
func (w *Window) Observe(b *Batch) (n int, stop Stop) {
	b.check()
	b.Runs = b.Runs[:0]
	var jumped Marks // what the rotation at record n marks it with
	for n < len(b.Offsets) {
		before := w.core
		end, why := w.follow(b, n, len(b.Offsets))
		b.Marks[n] |= jumped
		if full := w.judge(b, n, end); full < end {
			w.rewind(before, b, n, full)
			w.run(b, full)
			return full, StopFull
		}
		n = end
		w.run(b, n)
		switch why {
		case endLate:
			return n, StopLate
		case endRotation:
			jumped = w.enter(b, n)
		}
	}
	return n, StopNone
}

// run notes that the records up to to were learned as the window is now.
func (w *Window) run(b *Batch, to int) {
	r := Run{To: to, Rotation: w.rotation, Until: NoTime}
	if w.believed {
		r.Until = w.m
	}
	b.Runs = append(b.Runs, r)
}

// ending is why follow came to its end.
type ending uint8

const (
	endBatch    ending = iota // no more records
	endRotation               // the next record belongs to a later generation
	endLate                   // the next record is late and must not be judged
)

// follow moves the stream time over the records [from, to) and marks them, as
// far as they belong to the filling generation. It touches neither the set nor
// the generations, so it can be repeated.
func (w *Window) follow(b *Batch, from, to int) (end int, why ending) {
	limit := b.Now + w.maxAhead
	upper := w.upperEnd()
	if w.calm(b.Times[from:to], limit, upper) {
		clear(b.Marks[from:to])
		return to, endBatch
	}
	times, marks := b.Times[:to], b.Marks[:to]
	for i := from; i < len(times); i++ {
		t, m := times[i], w.m
		mark := distrust(t, limit)
		switch {
		case mark != 0:
			if !w.believed {
				m = max(m, b.Now)
			}
		case !w.believed && w.begun > 0:
			w.believe(t)
			m, upper = t, w.upperEnd()
		case t > m:
			m = t
		case t < m-w.span:
			if w.cfg.StopAtLate {
				return i, endLate
			}
			mark = MarkLate
		}
		if m >= upper {
			return i, endRotation
		}
		w.m = m
		marks[i] = mark
	}
	return to, endBatch
}

// calm reports whether all times are believed, none is late, and none ends the filling
// generation, which two numbers tell of nearly all batches. Then it moves the stream
// time over them; else it does nothing, and follow has to look at each.
func (w *Window) calm(times []int64, limit, upper int64) bool {
	if !w.believed || len(times) == 0 {
		return false
	}
	least, most := times[0], times[0]
	for _, t := range times {
		least, most = min(least, t), max(most, t)
	}
	m := max(w.m, most)
	if distrust(least, limit) != 0 || distrust(most, limit) != 0 || m >= upper || least < m-w.span {
		return false
	}
	w.m = m
	return true
}

// distrust is the mark of a time that must not move the stream, 0 for one that
// may. The limit is the latest time that is believed.
func distrust(t, limit int64) Marks {
	switch {
	case t <= 0 || t > maxTime:
		return MarkNoTime
	case t > limit:
		return MarkAhead
	}
	return 0
}

// believe makes t, the first believed time after the wall clock has stood in,
// the stream time. The generations keep their distances, and so does what is
// known of the past. Where t lies later in its slice than the clock did, less of
// the filling generation would be left than there was, and what older ones hold
// would be forgotten that much early: then it ends one slice later.
func (w *Window) believe(t int64) {
	if w.knownFrom != 0 {
		w.knownFrom = known(w.knownFrom + t - w.m)
	}
	number := floorDiv(t, w.slice)
	if w.begun > 1 && t-number*w.slice > w.m-w.number*w.slice {
		number++
	}
	w.believed = true
	w.m = t
	w.number = number
}

// enter begins the generation that record i of b belongs to, and those that it
// skips, and returns what that marks the record with.
func (w *Window) enter(b *Batch, i int) Marks {
	m := b.Now
	if t := b.Times[i]; distrust(t, b.Now+w.maxAhead) == 0 {
		m = t
		w.believed = true
	}
	w.m = m
	number := floorDiv(m, w.slice)
	steps := number - w.number
	w.number = number
	if w.begun == 0 {
		w.begun = 1
		w.gens[0] = w.generation(b.Offsets[i])
		if w.knownFrom == NoTime {
			w.knownFrom = known(m)
		}
		return 0
	}
	w.rotate(int(min(steps, filter.Generations)), b.Offsets[i])
	if steps > 1 && w.believed {
		return MarkJump
	}
	return 0
}

// generation is a new one that begins at offset.
func (w *Window) generation(offset int64) generation {
	return generation{firstOffset: offset, lateKept: !w.cfg.LearnLate}
}

// rotate makes n new generations that begin at the record at offset.
func (w *Window) rotate(n int, offset int64) {
	w.set.Rotate(n)
	w.rotation += uint64(n)
	copy(w.gens[n:], w.gens[:])
	for age := range n {
		w.gens[age] = w.generation(offset)
	}
	w.begun = min(w.begun+n, filter.Generations)
}

// judge looks the records [from, to) up, all of the filling generation, and
// learns what is to be learned. It returns to, or the record at which the generation was
// full and which must therefore not be judged; nothing was learned from there on.
func (w *Window) judge(b *Batch, from, to int) (end int) {
	learn, ages, marks := b.Learn[from:to], b.Ages[from:to], b.Marks[from:to]
	w.choose(b, from, to)
	added, known := w.look(b.Hashes[from:to], learn, ages)
	wanted := uint64(0)
	for i, held := range ages {
		isNew := learn[i] && held&known == 0
		learn[i] = isNew
		if isNew {
			wanted++
		}
	}
	if b.HasID != nil {
		for i, has := range b.HasID[from:to] {
			if !has {
				ages[i] = 0
			}
		}
	}
	if added > wanted {
		panic(fmt.Sprintf("BUG: window: the set added %d hashes more than it was given", added-wanted))
	}
	if added == wanted {
		return to
	}
	for i := range learn { // those beyond the room were not added
		switch {
		case !learn[i]:
		case added > 0:
			added--
		case w.cfg.OnFull == FailWhenFull:
			return from + i
		default:
			learn[i] = false
			marks[i] |= MarkUnlearned
		}
	}
	return to
}

// choose sets Learn for the records [from, to) that are to be learned if they are new.
func (w *Window) choose(b *Batch, from, to int) {
	learn := b.Learn[from:to]
	for i := range learn {
		learn[i] = true
	}
	if b.HasID != nil {
		copy(learn, b.HasID[from:to])
	}
	if !w.cfg.LearnLate {
		for i, m := range b.Marks[from:to] {
			learn[i] = learn[i] && m&MarkLate == 0
		}
	}
	if b.NoLearn != nil {
		for i, not := range b.NoLearn[from:to] {
			learn[i] = learn[i] && !not
		}
	}
}

// look asks the set for hashes of the filling generation and lets it add, of those
// that are to be learned, what no generation of the ages in known holds.
func (w *Window) look(hashes []filter.Hash, learn []bool, ages []uint8) (added uint64, known uint8) {
	filling := &w.gens[0]
	room := w.room(filling)
	if w.cfg.Refresh {
		known = 1 << 0 // others may hold it as well
		added = w.set.Learn(0, hashes, learn, room, ages)
	} else {
		known = 1<<filter.Generations - 1
		added = w.set.TestAndAdd(hashes, learn, room, ages)
	}
	filling.added += added
	return added, known
}

// room is how many hashes a generation takes yet. A set that grows knows for itself, and
// takes fewer than it is given room for. One that a policy let grow once may have more
// than a generation takes now.
func (w *Window) room(g *generation) uint64 {
	if w.grows != nil {
		return math.MaxUint64
	}
	return w.cfg.GenerationCapacity - min(g.added, w.cfg.GenerationCapacity)
}

// rewind takes back what follow did for the records from to on. The stretch of
// records began at start, with the state before. A stretch that began with a
// rotation has room for its first record, so to is never at one.
func (w *Window) rewind(before core, b *Batch, start, to int) {
	first := b.Marks[start]
	before.gens[0].added = w.gens[0].added
	w.core = before
	w.follow(b, start, to)
	if to > start {
		b.Marks[start] = first // follow knows of no jump
	}
}

// upperEnd is the first time after the filling generation. Before the first
// generation every time is after it.
func (w *Window) upperEnd() int64 {
	if w.begun == 0 {
		return math.MinInt64
	}
	return (w.number + 1) * w.slice
}

// AgeOf is how much earlier the first copy of a duplicate was read, in stream
// time: the distance of the two generations, so exact to one slice. With
// [Config.Refresh] it is that of the last copy that was learned. For a mask that false
// positives have added to it is the youngest age, for 0 it is 0.
func (w *Window) AgeOf(ages uint8) time.Duration {
	if ages == 0 {
		return 0
	}
	return time.Duration(int64(bits.TrailingZeros8(ages))*w.slice) * time.Millisecond
}

// Sweep does a small step of the cleaning that rotations owe, for idle times.
func (w *Window) Sweep() { w.set.Sweep() }

// floorDiv is floor(a/b) for b > 0; Go's own division rounds towards zero.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
