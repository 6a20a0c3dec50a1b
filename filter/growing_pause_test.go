package filter

import "testing"

// TestCase_MEM_04 counts what one call of a set that grows, and gives back what it had
// grown by, does besides its look-ups: it makes a page resident, or gives a step of
// memory back, however large a slab is. A slab's memory is all there when the first hash
// needs it.
func TestCase_MEM_04(t *testing.T) {
	p := Params{Lines: 32 << 20 / LineBytes, LinesPerKey: 3, CellsPerLine: 3}
	c := GrowingConfig{Sliced: p, FPR: 1e-2, GenerationCapacity: p.Capacity(1e-2) / Sealed, MaxBytes: 4 * p.Bytes()}
	g := newGrowing(t, c)
	hashes, learn, ages := make([]Hash, 1024), allOf(1024), make([]uint8, 1024)
	next, mostFilled, mostDrained, atOnce := uint64(0), 0, 0, 0
	resident := func() (filled, retiring int) {
		for i := range g.slots {
			filled += g.slots[i].memory.filled
		}
		for i := range g.retiring {
			retiring += g.retiring[i].filled
		}
		return filled, retiring
	}
	step := func(f func()) {
		filled, retiring := resident()
		made := g.made()
		f()
		nowFilled, nowRetiring := resident()
		mostFilled = max(mostFilled, nowFilled-filled)
		mostDrained = max(mostDrained, filled+retiring-nowFilled-nowRetiring)
		if g.made() > made && nowFilled > filled {
			atOnce++
		}
	}
	send := func(n uint64) {
		for range n / 1024 {
			for i := range hashes {
				hashes[i] = scatter(next)
				next++
			}
			step(func() { g.TestAndAdd(hashes, learn, 1<<62, ages) })
		}
		step(g.Seal)
		step(g.Commit)
	}
	send(2 * c.GenerationCapacity)
	if n, _ := g.Slabs(); n != 2 {
		t.Fatalf("%d slabs, want 2", n)
	}
	for range Generations {
		step(func() { g.Rotate(1) })
		send(10_000)
	}
	steps := 0
	for ; len(g.retiring) > 0; steps++ {
		step(g.Sweep)
	}
	if n, _ := g.Slabs(); n != 0 || steps < 2 {
		t.Errorf("%d slabs are left, %d steps gave them back", n, steps)
	}
	if mostFilled > hugePage || mostDrained > retireStep {
		t.Errorf("one call made %d bytes resident, another gave %d back; want at most %d and %d", mostFilled, mostDrained, hugePage, retireStep)
	}
	// The last step of the last page may fall together with the first hash.
	if atOnce > 2 {
		t.Errorf("%d slabs were made before their memory was there", atOnce)
	}
}
