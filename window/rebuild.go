package window

import (
	"errors"
	"fmt"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// learnAtOnce is how many records a Rebuilder hands to the set in one call: many
// enough to overlap their cache misses, few enough for arrays of its own.
const learnAtOnce = 256

// Rebuilder makes a window again from its [State] and the input that it was
// learned from. Use: [Rebuild], then Learn for the records from From up to the
// state's own position, then Done. It has one owner.
//
// From the input alone it cannot be told which copies in the range taught the
// original: the first may have been a repeat of one before From, and a later one
// learned anew. So a rebuilt window learns every copy, once in each generation. It
// holds a hash at least as long as the original, and at most until the span and
// one slice after the last copy in the range. Three things make it forget earlier:
//
//   - In a generation in which a policy may have kept late records from the
//     output, a record that may have been late is left out.
//   - The repeats take room. A generation may therefore be full before it has
//     taken all that it took before; Unlearned counts the records that found it so.
//   - What the input has lost is not known; see Done.
type Rebuilder struct {
	w         *Window
	gens      []Generation // of the state
	current   int          // the one that is being learned
	unlearned uint64

	learn [learnAtOnce]bool
	ages  [learnAtOnce]uint8
}

// Rebuild starts the rebuilding of a window whose state was s. The set must be
// empty, as for [New]. A state with another slice length is refused, since its
// generations mean other times, and so is a damaged one.
func Rebuild(cfg Config, set filter.Set, s State) (*Rebuilder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("rebuild window: %w", err)
	}
	if s.Slice != cfg.Slice() {
		return nil, fmt.Errorf("rebuild window: the state has generations of %v, a window of %v has generations of %v: go on with the window that the state was made with, or without the state",
			time.Duration(s.Slice)*time.Millisecond, cfg.Span, time.Duration(cfg.Slice())*time.Millisecond)
	}
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("rebuild window: the state is damaged: %w", err)
	}
	c := core{m: NoTime, knownFrom: s.KnownFrom}
	if len(s.Generations) > 0 {
		first := s.Generations[0]
		c.m, c.believed = s.StreamTime, s.Believed
		c.number, c.begun = first.Number, 1
		c.gens[0] = generation{firstOffset: first.FirstOffset, lateKept: first.LateKept}
	}
	return &Rebuilder{w: newWindow(cfg, set, c), gens: s.Generations}, nil
}

// validate finds what no window's State has.
func (s State) validate() error {
	if len(s.Generations) == 0 {
		return nil
	}
	if s.KnownFrom == NoTime {
		return errors.New("nothing is known although a generation has begun")
	}
	if len(s.Generations) > filter.Generations {
		return fmt.Errorf("%d generations, at most %d are live", len(s.Generations), filter.Generations)
	}
	if s.StreamTime < -maxTime || s.StreamTime > maxTime {
		return fmt.Errorf("stream time %d ms is no time", s.StreamTime)
	}
	for i, g := range s.Generations[1:] {
		before := s.Generations[i]
		if g.Number != before.Number+1 || g.FirstOffset < before.FirstOffset {
			return fmt.Errorf("generation %d from offset %d follows %d from offset %d",
				g.Number, g.FirstOffset, before.Number, before.FirstOffset)
		}
	}
	last := s.Generations[len(s.Generations)-1]
	if last.FirstOffset < 0 || s.Generations[0].FirstOffset < 0 {
		return errors.New("a generation begins at a negative offset")
	}
	// The first believed time may have left it one ahead, see [Window.believe].
	number := floorDiv(s.StreamTime, s.Slice)
	if ahead := last.Number - number; ahead != 0 && (ahead != 1 || !s.Believed) {
		return fmt.Errorf("generation %d is filling, stream time %d ms lies in %d", last.Number, s.StreamTime, number)
	}
	return nil
}

// From is the offset of the first record to learn, that of the oldest live
// generation, or -1 when the state has no generation and nothing is to learn.
func (r *Rebuilder) From() int64 {
	if len(r.gens) == 0 {
		return -1
	}
	return r.gens[0].FirstOffset
}

// Learn takes the next records, in offset order, in arrays of equal length. Where
// learn is false the record has no ID or never came out, and teaches nothing.
// Offsets alone say which generation a record belongs to. Records before From
// are passed over, since what they taught is forgotten.
func (r *Rebuilder) Learn(offsets, times []int64, hashes []filter.Hash, learn []bool) {
	if n := len(offsets); len(times) != n || len(hashes) != n || len(learn) != n {
		panic(fmt.Sprintf("BUG: window: the arrays of %d records to learn differ in length", n))
	}
	if len(r.gens) == 0 {
		return
	}
	for from := 0; from < len(offsets); {
		if offsets[from] < r.From() {
			from++
			continue
		}
		for r.beyond(offsets[from]) {
			r.next()
		}
		to := from + 1
		for to < min(len(offsets), from+learnAtOnce) && !r.beyond(offsets[to]) {
			to++
		}
		r.add(times[from:to], hashes[from:to], learn[from:to])
		from = to
	}
	r.w.set.Seal()
	r.w.set.Commit()
}

// beyond is whether the record at offset belongs to a later generation than the
// current one.
func (r *Rebuilder) beyond(offset int64) bool {
	return r.current+1 < len(r.gens) && offset >= r.gens[r.current+1].FirstOffset
}

// next goes on to the next generation of the state.
func (r *Rebuilder) next() {
	r.current++
	r.w.number++
	r.w.rotate(1, r.gens[r.current].FirstOffset)
	r.w.gens[0].lateKept = r.gens[r.current].LateKept
}

// add learns at most learnAtOnce records of the current generation.
func (r *Rebuilder) add(times []int64, hashes []filter.Hash, learn []bool) {
	earliest := r.earliest()
	wants, ages := r.learn[:len(times)], r.ages[:len(times)]
	for i, t := range times {
		late := t > 0 && t < earliest
		wants[i] = learn[i] && !late
	}
	filling := &r.w.gens[0]
	added := r.w.set.Learn(0, hashes, wants, r.w.cfg.GenerationCapacity-filling.added, ages)
	filling.added += added
	for i := range wants {
		if wants[i] && ages[i]&1 == 0 { // not yet in this generation
			r.unlearned++
		}
	}
	r.unlearned -= added
}

// earliest is the time below which a record of the current generation may have
// been late. How far the stream was within the generation is not known, so it is
// taken to be at its end. By the wall clock nothing is late.
func (r *Rebuilder) earliest() int64 {
	if !r.w.gens[0].lateKept || !r.w.believed {
		return NoTime
	}
	return r.w.upperEnd() - r.w.span
}

// Unlearned is how many records found their generation full, so that it does not
// hold their hashes. An older one may.
func (r *Rebuilder) Unlearned() uint64 { return r.unlearned }

// Done is the window, with nothing to roll back. The Rebuilder is of no further
// use. firstKnown is the offset of the first record that could be read: where it
// is after From, the input has lost what the window should know, and its coverage
// is below 1 until that is out of the span.
func (r *Rebuilder) Done(firstKnown int64) *Window {
	w := r.w
	for r.current+1 < len(r.gens) {
		r.next()
	}
	if len(r.gens) > 0 && firstKnown > r.From() {
		from := r.knownFrom(firstKnown)
		if w.knownFrom == 0 || w.knownFrom < from {
			w.knownFrom = from
		}
	}
	w.gens[0].lateKept = w.gens[0].lateKept || !w.cfg.LearnLate // from now on
	w.set.Seal()
	w.set.Commit()
	w.base = w.core
	return w
}

// knownFrom is the stream time at the beginning of the first generation that is
// known as a whole, or now if none is: how far the stream was at the first known
// record, within its generation, is not known.
func (r *Rebuilder) knownFrom(firstKnown int64) int64 {
	for _, g := range r.gens {
		if g.FirstOffset >= firstKnown {
			return known(g.Number * r.w.slice)
		}
	}
	return known(r.w.m)
}
