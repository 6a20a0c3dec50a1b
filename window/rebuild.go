package window

import (
	"errors"
	"fmt"

	"github.com/streamdedup/streamdedup/filter"
)

// learnAtOnce is how many hashes a Rebuilder hands to the set in one call: many
// enough to overlap their cache misses, few enough for arrays of its own.
const learnAtOnce = 256

// Rebuilder makes a window again from its [State] and what it had learned. That
// comes from up to three places, in any order but that the first one comes first:
// a copy of the set (Loaded), the input itself (Learn), and a log of what was
// learned (LearnRun). Done ends it. It has one owner.
//
// A copy and a log give back the very memory. From the input it cannot be told
// which copies in the range taught the original: the first may have been a repeat
// of one before From, and a later one learned anew. So what comes from the input
// is learned from every copy, once in each generation. The window then
// holds a hash at least as long as the original, and at most until the span and
// one slice after the last copy in the range. Three things make it forget earlier:
//
//   - In a generation in which a policy may have kept late records from the
//     output, a record that may have been late is left out.
//   - The repeats take room. A generation may therefore be full before it has
//     taken all that it took before; Unlearned counts the records that found it so.
//   - What is lost is not known; see Done.
type Rebuilder struct {
	w   *Window
	was State
	// age is, for each of was.Generations, which generation it is now. One of
	// filter.Generations and more is forgotten.
	age       []int
	unlearned uint64

	learn [learnAtOnce]bool
	ages  [learnAtOnce]uint8
}

// Rebuild starts the rebuilding of a window whose state was s. The set must be
// empty, as for [New], or be loaded before [Rebuilder.Loaded]. A damaged state is
// refused.
//
// The state may be of another span. Its generations are then put into those of
// the new length by their times, each by its end, so that nothing is forgotten
// early; what was learned in one may be held for up to its length longer. Where
// the span grew, the coverage is below 1 until it is full.
func Rebuild(cfg Config, set filter.Set, s State) (*Rebuilder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("rebuild window: %w", err)
	}
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("rebuild window: the state is damaged: %w", err)
	}
	w, err := newWindow(cfg, set, core{m: NoTime, knownFrom: s.KnownFrom, rotation: s.Rotation})
	if err != nil {
		return nil, fmt.Errorf("rebuild window: %w", err)
	}
	r := &Rebuilder{was: s, w: w}
	if s.Slice != r.w.slice {
		r.w.rotation = (s.Rotation>>lineageShift + 1) << lineageShift
	}
	if len(s.Generations) > 0 {
		r.place()
	}
	return r, nil
}

// lineageShift is where in a rotation the count of changed slices begins.
const lineageShift = 32

// place finds the place of the old generations among the new ones.
func (r *Rebuilder) place() {
	w, old := r.w, r.was.Generations
	w.m, w.believed = r.was.StreamTime, r.was.Believed
	w.number = old[len(old)-1].Number
	r.age = make([]int, len(old))
	for i := range old {
		r.age[i] = len(old) - 1 - i
	}
	if r.was.Slice != w.slice {
		w.number = floorDiv(w.m, w.slice)
		for i, g := range old {
			r.age[i] = r.ageOf((g.Number+1)*r.was.Slice - 1)
		}
		if len(old) == filter.Generations {
			r.forgotBefore(old[0].Number * r.was.Slice)
		}
	}
	w.begun = min(r.age[0]+1, filter.Generations)
	for i := len(old) - 1; i >= 0 && r.age[i] < filter.Generations; i-- {
		for age := r.age[i]; age < w.begun; age++ {
			w.gens[age].firstOffset = old[i].FirstOffset
		}
		w.gens[r.age[i]].lateKept = w.gens[r.age[i]].lateKept || old[i].LateKept
	}
}

// ageOf is the age of the generation that a stream time lies in, at least 0.
func (r *Rebuilder) ageOf(t int64) int { return ageIn(t, r.w.number, r.w.slice) }

// forgotBefore says that what was learned before stream time t is not known.
func (r *Rebuilder) forgotBefore(t int64) {
	if t = known(t); r.w.knownFrom == 0 || r.w.knownFrom < t {
		r.w.knownFrom = t
	}
}

// validate finds what no window's State has.
func (s State) validate() error {
	if s.Slice <= 0 {
		return fmt.Errorf("generations of %d ms", s.Slice)
	}
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

// Rewind is s for a stream whose reading goes on at an earlier offset, next, on
// purpose: what the window knows it goes on to know.
func (s State) Rewind(next int64) State {
	gens := make([]Generation, len(s.Generations))
	copy(gens, s.Generations)
	for i := range gens {
		gens[i].FirstOffset = min(gens[i].FirstOffset, next)
	}
	s.Generations = gens
	return s
}

// Forward is s for a stream whose reading goes on at a later offset, next, on purpose.
// What was skipped never came out and must not be learned from the input: a rebuild
// from that alone begins at next, and so would its coverage.
func (s State) Forward(next int64) State {
	gens := make([]Generation, len(s.Generations))
	copy(gens, s.Generations)
	for i := range gens {
		gens[i].FirstOffset = next
	}
	s.Generations = gens
	if len(gens) > 0 {
		s.KnownFrom = known(s.StreamTime)
	}
	return s
}

// Following is s where an earlier state of the window had that rotation. One that
// does not know of it, and counts from the start again, begins a new count.
func (s State) Following(rotation uint64) State {
	if s.Rotation < rotation {
		s.Rotation = (rotation>>lineageShift + 1) << lineageShift
	}
	return s
}

// Forgotten is whether a window at that rotation has forgotten all that was learned
// before s. Where the slice was changed in between, it has once as many generations
// have begun since as are live.
func (s State) Forgotten(rotation uint64) bool {
	if s.Rotation>>lineageShift == rotation>>lineageShift {
		return rotation >= s.Rotation+filter.Generations
	}
	return rotation>>lineageShift > s.Rotation>>lineageShift && rotation&(1<<lineageShift-1) >= filter.Generations
}

// Loaded says that the set was loaded with what a window held whose state had
// the given rotation. Added is, by age at that rotation, how many hashes the
// generations had taken before the first that LearnRun is given: what the set may
// hold of those is counted by LearnRun. It is called before anything is learned. It
// fails when that is no earlier state of this window, or one of another span.
func (r *Rebuilder) Loaded(rotation uint64, added [filter.Generations]uint64) error {
	if rotation>>lineageShift != r.w.rotation>>lineageShift {
		return errors.New("load window: the copy is of a window of another span")
	}
	if rotation > r.w.rotation {
		return fmt.Errorf("load window: the copy is of rotation %d, the state only of %d", rotation, r.w.rotation)
	}
	behind := int(min(r.w.rotation-rotation, filter.Generations))
	r.w.set.Rotate(behind)
	for age := behind; age < filter.Generations; age++ {
		r.w.gens[age].added = added[age-behind]
	}
	if g := r.w.grows; g != nil {
		var given [filter.Generations]uint64
		for age := range given {
			given[age] = r.w.gens[age].added
		}
		g.Recount(given)
	}
	r.settle()
	return nil
}

// From is the offset of the first record to learn from the input, that of the
// oldest live generation, or -1 when the state has no generation and nothing is
// to learn.
func (r *Rebuilder) From() int64 {
	if len(r.age) == 0 {
		return -1
	}
	return r.w.gens[r.w.begun-1].firstOffset
}

// Learn takes records of the input, in offset order, in arrays of equal length.
// Where learn is false the record has no ID or never came out, and teaches
// nothing. Offsets alone say which generation a record belongs to. Records before
// From are passed over, since what they taught is forgotten.
func (r *Rebuilder) Learn(offsets, times []int64, hashes []filter.Hash, learn []bool) {
	if n := len(offsets); len(times) != n || len(hashes) != n || len(learn) != n {
		panic(fmt.Sprintf("BUG: window: the arrays of %d records to learn differ in length", n))
	}
	if len(r.age) == 0 {
		return
	}
	for from := 0; from < len(offsets); {
		i := r.holds(offsets[from])
		if i < 0 || r.age[i] >= filter.Generations {
			from++
			continue
		}
		to := from + 1
		for to < min(len(offsets), from+learnAtOnce) && r.holds(offsets[to]) == i {
			to++
		}
		earliest := r.earliest(i)
		wants := r.learn[:to-from]
		for k, t := range times[from:to] {
			late := t > 0 && t < earliest
			wants[k] = learn[from+k] && !late
		}
		r.add(r.age[i], hashes[from:to], wants)
		from = to
	}
	r.settle()
}

// holds is which of the old generations the record at offset belongs to, -1 for
// one that is forgotten.
func (r *Rebuilder) holds(offset int64) int {
	i := len(r.was.Generations) - 1
	for i >= 0 && offset < r.was.Generations[i].FirstOffset {
		i--
	}
	return i
}

// LearnRun takes hashes that the window had learned in one run of a batch. Those
// of forgotten generations are passed over. Each counts for the load of its
// generation, also where the set holds it already: it was learned there, once.
func (r *Rebuilder) LearnRun(run Run, hashes []filter.Hash) {
	age := r.ageOfRun(run)
	if age >= filter.Generations {
		return
	}
	if g := r.w.grows; g != nil {
		// Which of its filters a hash is in depends on its number in its generation.
		unlearned := g.Relearn(age, hashes)
		r.w.gens[age].added += uint64(len(hashes)) - unlearned
		r.unlearned += unlearned
		r.settle()
		return
	}
	for len(hashes) > 0 {
		n := min(learnAtOnce, len(hashes))
		wants := r.learn[:n]
		for i := range wants {
			wants[i] = true
		}
		r.w.gens[age].added += r.add(age, hashes[:n], wants)
		hashes = hashes[n:]
	}
	r.settle()
}

// ageOfRun is the age of the generation that a run's hashes are put into.
func (r *Rebuilder) ageOfRun(run Run) int {
	if len(r.age) == 0 {
		return filter.Generations
	}
	return ageOfRun(run, r.w.rotation, r.w.number, r.w.slice)
}

// RotationOf is the rotation of the generation that LearnRun puts a run's hashes into,
// which is another than the run's own where the span has changed. Live is false for
// those that it passes over.
func (r *Rebuilder) RotationOf(run Run) (rotation uint64, live bool) {
	age := r.ageOfRun(run)
	return r.w.rotation - uint64(age), age < filter.Generations
}

// add learns at most learnAtOnce hashes in the generation of an age, as far as that
// has room. It returns how many of them the generation held before.
func (r *Rebuilder) add(age int, hashes []filter.Hash, wants []bool) (held uint64) {
	g, ages := &r.w.gens[age], r.ages[:len(hashes)]
	added := r.w.set.Learn(age, hashes, wants, r.w.room(g), ages)
	g.added += added
	for i := range wants {
		switch {
		case !wants[i]:
		case ages[i]&(1<<age) != 0:
			held++
		default:
			r.unlearned++
		}
	}
	r.unlearned -= added
	return held
}

// earliest is the time below which a record of old generation i may have been
// late. How far the stream was within the generation is not known, so it is taken
// to be at its end; of the span it is known that seven slices are a little more. By
// the wall clock nothing is late.
func (r *Rebuilder) earliest(i int) int64 {
	g := r.was.Generations[i]
	if !g.LateKept || !r.was.Believed {
		return NoTime
	}
	span := r.w.span
	if r.was.Slice != r.w.slice {
		span = filter.Sealed*(r.was.Slice-1) + 1
	}
	return (g.Number+1)*r.was.Slice - span
}

// settle leaves nothing to roll back.
func (r *Rebuilder) settle() {
	r.w.set.Seal()
	r.w.set.Commit()
}

// Unlearned is how many hashes found their generation full, so that it does not
// hold them. An older one may.
func (r *Rebuilder) Unlearned() uint64 { return r.unlearned }

// Done is the window, with nothing to roll back. The Rebuilder is of no further
// use. firstKnown is the offset of the first record whose teaching is known: where
// it is after From, something is lost that the window should know, and its coverage
// is below 1 until that is out of the span.
func (r *Rebuilder) Done(firstKnown int64) *Window {
	w := r.w
	if len(r.age) > 0 && firstKnown > r.From() {
		r.forgotBefore(r.knownFrom(firstKnown))
	}
	if w.begun > 0 {
		w.gens[0].lateKept = w.gens[0].lateKept || !w.cfg.LearnLate // from now on
	}
	w.base = w.core
	return w
}

// knownFrom is the stream time at the beginning of the first generation that is
// known as a whole, or now if none is: how far the stream was at the first known
// record, within its generation, is not known.
func (r *Rebuilder) knownFrom(firstKnown int64) int64 {
	for _, g := range r.was.Generations {
		if g.FirstOffset >= firstKnown {
			return g.Number * r.was.Slice
		}
	}
	return r.w.m
}
