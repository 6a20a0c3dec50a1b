package filter

import (
	"bytes"
	"math/big"
	"os"
	"testing"
)

// plainSingle is a filter of one generation without lines, kernel and journal, which
// computes places its own way.
type plainSingle struct {
	SingleParams
	bits []bool
}

// places are the numbers of the bits of h.
func (p *plainSingle) places(h Hash) (places []uint64) {
	for j := range uint64(2) {
		x := murmur(uint64(h) + (j+1)*0x9e3779b97f4a7c15)
		n := new(big.Int).SetUint64(x)
		n.Mul(n, new(big.Int).SetUint64(p.Lines)).Rsh(n, 64)
		y := stafford(x)
		for c := range p.BitsPerLine {
			if c == 7 {
				y = stafford(stafford(x) + 0x9e3779b97f4a7c15)
			}
			places = append(places, n.Uint64()*512+y>>(9*(c%7))&511)
		}
	}
	return places
}

func (p *plainSingle) holds(h Hash) bool {
	for _, b := range p.places(h) {
		if !p.bits[b] {
			return false
		}
	}
	return true
}

// TestSingleBitByBit runs a random history through a Single and the plain filter:
// every answer and, after each commit and rollback, every bit must be the same.
func TestSingleBitByBit(t *testing.T) {
	r := seeded(t)
	for n := range 2 * maxBitsPerLine {
		bits := 1 + n/2
		p := SingleParams{Lines: 100, BitsPerLine: bits}
		s, plain := newSingle(t, p), &plainSingle{p, make([]bool, 512*p.Lines)}
		if n%2 == 0 {
			s.kernel = addBits // which no usual geometry takes
		}
		committed := append([]bool(nil), plain.bits...)
		for range rounds(2000) {
			hashes, learn := batchOf(r, 200)
			room := r.Uint64N(20)
			ages := make([]uint8, len(hashes))
			added := s.TestAndAdd(hashes, learn, room, ages)
			var want uint64
			for i, h := range hashes {
				held := plain.holds(h)
				if (ages[i] == 1) != held || ages[i] > 1 {
					t.Fatalf("%d bits: hash %#x has ages %08b, held is %v", bits, h, ages[i], held)
				}
				if !held && learn[i] && want < room {
					want++
					for _, b := range plain.places(h) {
						plain.bits[b] = true
					}
				}
			}
			if added != want {
				t.Fatalf("%d bits: %d were added, want %d", bits, added, want)
			}
			switch r.IntN(4) {
			case 0:
				s.Seal()
				s.Commit()
				copy(committed, plain.bits)
			case 1:
				s.Rollback()
				copy(plain.bits, committed)
			default:
				continue
			}
			body := s.AppendBody(nil, 0, s.BodyBytes())
			for n, set := range plain.bits {
				if body[n/8]>>(n%8)&1 == 1 != set {
					t.Fatalf("%d bits: bit %d is not %v", bits, n, set)
				}
			}
		}
	}
}

// TestSingleHasNoTime: a rotation, or a lesson for an older generation, would be
// forgotten or kept for ever without a word.
func TestSingleHasNoTime(t *testing.T) {
	s := newSingle(t, SingleParams{Lines: MinLines, BitsPerLine: 3})
	s.TestAndAdd([]Hash{1}, []bool{true}, 1, []uint8{0})
	before := s.AppendState(nil)
	s.Rotate(0)
	for what, f := range map[string]func(){
		"a rotation":               func() { s.Rotate(1) },
		"a lesson of age 1":        func() { s.Learn(1, []Hash{2}, []bool{true}, 1, []uint8{0}) },
		"a lesson of the last age": func() { s.Learn(Sealed, nil, nil, 1, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", what)
				}
			}()
			f()
		}()
	}
	if !bytes.Equal(s.AppendState(nil), before) {
		t.Error("what panics has changed the filter")
	}
}

// TestCase_STATE_08_StoredSingleIsFoundWhole loads a filter that an earlier build
// stored, on some machine: every key must be found.
func TestCase_STATE_08_StoredSingleIsFoundWhole(t *testing.T) {
	const file, keys = "stored-single.bin", 400
	p := SingleParams{Lines: MinLines, BitsPerLine: 8} // of which one takes a second pick
	made := newSingle(t, p)
	for n := range uint64(keys) {
		made.TestAndAdd([]Hash{scatter(n)}, []bool{true}, 1, []uint8{0})
	}
	compareGolden(t, file, made.AppendState(nil))
	state, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	s := newSingle(t, p)
	head, body := split(s, state)
	if err := s.Load(head, bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	for n := range uint64(keys) {
		if s.Test(scatter(n)) != 1 {
			t.Fatalf("key %d is not found", n)
		}
	}
}

func TestSingleAllocatesNothing(t *testing.T) {
	s, f := newSingle(t, SingleParams{Lines: 1 << 12, BitsPerLine: 6}), newFeed(200)
	cycle := func() {
		for range 20 {
			f.fill()
			s.TestAndAdd(f.hashes, f.learn, 200, f.ages)
		}
		s.Seal()
		f.fill()
		s.TestAndAdd(f.hashes, f.learn, 200, f.ages)
		s.Commit()
		s.Rollback()
	}
	for range 20 {
		cycle()
	}
	if n := testing.AllocsPerRun(100, cycle); n != 0 {
		t.Errorf("a cycle allocates %v times, want 0", n)
	}
}

func TestNewSingleRefusesBadParams(t *testing.T) {
	for _, p := range []SingleParams{
		{},
		{Lines: 1 << 62, BitsPerLine: 3},
		{Lines: MinLines - 1, BitsPerLine: 3},
		{Lines: 1 << 10},
		{Lines: 1 << 10, BitsPerLine: maxBitsPerLine + 1},
		{Lines: 1 << 10, BitsPerLine: -1},
	} {
		if s, err := NewSingle(p); err == nil || s != nil {
			t.Errorf("NewSingle(%+v) = %v, %v, want an error", p, s, err)
		}
	}
}
