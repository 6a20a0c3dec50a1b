package filter

const (
	// asideStep is how much memory is made resident aside in one go.
	asideStep = 4 * hugePage
	// lastVisit is how many hashes before it is needed a slab's memory is touched for the
	// last time: it takes about a microsecond a page, and nobody is to wait for that.
	lastVisit = 1 << 14
)

// Aside does work for the owner of a [Growing] on another thread: one thing after the
// other, in the order in which they came. Only the owner calls it.
type Aside interface {
	// Run has work done. It does not wait for it.
	Run(work func())
	// Idle is whether all work is done.
	Idle() bool
	// Wait returns when it is.
	Wait()
}

// WorkAside has the memory of slabs made resident, and given back, aside. That is where a
// growing filter's owner would be away for longest: a page takes a fifth of a millisecond,
// some where its memory is scattered, and many in a guest whose host has yet to find
// the page. Nothing that the set holds or answers depends on it.
//
// It must be called before the set is used.
func (g *Growing) WorkAside(a Aside) { g.aside = a }

// settled is whether nothing is being done aside.
func (g *Growing) settled() bool { return g.aside == nil || g.aside.Idle() }

// prepareAside is prepare, aside, with so many hashes left of the share in which it is done.
// All is there after three quarters of that, and then touched each time when half as many
// are left: the kernel makes a page resident by addresses of its own, and in a guest the
// first use of ours was measured to take 80 microseconds a page, also some time later.
func (g *Growing) prepareAside(slab int, left, share uint64) {
	g.fillAside(slab, min(share, (share-left+1)/3*4), share)
	if slab == len(g.slots) {
		return
	}
	s := &g.slots[slab]
	if s.memory.filled == s.memory.size() && left <= s.stale && left >= lastVisit && g.aside.Idle() {
		s.stale = left / 2
		zeros, refused := s.memory.bytes, s.refused
		g.aside.Run(func() {
			if *refused == nil {
				touch(zeros, hugePage)
			}
		})
	}
}

// fillAside is fill, aside. What is on its way counts as resident.
func (g *Growing) fillAside(slab int, part, of uint64) {
	if !g.reserve(slab) {
		return
	}
	s := &g.slots[slab]
	m, to := s.memory, s.memory.share(part, of)
	if part < of && (to < m.filled+asideStep || !g.aside.Idle()) || to <= m.filled {
		return
	}
	if s.refused == nil {
		s.refused = new(error)
	}
	refused := s.refused
	g.aside.Run(func() {
		if *refused == nil {
			*refused = m.fill(to)
		}
	})
	s.memory.filled = m.pages(to)
}

// retireAside gives memory back aside, which drop has put on the list of what is on its
// way.
func (g *Growing) retireAside(m reserve) {
	if g.aside == nil {
		return
	}
	g.aside.Run(func() {
		for m.drain(retireStep) {
			// Not at once, since no other thread can map memory meanwhile.
		}
		_ = m.free() // nothing is wrong with a mapping that cannot be unmapped
	})
}

// retired takes from the list what has been given back aside.
func (g *Growing) retired() {
	if len(g.retiring) > 0 && g.aside.Idle() {
		clear(g.retiring)
		g.retiring = g.retiring[:0]
	}
}
