package filter

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// What a Growing stores, its head:
//
//	 0   n  the head of the first filter
//	 n  64  8 x 8: hashes that were added to each generation, the youngest first
//	        the head of each used slab
//
// and its body: that of the first filter, then that of each used slab.
//
// A slab that no live generation has come to is not stored, whether it has memory or not.

// growingCounts is the length of the counts in a head.
const growingCounts = 8 * Generations

// Geometry implements [Set]. It names the used slabs.
func (g *Growing) Geometry() string { return g.model(g.used).geometry() }

// loads is what Load takes: what a Growing of the same plan stored, with any number of
// slabs, and what one filter of the same geometry did that did not grow.
func (g *Growing) loads(geometry string) (bodyBytes uint64, ok bool) {
	if geometry == g.first.Geometry() {
		return g.first.BodyBytes(), true
	}
	m, ok := parseGrowing(geometry)
	if !ok || len(m.filters)-1 > MaxSlabs || g.planTo(len(m.filters)-1) != nil {
		return 0, false
	}
	return m.Bytes(), geometry == g.model(len(m.filters)-1).geometry()
}

// Loads is whether s can Load what a Set of that geometry appended, and how long the body
// of that is.
func Loads(s Set, geometry string) (bodyBytes uint64, ok bool) {
	if g, grows := s.(*Growing); grows {
		return g.loads(geometry)
	}
	return s.BodyBytes(), geometry == s.Geometry()
}

// BodyBytes implements [Set].
func (g *Growing) BodyBytes() uint64 {
	bytes := g.first.BodyBytes()
	for i := range g.used {
		bytes += g.slots[i].set.BodyBytes()
	}
	return bytes
}

// BodySpan implements [Set]: it is that of the first filter, and of the slabs. A body
// that is copied in pieces is also of no use where Slabs says another number of changes
// than before.
func (g *Growing) BodySpan() uint64 { return g.first.BodySpan() }

// AppendBody implements [Set].
func (g *Growing) AppendBody(b []byte, from, to uint64) []byte {
	checkCut(from, to, g.BodyBytes())
	start := uint64(0)
	for i := -1; i < g.used; i++ {
		s := g.filter(i)
		end := start + s.BodyBytes()
		if f, t := max(from, start), min(to, end); f < t {
			b = s.AppendBody(b, f-start, t-start)
		}
		start = end
	}
	return b
}

// AppendHead implements [Set].
func (g *Growing) AppendHead(b []byte) []byte {
	b = g.first.AppendHead(b)
	for _, n := range g.counts {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	for i := range g.used {
		b = g.slots[i].set.AppendHead(b)
	}
	return b
}

// AppendState implements [Set].
func (g *Growing) AppendState(b []byte) []byte {
	b = g.AppendHead(b)
	b = slices.Grow(b, int(g.BodyBytes()))
	return g.AppendBody(b, 0, g.BodyBytes())
}

// Load implements [Set]. It keeps all slabs that it is given, also where MaxBytes allows
// fewer, and makes no new ones then. Where a filter that did not grow stored the state,
// how many hashes its generations were given is not known before Recount.
func (g *Growing) Load(head []byte, body io.Reader) error {
	size := len(g.first.AppendHead(nil))
	if len(head) < size {
		return fmt.Errorf("load growing filter: head: it has %d bytes, want %d or more", len(head), size)
	}
	own, heads := head[:size], head[size:]
	var stored counts
	if len(heads) > 0 {
		if len(heads) < growingCounts || (len(heads)-growingCounts)%size != 0 || (len(heads)-growingCounts)/size > MaxSlabs {
			return fmt.Errorf("load growing filter: head: it has %d bytes, which is no number of slabs", len(head))
		}
		for age := range stored {
			stored[age] = binary.LittleEndian.Uint64(heads[8*age:])
		}
		heads = heads[growingCounts:]
	}
	g.drop(0)
	if err := g.first.Load(own, io.LimitReader(body, int64(g.first.BodyBytes()))); err != nil {
		return fmt.Errorf("load growing filter: first filter: %w", err)
	}
	g.sealed = g.sealed[:0]
	for slab := range len(heads) / size {
		if err := g.loadSlab(slab, heads[slab*size:][:size], body); err != nil {
			return fmt.Errorf("load growing filter: slab %d: %w", slab, err)
		}
	}
	if err := readEnd(body); err != nil {
		return fmt.Errorf("load growing filter: body after %d slabs: %w", g.made(), err)
	}
	g.Recount(stored)
	return nil
}

// loadSlab makes the next slab and loads it.
func (g *Growing) loadSlab(slab int, head []byte, body io.Reader) error {
	if err := g.planTo(slab + 1); err != nil {
		return err
	}
	g.refused = false
	if !g.make(slab) {
		return fmt.Errorf("the system has no memory for its %d lines", g.plan[slab].lines())
	}
	s := &g.slots[slab]
	s.unsettled = 0
	return s.set.Load(head, io.LimitReader(body, int64(s.set.BodyBytes())))
}

// Recount says, after Load and before anything is added, how many hashes each generation
// was given by then, by age: of a body that was copied in pieces, before the first of
// them, if what came later is to be learned again.
func (g *Growing) Recount(given [Generations]uint64) {
	g.counts, g.base = given, given
	g.recount()
}
