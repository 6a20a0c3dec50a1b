package filter

import (
	"fmt"
	"math"
)

const (
	// prepareShare is the part of a filter's capacity before whose end the memory of the
	// next slab is made resident: a batch pays for its share of that, which is less than
	// a page for all but tiny filters.
	prepareShare = 8
	// retireStep is how much memory is given back in one go, in a few milliseconds at
	// most where its pages are small.
	retireStep = 16 << 20
)

// slabPlan is what a slab will be. It depends on its number and on what the first filter
// was planned for, so that equal histories give equal bytes.
type slabPlan struct {
	sliced Params
	single SingleParams
}

// planSlab plans a slab.
func (c *GrowingConfig) planSlab(slab int) (p slabPlan, err error) {
	rate := max(MinFPR, math.Ldexp(c.FPR/slabRate, -slab))
	if c.Single != (SingleParams{}) {
		p.single, err = SingleSize(c.slabCapacity(), rate)
	} else {
		p.sliced, err = Size(c.slabCapacity()*Sealed, rate, Compact)
	}
	if err != nil {
		err = fmt.Errorf("slab %d: %w", slab, err)
	}
	return p, err
}

// slabCapacity is how many hashes of a generation a slab takes.
func (c *GrowingConfig) slabCapacity() uint64 {
	return (c.GenerationCapacity + slabShare - 1) / slabShare
}

// planTo plans the first n slabs.
func (g *Growing) planTo(n int) error {
	for len(g.plan) < n {
		p, err := g.config.planSlab(len(g.plan))
		if err != nil {
			return err
		}
		g.plan = append(g.plan, p)
	}
	return nil
}

// lines is how many lines the slab has.
func (p *slabPlan) lines() uint64 { return max(p.single.Lines, p.sliced.Lines) }

// in makes the slab, empty, in zeroed memory.
func (p *slabPlan) in(r *reserve) Set {
	// The memory remains the slot's, which is what frees it.
	if p.single != (SingleParams{}) {
		return singleIn(p.single, memory{}, r.lines)
	}
	slab := slicedIn(p.sliced, memory{}, r.lines)
	slab.patient = true
	return slab
}

// geometry is what the slab will say of itself.
func (p *slabPlan) geometry() string {
	if p.single != (SingleParams{}) {
		return p.single.geometry()
	}
	return p.sliced.geometry()
}

// slot is the place of a slab: one that is made, or its memory alone, zeroed, which is no
// part of the state.
type slot struct {
	set    Set
	memory reserve
	// unsettled is how many commits it takes until the slab is in the state that
	// Rollback goes back to.
	unsettled int
	// refused is what the system said, aside, where it had no memory.
	refused *error
	// stale is how many hashes are left before the slab is needed, or fewer, when its
	// memory is to be touched again.
	stale uint64
}

// made is how many slabs are made. They are the first ones.
func (g *Growing) made() int {
	n := len(g.slots)
	for n > 0 && g.slots[n-1].set == nil {
		n--
	}
	return n
}

// make makes a slab, and those before it, if they are not made yet: it is one at most,
// but where a plan is smaller than the one that filled the first filter. It fails where
// the system has no memory for it, which is then not asked again before the next rotation.
func (g *Growing) make(slab int) bool {
	for next := g.made(); next <= slab; next++ {
		if !g.complete(next) {
			return false
		}
		s := &g.slots[next]
		s.set = g.plan[next].in(&s.memory)
		for range g.sealed {
			s.set.Seal() // sections are committed together
		}
		s.unsettled = len(g.sealed) + 1
	}
	return true
}

// complete makes all memory of a slab resident. Before that, what is on its way back to
// the system has to be there: there may be no room for both.
func (g *Growing) complete(slab int) bool {
	if g.aside != nil {
		g.fillAside(slab, 1, 1)
		g.aside.Wait()
	}
	for len(g.retiring) > 0 {
		g.retire()
	}
	return g.fill(slab, 1, 1, math.MaxInt)
}

// prepare makes memory for the next slab resident as the generation of an age comes
// closer to it.
func (g *Growing) prepare(age int) {
	slab, left := g.place(g.counts[age], g.allowed)
	share := g.capacityOf(slab) / prepareShare
	next := slab + 1
	switch {
	case left == 0 || left > share || next >= g.allowed || next < g.made() || next > len(g.slots):
	case len(g.retiring) > 0:
		g.retire()
	case g.aside != nil:
		g.prepareAside(next, left, share)
	default:
		// What fell behind, as memory was given back first, is not made up for at once.
		g.fill(next, share-left+1, share, hugePage)
	}
}

// capacityOf is how many hashes of a generation are in a slab, or in the first filter.
func (g *Growing) capacityOf(slab int) uint64 {
	if slab < 0 {
		return g.config.GenerationCapacity
	}
	return g.config.slabCapacity()
}

// fill makes a part of a slab's memory resident, and at most so many bytes more than is.
func (g *Growing) fill(slab int, part, of uint64, most int) bool {
	if !g.reserve(slab) {
		return false
	}
	m := &g.slots[slab].memory
	to := m.share(part, of)
	if err := m.fill(m.filled + min(to-m.filled, most)); err != nil {
		g.refuse(slab)
		return false
	}
	return true
}

// reserve has memory for a slab, none of which need be resident, unless the system refuses.
func (g *Growing) reserve(slab int) bool {
	if slab < len(g.slots) {
		if err := g.slots[slab].refused; err == nil || !g.settled() || *err == nil {
			return true
		}
		g.refuse(slab)
	}
	if g.refused {
		return false
	}
	memory, err := g.obtain(g.plan[slab].lines())
	if err != nil {
		g.refused = true
		return false
	}
	g.slots = append(g.slots, slot{memory: memory, stale: math.MaxUint64})
	return true
}

// refuse notes that the system has no memory for a slab.
func (g *Growing) refuse(slab int) {
	g.refused = true
	g.drop(slab)
}

// wanted is how many slabs a generation that has taken n has use for now or soon.
func (g *Growing) wanted(n uint64) int {
	slab, left := g.place(n, MaxSlabs)
	if left <= g.capacityOf(slab)/prepareShare {
		slab++
	}
	return min(slab+1, MaxSlabs)
}

// giveBack gives back the slabs that no live generation is in, now or after a rollback,
// and that the filling one has no use for soon.
func (g *Growing) giveBack() {
	keep := max(g.needed(&g.base), g.needed(&g.counts), g.wanted(g.counts[0]))
	for i := range g.sealed {
		keep = max(keep, g.needed(&g.sealed[i]))
	}
	if keep < g.made() {
		g.drop(keep)
	}
}

// spare gives back memory that was prepared for a generation which did not come to need
// it, and has ended with n hashes.
func (g *Growing) spare(n uint64) {
	if keep := max(g.made(), g.wanted(n)); keep < len(g.slots) {
		g.drop(keep)
	}
}

// drop begins to give back the memory of the slabs from one on.
func (g *Growing) drop(from int) {
	for i := from; i < len(g.slots); i++ {
		g.retiring = append(g.retiring, g.slots[i].memory)
		g.retireAside(g.slots[i].memory)
	}
	clear(g.slots[from:])
	g.slots = g.slots[:from]
}

// retire does a step of giving memory back.
func (g *Growing) retire() {
	if g.aside != nil {
		g.retired()
		return
	}
	last := len(g.retiring) - 1
	if last < 0 || g.retiring[last].drain(retireStep) {
		return
	}
	_ = g.retiring[last].free() // nothing is wrong with a mapping that cannot be unmapped
	g.retiring[last] = reserve{}
	g.retiring = g.retiring[:last]
}

// Bytes implements [Set]: it is the memory of all filters, and what is prepared for the
// next one or not given back yet.
func (g *Growing) Bytes() uint64 {
	bytes := g.first.Bytes()
	for i := range g.slots {
		if g.slots[i].set != nil {
			bytes += g.slots[i].set.Bytes()
		} else {
			bytes += uint64(g.slots[i].memory.filled)
		}
	}
	for i := range g.retiring {
		bytes += uint64(g.retiring[i].filled)
	}
	return bytes
}
