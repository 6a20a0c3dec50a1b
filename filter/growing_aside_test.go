package filter

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// queue is an Aside whose work is done when the test says, or by who waits.
type queue struct {
	work   []func()
	done   int
	waited int // how often there was work left to wait for
	before func(q *queue)
}

func (q *queue) Run(work func()) { q.work = append(q.work, work) }

func (q *queue) Idle() bool {
	if q.before != nil {
		q.before(q)
	}
	return len(q.work) == 0
}

func (q *queue) Wait() {
	if len(q.work) > 0 {
		q.waited++
	}
	q.do(len(q.work))
}

// do does the first n things.
func (q *queue) do(n int) {
	for _, work := range q.work[:n] {
		work()
		q.done++
	}
	q.work = slices.Delete(q.work, 0, n)
}

// goroutines is an Aside that is at work while the owner is, so that a race is found.
type goroutines struct{ last chan struct{} }

func (g *goroutines) Run(work func()) {
	before, done := g.last, make(chan struct{})
	g.last = done
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		work()
	}()
}

func (g *goroutines) Idle() bool {
	select {
	case <-g.last:
		return true
	default:
		return g.last == nil
	}
}

func (g *goroutines) Wait() {
	if g.last != nil {
		<-g.last
	}
}

// mapped is a config whose slabs are memory of several steps.
func mapped() GrowingConfig {
	p := Params{Lines: 32 << 20 / LineBytes, LinesPerKey: 3, CellsPerLine: 3}
	return GrowingConfig{Sliced: p, FPR: 1e-2, GenerationCapacity: p.Capacity(1e-2) / Sealed, MaxBytes: 3 * p.Bytes()}
}

// TestGrowingAsideChangesNothing runs one history of growing, forgetting and undoing with
// memory made by the owner, and aside: early, as late as can be, by chance, and really at
// the same time. All answers, all states and the places of all slabs are the same.
func TestGrowingAsideChangesNothing(t *testing.T) {
	r := seeded(t)
	pages := smallGrowing(t, 100_000, 1e-6)
	pages.MaxBytes = 4 * pages.Sliced.Bytes()
	if p, err := pages.planSlab(0); err != nil || p.lines() < hugePage/LineBytes {
		t.Fatalf("slabs of %d lines fill no page (%v)", p.lines(), err)
	}
	for name, c := range map[string]GrowingConfig{"sliced": growingSliced, "single": growingSingle, "pages": pages} {
		t.Run(name, func(t *testing.T) {
			steps := rounds(4_000)
			if name == "pages" {
				steps /= 5
			}
			first, chance := r.Uint64(), rand.New(rand.NewPCG(r.Uint64(), 2))
			var want []byte
			for _, a := range []Aside{
				nil,
				&queue{before: func(q *queue) { q.do(len(q.work)) }},
				&queue{},
				&queue{before: func(q *queue) { q.do(chance.IntN(len(q.work) + 1)) }},
				&goroutines{},
			} {
				got, slabs, undone := growHistory(t, c, a, steps, first)
				switch {
				case a == nil:
					want = got
					t.Logf("%d slabs at most, %d undone", slabs, undone)
					if name != "pages" && (slabs < 3 || undone == 0) { // those are few steps
						t.Fatal("the test is too tame")
					}
				case !bytes.Equal(got, want):
					t.Errorf("aside by %T the answers are others", a)
				}
				if q, is := a.(*queue); is && slabs > 0 && q.done == 0 {
					t.Error("nothing was done aside")
				}
			}
		})
	}
}

// growHistory is all that a set answers in a history, how many slabs it had at most, and
// how many were undone.
func growHistory(t *testing.T, c GrowingConfig, a Aside, steps int, seed uint64) (all []byte, slabs, undone int) {
	g := newGrowing(t, c)
	if a != nil {
		g.WorkAside(a)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	rotates := c.Single == SingleParams{}
	for range steps {
		before, _ := g.Slabs()
		switch step := r.IntN(20); {
		case step == 0 && rotates:
			g.Rotate([]int{1, 1, 2, 8}[r.IntN(4)])
		case step < 4:
			g.Seal()
		case step < 7 && len(g.sealed) > 0:
			g.Commit()
		case step == 7:
			g.Rollback()
		case step == 8:
			g.Sweep()
		default:
			hashes := make([]Hash, 1+r.Uint64N(c.GenerationCapacity/4))
			for i := range hashes {
				hashes[i] = Hash(r.Uint64())
			}
			ages := make([]uint8, len(hashes))
			added := g.TestAndAdd(hashes, allOf(len(hashes)), math.MaxUint64, ages)
			all = append(append(all, ages...), byte(added), byte(added>>8))
		}
		n, _ := g.Slabs()
		slabs, undone = max(slabs, n), undone+max(0, before-n)
		full := byte(0)
		if g.Full() {
			full = 1
		}
		all = append(all, byte(n), full)
		// The limit is of lines; memory is of whole pages.
		if limit := c.MaxBytes + uint64(len(g.slots)+len(g.retiring))*hugePage; g.Bytes() > limit {
			t.Fatalf("aside by %T: %d bytes, the limit is %d", a, g.Bytes(), limit)
		}
	}
	return g.AppendState(all), slabs, undone
}

// TestCase_MEM_04_Aside: with an Aside, the owner's calls make no memory resident and give
// none back, and where that is done in time nobody waits for it. What is on its way, in
// both directions, is counted and stays within the limit.
func TestCase_MEM_04_Aside(t *testing.T) {
	c := mapped()
	g, q := newGrowing(t, c), &queue{}
	g.WorkAside(q)
	hashes, learn, ages := make([]Hash, 1024), allOf(1024), make([]uint8, 1024)
	next, steps := uint64(0), 0
	send := func(n uint64) {
		for range n / 1024 {
			for i := range hashes {
				hashes[i] = scatter(next)
				next++
			}
			before := q.done
			g.TestAndAdd(hashes, learn, math.MaxUint64, ages)
			if q.done > before {
				t.Fatalf("after %d hashes the owner waited", next)
			}
			if g.Bytes() > c.MaxBytes {
				t.Fatalf("%d bytes, the limit is %d", g.Bytes(), c.MaxBytes)
			}
			steps += len(q.work)
			q.do(len(q.work))
		}
		g.Seal()
		g.Commit()
	}
	slab, share := g.plan[0].lines()*LineBytes, c.GenerationCapacity/prepareShare
	g.Recount([Generations]uint64{c.GenerationCapacity - share})
	send(share - 4096)
	if want := g.first.Bytes() + slab; g.made() != 0 || g.Bytes() < want {
		t.Errorf("%d slabs and %d bytes before the first is needed, want none and %d", g.made(), g.Bytes(), want)
	}
	if least := int(slab/asideStep) + 2; steps < least {
		t.Errorf("%d steps, want at least %d: in parts, and then again", steps, least)
	}
	send(c.GenerationCapacity * 3 / 4)
	if n, _ := g.Slabs(); n != 2 {
		t.Fatalf("%d slabs, want 2", n)
	}
	for range Generations {
		g.Rotate(1)
		g.Seal()
		g.Commit()
	}
	if len(q.work) == 0 || g.Bytes() < g.first.Bytes()+2*slab {
		t.Errorf("%d bytes while slabs are on their way back", g.Bytes())
	}
	q.do(len(q.work))
	g.Sweep()
	if g.Bytes() != g.first.Bytes() {
		t.Errorf("%d bytes are left of %d when all is given back", g.Bytes(), g.first.Bytes())
	}
	if q.waited != 0 {
		t.Errorf("the owner waited %d times", q.waited)
	}
}
