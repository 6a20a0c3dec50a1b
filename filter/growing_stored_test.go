package filter

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

// remembered is what a Growing was given, as a log has it.
type remembered struct {
	rotation int
	hashes   []Hash
}

// TestGrowingFromItsLog makes sets again from a log of what they learned, and from a
// stored state and the log behind it: they answer as the original does, to any hash.
func TestGrowingFromItsLog(t *testing.T) {
	r := seeded(t)
	config := growingSliced
	config.GenerationCapacity = 300
	for round := range rounds(200) {
		g := newGrowing(t, config)
		var log []remembered
		rotation := 0
		learn := func() {
			hashes := make([]Hash, 1+r.IntN(300))
			for i := range hashes {
				hashes[i] = scatter(r.Uint64N(4000))
			}
			ages, want := make([]uint8, len(hashes)), allOf(len(hashes))
			refresh := round%2 == 0
			if refresh {
				g.Learn(0, hashes, want, math.MaxUint64, ages)
			} else {
				g.TestAndAdd(hashes, want, math.MaxUint64, ages)
			}
			var learned []Hash
			for i, a := range ages {
				if a == 0 || refresh && a&1 == 0 {
					learned = append(learned, hashes[i])
				}
			}
			log = append(log, remembered{rotation, learned})
			g.Seal()
			g.Commit()
			if r.IntN(3) == 0 {
				g.Rotate(1)
				rotation++
			}
		}
		relearn := func(to *Growing, log []remembered) {
			for _, l := range log {
				if age := rotation - l.rotation; age < Generations {
					if n := to.Relearn(age, l.hashes); n > 0 {
						t.Fatalf("%d hashes found no place", n)
					}
				}
				to.Seal()
				to.Commit()
			}
		}
		for range 10 + r.IntN(20) {
			learn()
		}
		given, begin, behind := g.counts, len(log), rotation
		var body []byte
		_, changed := g.Slabs()
		geometry := g.Geometry()
		for at, end := uint64(0), g.BodyBytes(); at < end; {
			to := min(end, at+uint64(1+r.IntN(1000))*BodyUnit)
			body = g.AppendBody(body, at, to)
			at = to
			if _, now := g.Slabs(); now == changed && r.IntN(4) == 0 && len(log) < begin+3 {
				learn()
				if _, now := g.Slabs(); now != changed {
					break // the copy is given up
				}
			}
		}
		fromLog := newGrowing(t, config)
		relearn(fromLog, log)
		sameAnswers(t, "from the log", g, fromLog)
		if _, now := g.Slabs(); now != changed || uint64(len(body)) != g.BodyBytes() {
			continue
		}
		copied := newGrowing(t, config)
		if n, ok := Loads(copied, geometry); !ok || n != uint64(len(body)) {
			t.Fatalf("a set does not load what another of its plan stored, %q", geometry)
		}
		if err := copied.Load(g.AppendHead(nil), bytes.NewReader(body)); err != nil {
			t.Fatal(err)
		}
		var shifted [Generations]uint64
		if passed := rotation - behind; passed < Generations {
			copy(shifted[passed:], given[:])
		}
		copied.Recount(shifted)
		relearn(copied, log[begin:])
		sameAnswers(t, "from a copy and the log", g, copied)
	}
}

// sameAnswers asks both sets for many hashes, seen and not.
func sameAnswers(t *testing.T, what string, want, got *Growing) {
	t.Helper()
	if got.counts != want.counts {
		t.Fatalf("%s: generations of %v hashes, want %v", what, got.counts, want.counts)
	}
	for i := range uint64(20_000) {
		if a, b := want.Test(scatter(i)), got.Test(scatter(i)); a != b {
			t.Fatalf("%s: hash %d has ages %08b, want %08b", what, i, b, a)
		}
	}
}

// TestGrowingLoads: a set with slabs is stored and loaded as it is, also where the limit
// has shrunk: then it keeps what it has and makes no more. One that did not grow is loaded
// too, one of another plan is not.
func TestGrowingLoads(t *testing.T) {
	c := smallGrowing(t, 1000, 1e-2)
	g := newGrowing(t, c)
	for range 3 {
		give(t, g, g.counts[0], 2200)
		g.Rotate(1)
	}
	small := c
	small.MaxBytes = 0
	shrunk := newGrowing(t, small)
	if n, ok := Loads(shrunk, g.Geometry()); !ok || n != g.BodyBytes() {
		t.Fatalf("a set with another limit does not load %q", g.Geometry())
	}
	state := g.AppendState(nil)
	head, body := state[:len(state)-int(g.BodyBytes())], state[len(state)-int(g.BodyBytes()):]
	if err := shrunk.Load(head, bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(shrunk.AppendState(nil), state) {
		t.Error("what was loaded is not what was stored")
	}
	sameAnswers(t, "loaded", g, shrunk)
	n, _ := shrunk.Slabs()
	hashes := make([]Hash, 5000)
	for i := range hashes {
		hashes[i] = scatter(uint64(1<<30 + i))
	}
	if added := shrunk.Learn(0, hashes, allOf(5000), math.MaxUint64, make([]uint8, 5000)); added != 1000+500*uint64(n) {
		t.Errorf("with %d slabs more than the limit allows, %d hashes were added", n, added)
	}
	for what, damage := range map[string]func(head, body []byte) ([]byte, []byte){
		"half a slab's head": func(h, b []byte) ([]byte, []byte) { return h[:len(h)-1], b },
		"a slab's head less": func(h, b []byte) ([]byte, []byte) { return h[:len(h)-slicedHead], b },
		"no counts":          func(h, b []byte) ([]byte, []byte) { return h[:slicedHead+8], b },
		"no head":            func(_, b []byte) ([]byte, []byte) { return nil, b },
		"a body cut off":     func(h, b []byte) ([]byte, []byte) { return h, b[:len(b)-1] },
		"a body that goes on": func(h, b []byte) ([]byte, []byte) {
			return h, append(b[:len(b):len(b)], 0)
		},
	} {
		h, b := damage(head, body)
		if err := newGrowing(t, c).Load(h, bytes.NewReader(b)); err == nil {
			t.Errorf("%s was loaded", what)
		}
	}

	plain := newSliced(t, c.Sliced)
	give(t, plain, 0, 1000)
	if n, ok := Loads(shrunk, plain.Geometry()); !ok || n != plain.BodyBytes() {
		t.Error("a set does not load what its first filter stored")
	}
	grown := newGrowing(t, c)
	if err := grown.Load(plain.AppendHead(nil), bytes.NewReader(plain.AppendBody(nil, 0, plain.BodyBytes()))); err != nil {
		t.Fatal(err)
	}
	grown.Recount([Generations]uint64{1000})
	give(t, grown, 1000, 100)
	if n, _ := grown.Slabs(); n != 1 {
		t.Errorf("%d slabs behind a full filter that had not grown, want 1", n)
	}
	for _, other := range []GrowingConfig{
		smallGrowing(t, 1001, 1e-2),
		{Sliced: c.Sliced, FPR: 1e-3, GenerationCapacity: 1000},
		{Sliced: c.Sliced, FPR: 1e-2, GenerationCapacity: 900},
		growingSingle,
	} {
		if _, ok := Loads(newGrowing(t, other), g.Geometry()); ok {
			t.Errorf("a set of another plan loads %q", g.Geometry())
		}
	}
	if _, ok := Loads(plain, g.Geometry()); ok {
		t.Error("a filter that does not grow loads one that did")
	}
}

// TestGrowingModel: the geometry says of a Growing what its filters say.
func TestGrowingModel(t *testing.T) {
	for name, c := range map[string]GrowingConfig{"sliced": growingSliced, "single": growingSingle} {
		t.Run(name, func(t *testing.T) {
			g := newGrowing(t, c)
			for {
				m, err := ParseGeometry(g.Geometry())
				if err != nil {
					t.Fatal(err)
				}
				if m.Bytes() != g.BodyBytes() {
					t.Errorf("%q has %d bytes, want %d", g.Geometry(), m.Bytes(), g.BodyBytes())
				}
				if g.used == 3 {
					break
				}
				give(t, g, g.counts[0], 20)
			}
			m := g.model(3)
			var loads, first, slab [Generations]uint64
			first[0], slab[0] = c.GenerationCapacity, c.GenerationCapacity/2
			loads[0] = first[0] + 3*slab[0]
			want := 1 - m.filters[0].model().FPRAt(first)
			for _, f := range m.filters[1:] {
				want *= 1 - f.model().FPRAt(slab)
			}
			if got := m.FPRAt(loads); math.Abs(got-(1-want)) > 1e-12 {
				t.Errorf("rate %g, want %g", got, 1-want)
			}
			for _, text := range []string{"", g.Geometry() + " ", g.Geometry() + " + ", "growing filter"} {
				if _, err := ParseGeometry(text); err == nil {
					t.Errorf("%q was read", text)
				}
			}
		})
	}
}

// TestGrowingLoadsMoreThanPlanned: a filter that did not grow may have been planned for
// more, at a higher rate in the same memory. What comes then needs a slab behind others
// that nothing is in, with memory for it or without.
func TestGrowingLoadsMoreThanPlanned(t *testing.T) {
	c := smallGrowing(t, 1000, 1e-2)
	for _, given := range []uint64{1480, 1600, 2600} {
		for _, refuses := range []bool{false, true} {
			plain := newSliced(t, c.Sliced)
			give(t, plain, 0, given)
			g := newGrowing(t, c)
			if err := g.Load(plain.AppendHead(nil), bytes.NewReader(plain.AppendBody(nil, 0, plain.BodyBytes()))); err != nil {
				t.Fatal(err)
			}
			g.Recount([Generations]uint64{given})
			before := g.AppendState(nil)
			if refuses {
				g.obtain = func(uint64) (reserve, error) { return reserve{}, errors.New("none left") }
			}
			hashes, ages := make([]Hash, 3000), make([]uint8, 3000)
			for i := range hashes {
				hashes[i] = scatter(uint64(1<<20 + i))
			}
			added := g.TestAndAdd(hashes, allOf(len(hashes)), math.MaxUint64, ages)
			if refuses != (added == 0) {
				t.Errorf("%d hashes were added behind %d, memory refused: %v", added, given, refuses)
			}
			for i, a := range ages {
				if a == 0 && !refuses && g.Test(hashes[i])&1 == 0 {
					t.Fatalf("hash %d behind %d is not held", i, given)
				}
			}
			for i := range given {
				if g.Test(scatter(i))&1 == 0 {
					t.Fatalf("hash %d of %d is forgotten", i, given)
				}
			}
			g.Rollback()
			if !bytes.Equal(g.AppendState(nil), before) {
				t.Errorf("behind %d a rollback left another state", given)
			}
		}
	}
}
