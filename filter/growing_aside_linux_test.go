package filter

import (
	"errors"
	"math"
	"testing"

	"golang.org/x/sys/unix"
)

// isMapped is whether there is memory of all of b, resident or not. Where it was given
// back, something small may have taken some of its place.
func isMapped(t *testing.T, b []byte) bool {
	t.Helper()
	err := unix.Msync(b, unix.MS_ASYNC) // which refuses what is not mapped
	if err != nil && !errors.Is(err, unix.ENOMEM) {
		t.Fatal(err)
	}
	return err == nil
}

// TestGrowingAsideGivesBack closes sets, and rotates others, whose next slab is prepared
// but not needed yet, in all states that the work aside can be in: all of its memory is
// given back.
func TestGrowingAsideGivesBack(t *testing.T) {
	c := mapped()
	share := c.GenerationCapacity / prepareShare
	for _, close := range []bool{true, false} {
		for _, given := range []uint64{share / 8, share / 2, share - 100} {
			for _, done := range []float64{0, 0.5, 1} {
				g, err := NewGrowing(c)
				if err != nil {
					t.Fatal(err)
				}
				q := &queue{}
				g.WorkAside(q)
				var prepared []byte
				g.obtain = func(lines uint64) (reserve, error) {
					r, err := reserveLines(lines)
					prepared = r.bytes
					return r, err
				}
				q.before = func(q *queue) { q.do(int(done * float64(len(q.work)))) }
				g.Recount([Generations]uint64{c.GenerationCapacity - share})
				give(t, g, 0, given)
				if g.made() != 0 || prepared == nil || !isMapped(t, prepared) {
					t.Fatalf("%d slabs after %d hashes of a share of %d, prepared: %v", g.made(), given, share, prepared != nil)
				}
				if !close {
					g.counts[0] = 0 // a generation that remains far from full
					g.spare(0)
					g.Sweep()
					g.aside.Wait()
				} else if err := g.Close(); err != nil {
					t.Fatal(err)
				}
				if isMapped(t, prepared) {
					t.Errorf("closed: %v, after %d hashes with %g of the work done: memory is left", close, given, done)
				}
				if err := g.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestGrowingRefusedPages: where the system has no pages for what it has mapped, aside or
// not, the generation is full at what it had place for, and the next one asks again.
func TestGrowingRefusedPages(t *testing.T) {
	c := mapped()
	for _, a := range []Aside{nil, &queue{}, &queue{before: func(q *queue) { q.do(len(q.work)) }}, &goroutines{}} {
		g := newGrowing(t, c)
		if a != nil {
			g.WorkAside(a)
		}
		g.obtain = func(lines uint64) (reserve, error) {
			r, err := reserveLines(lines)
			if err == nil {
				err = unix.Munmap(r.mapping) // whatever makes it resident fails as without memory
				r.mapping = []byte{}
			}
			return r, err
		}
		room := c.GenerationCapacity / prepareShare
		g.Recount([Generations]uint64{c.GenerationCapacity - room})
		hashes, ages := make([]Hash, room+5000), make([]uint8, room+5000)
		for i := range hashes {
			hashes[i] = scatter(uint64(i))
		}
		if added := g.TestAndAdd(hashes, allOf(len(hashes)), math.MaxUint64, ages); added != room || !g.Full() {
			t.Errorf("aside by %T: %d were added, full: %v, want %d and true", a, added, g.Full(), room)
		}
		g.obtain = reserveLines
		g.Rotate(1)
		if g.Full() {
			t.Errorf("aside by %T: full after a rotation", a)
		}
	}
}
