package filter

import (
	"errors"
	"fmt"
	"math"
)

const (
	// MaxSlabs is how often a [Growing] grows at most, to sixteen times what it begins
	// with: each slab is one more look-up for every hash.
	MaxSlabs = 30
	// slabShare is the part of the first filter's capacity that a slab takes.
	slabShare = 2
	// slabRate is the part of the first filter's rate that the first slab may have. Each
	// next one has half of that, so all of them together stay below two parts of it.
	slabRate = 10
)

// GrowingConfig is what a [Growing] begins with, and how far it grows. Of Sliced and
// Single one is set.
type GrowingConfig struct {
	Sliced Params       // of the first filter
	Single SingleParams // of the first filter
	// FPR is the rate that the first filter is sized for.
	FPR float64
	// GenerationCapacity is how many hashes a generation of the first filter takes at
	// that rate.
	GenerationCapacity uint64
	// MaxBytes is what all filters together may take. It makes none of the first one.
	MaxBytes uint64
}

// Validate reports everything that is wrong with c.
func (c GrowingConfig) Validate() error {
	var errs []error
	single := c.Single != SingleParams{}
	switch {
	case single == (c.Sliced != Params{}):
		errs = append(errs, errors.New("Sliced and Single: want one of them"))
	case single:
		errs = append(errs, c.Single.Validate())
	default:
		errs = append(errs, c.Sliced.Validate())
	}
	if c.GenerationCapacity == 0 {
		errs = append(errs, errors.New("GenerationCapacity is 0, want at least 1"))
	}
	return errors.Join(append(errs, checkTarget(1, c.FPR))...)
}

// Growing is a [Set] that takes more than it was sized for, by more filters: to the
// first one it adds slabs, each of the same kind, for all generations and half of the
// first one's capacity.
//
//	a generation's hashes:  the first capacity of them | half as many | half as many ...
//	are in:                 the first filter           | slab 0       | slab 1       ...
//
// The number of a hash in its generation says which filter it is added to, and nothing
// else does; a look-up asks all of those that a live generation has come to. So the same
// calls leave the same bytes, whenever memory was had or given back. The rate stays below
// 1.2 times that of the first filter, since a slab is sized for a tenth of that, and each
// next one for half as much as the one before.
//
// It grows up to MaxBytes. From there on, or where the system has no more memory, it adds
// nothing to a generation that has taken all it can: TestAndAdd and Learn return less than
// the room they were given.
//
// A Growing has one owner: no method may run concurrently with another.
type Growing struct {
	config  GrowingConfig
	first   Set
	plan    []slabPlan // of the slabs that MaxBytes allows, at least
	allowed int        // how many those are
	quiet   uint64     // up to how many hashes of a generation nothing is to be prepared

	counts  counts   // hashes of each generation, by age
	base    counts   // what they were after the last committed section
	sealed  []counts // what they were at the end of each sealed section, oldest first
	used    int      // slabs that a live generation has come to: slots[:used]
	changed uint64   // how often that has changed

	slots    []slot    // by slab: the ones that are made, then those that only have memory
	retiring []reserve // memory on its way back to the system
	refused  bool      // the system had no memory for a slab in this generation
	obtain   func(lines uint64) (reserve, error)
	aside    Aside // nil where the owner does all itself

	scratch growingScratch
}

// counts are how many hashes were added to each generation, by age.
type counts [Generations]uint64

// growingScratch is what the answers of several filters are put together in.
type growingScratch struct {
	held, ages  [batch]uint8
	wants, none [batch]bool
}

var _ Set = (*Growing)(nil)

// NewGrowing makes an empty set that has its first filter only, in memory like that
// of [NewSliced].
func NewGrowing(c GrowingConfig) (*Growing, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("make growing filter: %w", err)
	}
	g := &Growing{config: c, quiet: c.GenerationCapacity - c.GenerationCapacity/prepareShare, obtain: reserveLines}
	for bytes := c.firstBytes(); g.allowed < MaxSlabs; g.allowed++ {
		if err := g.planTo(g.allowed + 1); err != nil {
			return nil, fmt.Errorf("make growing filter: %w", err)
		}
		if bytes += g.plan[g.allowed].lines() * LineBytes; bytes > c.MaxBytes {
			break
		}
	}
	var err error
	if c.Single != (SingleParams{}) {
		g.first, err = asSet(NewSingle(c.Single))
	} else {
		var first *Sliced
		if first, err = NewSliced(c.Sliced); err == nil {
			first.patient = true
		}
		g.first, err = asSet(first, err)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// firstBytes is the memory of the first filter.
func (c *GrowingConfig) firstBytes() uint64 { return c.Sliced.Bytes() + c.Single.Bytes() }

// asSet is set, or nothing at all after an error: a nil pointer must not get into the
// interface.
func asSet[S Set](set S, err error) (Set, error) {
	if err != nil {
		return nil, err
	}
	return set, nil
}

// TestAndAdd implements [Set].
func (g *Growing) TestAndAdd(hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	defer g.hurry()
	if g.isQuiet(0, len(hashes)) {
		added = g.first.TestAndAdd(hashes, learn, room, ages)
		g.counts[0] += added
		return added
	}
	return g.add(0, allAges, hashes, learn, room, ages)
}

// Learn implements [Set].
func (g *Growing) Learn(age int, hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	checkAge(age)
	defer g.hurry()
	if g.isQuiet(age, len(hashes)) {
		added = g.first.Learn(age, hashes, learn, room, ages)
		g.counts[age] += added
		return added
	}
	return g.add(age, 1<<age, hashes, learn, room, ages)
}

// hurry pays once a call for the sweeps that are behind. A filter by itself would pay for
// each batch, of which it is asked for all of them.
func (g *Growing) hurry() {
	for i := -1; i < g.used; i++ {
		if s, ok := g.filter(i).(*Sliced); ok {
			s.hurry()
		}
	}
}

// isQuiet is whether the first filter is all that matters to n hashes for the
// generation of an age, as it is in a set that has what it was planned for.
func (g *Growing) isQuiet(age, n int) bool {
	return g.used == 0 && g.counts[age]+uint64(n) <= g.quiet
}

// add adds what no generation of the ages in known holds to the one of the given age.
func (g *Growing) add(age int, known uint8, hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	checkArrays(hashes, learn, ages)
	for len(hashes) > 0 {
		// A filter that gets full ends the batch, and the rest goes to the next one: so
		// all of a batch are added to the same, which sees repeats within it.
		n := min(batch, len(hashes))
		got, done := g.addSome(age, known, hashes[:n], learn[:n], room-added, ages[:n])
		added += got
		g.counts[age] += got
		g.recount()
		g.prepare(age)
		hashes, learn, ages = hashes[done:], learn[done:], ages[done:]
	}
	return added
}

// addSome is add for a batch, up to the first hash that needs the next filter. It
// returns how many it added, and how many it judged.
func (g *Growing) addSome(age int, known uint8, hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64, done int) {
	x := &g.scratch
	target, left := g.target(g.counts[age])
	held, wants := x.held[:len(hashes)], x.wants[:len(hashes)]
	clear(held)
	for i := -1; i < g.used; i++ {
		if i == target && left > 0 {
			continue
		}
		g.filter(i).TestAndAdd(hashes, x.none[:len(hashes)], 0, x.ages[:len(hashes)])
		for k := range held {
			held[k] |= x.ages[k]
		}
	}
	if left == 0 {
		copy(ages, held)
		return 0, len(hashes)
	}
	for k := range wants {
		wants[k] = learn[k] && held[k]&known == 0
	}
	if known == allAges {
		added = g.filter(target).TestAndAdd(hashes, wants, min(room, left), ages)
	} else {
		added = g.filter(target).Learn(age, hashes, wants, min(room, left), ages)
	}
	done = len(hashes)
	if added == left && room > left {
		done = nextWanted(wants, ages, known, added)
	}
	for k := range done {
		ages[k] |= held[k]
	}
	return added, done
}

// nextWanted is the index of the first hash that was to be added, after so many that
// were, or the number of hashes if there is none.
func nextWanted(wants []bool, ages []uint8, known uint8, added uint64) int {
	for k := range wants {
		if wants[k] && ages[k]&known == 0 {
			if added == 0 {
				return k
			}
			added--
		}
	}
	return len(wants)
}

// Relearn adds hashes to the generation of an age that were added to it before, in the
// order in which they were: each takes its place, whatever holds it, and so comes into
// the filter that it was in. It returns how many found no place and are not held.
func (g *Growing) Relearn(age int, hashes []Hash) (unlearned uint64) {
	checkAge(age)
	x := &g.scratch
	for len(hashes) > 0 {
		target, left := g.target(g.counts[age])
		if left == 0 {
			break
		}
		n := int(min(batch, uint64(len(hashes)), left))
		for k := range n {
			x.wants[k] = true
		}
		g.filter(target).Learn(age, hashes[:n], x.wants[:n], uint64(n), x.ages[:n])
		g.counts[age] += uint64(n)
		g.recount()
		g.prepare(age)
		hashes = hashes[n:]
	}
	for _, h := range hashes {
		if g.Test(h)>>age&1 != 0 {
			g.counts[age]++
		} else {
			unlearned++
		}
	}
	return unlearned
}

// filter is slab i, and the first filter for -1.
func (g *Growing) filter(i int) Set {
	if i < 0 {
		return g.first
	}
	return g.slots[i].set
}

// target is the filter that takes the next hash of a generation that has taken n, made
// if need be, and for how many more it does: for none where all are full.
func (g *Growing) target(n uint64) (slab int, left uint64) {
	slab, left = g.place(n, max(g.allowed, g.used))
	if left > 0 && slab >= 0 && !g.make(slab) {
		left = 0
	}
	return slab, left
}

// place is target by the numbers alone, for so many slabs.
func (g *Growing) place(n uint64, slabs int) (slab int, left uint64) {
	if n < g.config.GenerationCapacity {
		return -1, g.config.GenerationCapacity - n
	}
	n -= g.config.GenerationCapacity
	each := g.config.slabCapacity()
	if n/each >= uint64(slabs) {
		return slabs, 0
	}
	return int(n / each), each - n%each
}

// needed is how many slabs generations of those counts have come to.
func (g *Growing) needed(c *counts) int {
	most := uint64(0)
	for _, n := range c {
		most = max(most, n)
	}
	if most == 0 {
		return 0
	}
	slab, _ := g.place(most-1, MaxSlabs) // where the last one is
	return min(slab+1, g.made())
}

// recount notes which slabs are used.
func (g *Growing) recount() {
	if used := g.needed(&g.counts); used != g.used {
		g.used = used
		g.changed++
	}
}

// Test implements [Set].
func (g *Growing) Test(h Hash) uint8 {
	held := g.first.Test(h)
	for i := range g.used {
		held |= g.slots[i].set.Test(h)
	}
	return held
}

// Rotate implements [Set].
func (g *Growing) Rotate(n int) {
	g.first.Rotate(n)
	if n == 0 {
		return
	}
	for i := range g.made() {
		g.slots[i].set.Rotate(n)
	}
	g.spare(g.counts[0])
	n = min(n, Generations)
	copy(g.counts[n:], g.counts[:])
	clear(g.counts[:n])
	g.recount()
	g.refused = false
}

// Sweep implements [Set].
func (g *Growing) Sweep() {
	g.first.Sweep()
	for i := range g.made() {
		g.slots[i].set.Sweep()
	}
	g.retire()
}

// Seal implements [Set].
func (g *Growing) Seal() {
	g.first.Seal()
	for i := range g.made() {
		g.slots[i].set.Seal()
	}
	g.sealed = append(g.sealed, g.counts)
}

// Commit implements [Set]. It gives slabs back that nothing is in any more.
func (g *Growing) Commit() {
	g.first.Commit()
	for i := range g.made() {
		g.slots[i].set.Commit()
		g.slots[i].unsettled = max(0, g.slots[i].unsettled-1)
	}
	g.base = g.sealed[0]
	g.sealed = append(g.sealed[:0], g.sealed[1:]...)
	g.giveBack()
	g.retire()
}

// Rollback implements [Set]. A slab that was made since then is no part of the state:
// undone, its memory is what it was before, all zeros.
func (g *Growing) Rollback() {
	g.first.Rollback()
	for i := range g.made() {
		s := &g.slots[i]
		s.set.Rollback()
		if s.unsettled > 0 {
			s.set, s.unsettled = nil, 0
		}
	}
	g.counts, g.sealed = g.base, g.sealed[:0]
	g.recount()
}

// FPREstimate implements [Set].
func (g *Growing) FPREstimate() float64 {
	right := math.Log1p(-g.first.FPREstimate())
	for i := range g.used {
		right += math.Log1p(-g.slots[i].set.FPREstimate())
	}
	return -math.Expm1(right)
}

// JournalBytes implements [Set].
func (g *Growing) JournalBytes() uint64 {
	bytes := g.first.JournalBytes()
	for i := range g.made() {
		bytes += g.slots[i].set.JournalBytes()
	}
	return bytes
}

// Full is whether the filling generation has taken all that it can.
func (g *Growing) Full() bool {
	slab, left := g.place(g.counts[0], max(g.allowed, g.used))
	return left == 0 || g.refused && slab >= g.made()
}

// Capacity is how many hashes a generation takes at most.
func (g *Growing) Capacity() uint64 {
	return g.config.GenerationCapacity + uint64(max(g.allowed, g.used))*g.config.slabCapacity()
}

// Slabs is how many slabs live generations have come to, and how often that number has
// changed: a body that is copied in pieces is of no use where it did meanwhile.
func (g *Growing) Slabs() (n int, changed uint64) { return g.used, g.changed }

// Close implements [Set].
func (g *Growing) Close() error {
	errs := []error{g.first.Close()}
	if g.aside != nil {
		g.aside.Wait()
		g.retired()
	}
	for i := range g.slots {
		errs = append(errs, g.slots[i].memory.free())
	}
	for i := range g.retiring {
		errs = append(errs, g.retiring[i].free())
	}
	g.slots, g.retiring, g.used = nil, nil, 0
	return errors.Join(errs...)
}
