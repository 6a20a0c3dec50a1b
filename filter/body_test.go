package filter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// stored is the head and the body of s, the body appended in pieces.
func stored(r *rand.Rand, s Set) (head, body []byte) {
	units := s.BodyBytes() / BodyUnit
	for at := uint64(0); at < units; {
		to := at + 1 + r.Uint64N(units-at)
		body = s.AppendBody(body, at*BodyUnit, to*BodyUnit)
		at = to
	}
	return s.AppendHead(nil), body
}

// TestLoadGivesTheStateBack stores sets in the middle of their histories: loaded
// into an empty set and into a used one they must be the same byte by byte, have
// nothing to roll back, and go on alike.
func TestLoadGivesTheStateBack(t *testing.T) {
	r := seeded(t)
	for name, make := range allSets(t) {
		t.Run(name, func(t *testing.T) {
			s, used := make(), make()
			for _, s := range []Set{s, used} {
				live(r, s, 300)
			}
			s.Seal() // what is not committed is stored like the rest
			head, body := stored(r, s)
			want := s.AppendState(nil)
			if !bytes.Equal(want, slices.Concat(head, body)) {
				t.Fatal("the state is not the head and the body")
			}
			if n := uint64(len(body)); n != s.BodyBytes() || n%BodyUnit != 0 {
				t.Fatalf("the body has %d bytes, BodyBytes is %d", n, s.BodyBytes())
			}
			for what, loaded := range map[string]Set{"empty": make(), "used": used} {
				for reader, body := range map[string]io.Reader{
					"whole":      bytes.NewReader(body),
					"by halves":  iotest.HalfReader(bytes.NewReader(body)),
					"by bytes":   iotest.OneByteReader(bytes.NewReader(body)),
					"end at one": iotest.DataErrReader(bytes.NewReader(body)),
				} {
					if err := loaded.Load(head, body); err != nil {
						t.Fatalf("%s, %s: %v", what, reader, err)
					}
					if !bytes.Equal(loaded.AppendState(nil), want) {
						t.Fatalf("%s, %s: the loaded state differs", what, reader)
					}
					if n := loaded.JournalBytes(); n != 0 {
						t.Fatalf("%s, %s: the journal has %d bytes after loading", what, reader, n)
					}
				}
				seed := r.Uint64()
				twin := make()
				if err := twin.Load(head, bytes.NewReader(body)); err != nil {
					t.Fatal(err)
				}
				live(rand.New(rand.NewPCG(seed, 0)), twin, 100)
				live(rand.New(rand.NewPCG(seed, 0)), loaded, 100)
				if !bytes.Equal(loaded.AppendState(nil), twin.AppendState(nil)) {
					t.Fatalf("%s: two loaded sets go on differently", what)
				}
				loaded.Rollback()
				loaded.Rollback()
				if !bytes.Equal(loaded.AppendState(nil), want) {
					t.Fatalf("%s: a rollback does not go back to the loaded state", what)
				}
			}
		})
	}
}

// live gives s some history of additions and rotations, and no commit.
func live(r *rand.Rand, s Set, steps int) {
	for range steps {
		hashes, learn := batchOf(r, 20)
		if r.IntN(2) == 0 {
			s.TestAndAdd(hashes, learn, 20, make([]uint8, len(hashes)))
		} else {
			s.Learn(r.IntN(lives(s)), hashes, learn, 20, make([]uint8, len(hashes)))
		}
		if lives(s) > 1 {
			s.Rotate(r.IntN(2))
		}
	}
}

// TestCopyWhileTheSetGoesOn copies a body in pieces, with additions, sweeps and as
// many rotations between as BodySpan allows. The oracle is an eagerly cleaned filter
// that has each line as it was when it was copied. Over the next 300 rotations the
// loaded filter must equal it bit by bit: no bit missing, and none that comes back
// when a stamp's byte comes round.
func TestCopyWhileTheSetGoesOn(t *testing.T) {
	r := seeded(t)
	for _, lines := range []uint64{MinLines, 200, 201, 399, 1000} {
		for _, pieces := range []uint64{1, 2, 20} {
			t.Run(fmt.Sprintf("lines=%d/pieces=%d", lines, pieces), func(t *testing.T) {
				for range rounds(50) / 2 {
					copyWhileItGoesOn(t, r, lines, pieces)
				}
			})
		}
	}
}

func copyWhileItGoesOn(t *testing.T, r *rand.Rand, lines, pieces uint64) {
	t.Helper()
	p := Params{Lines: lines, LinesPerKey: 2, CellsPerLine: 4}
	u := newSubject(newSliced(t, p))
	step := func(u *subject) {
		if r.IntN(30) == 0 { // many lines at once, then left alone
			hashes, learn := batchOf(r, 100)
			u.testAndAdd(t, hashes, learn, 100)
			hashes, learn = batchOf(r, 100)
			u.learn(t, r.IntN(Generations), hashes, learn, 100)
		}
		if r.IntN(30) == 0 {
			u.Sweep()
		}
		u.rotate(1)
		u.Seal()
		u.Commit()
	}
	for range 200 + r.IntN(300) {
		step(u)
	}

	// The rotations between the first piece and the head are spread at random.
	before := u.model.clone()
	shadow := newEager(p)
	shadow.rotation = u.model.rotation
	var body []byte
	left := u.BodySpan()
	for n := range pieces {
		from, to := n*lines/pieces, (n+1)*lines/pieces
		body = u.AppendBody(body, from*BodyUnit, to*BodyUnit)
		copy(shadow.cells[from:to], u.eager.cells[from:to])
		rotations := r.Uint64N(left + 1)
		if n == pieces-1 {
			rotations = left
		}
		left -= rotations
		for range rotations {
			step(u)
			shadow.rotate()
		}
	}

	loaded := &subject{Set: newSliced(t, p), model: before, eager: shadow}
	if err := loaded.Load(u.AppendHead(nil), bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	before.rotation = shadow.rotation
	loaded.checkHeld(t)
	for range 300 {
		step(loaded)
		loaded.checkHeld(t)
	}
}

// TestLoadOfAnyBodyIsSafe loads bodies of random bytes: the set holds nonsense, but
// it learns, forgets and rolls back like any other.
func TestLoadOfAnyBodyIsSafe(t *testing.T) {
	r := seeded(t)
	for name, make := range allSets(t) {
		t.Run(name, func(t *testing.T) {
			s := make()
			body := randomBytes(r, int(s.BodyBytes()))
			if err := s.Load(s.AppendHead(nil), bytes.NewReader(body)); err != nil {
				t.Fatal(err)
			}
			want := s.AppendState(nil)
			live(r, s, 100)
			h := Hash(r.Uint64())
			for age := range lives(s) {
				s.Learn(age, []Hash{h}, []bool{true}, 1, []uint8{0})
			}
			if got, want := s.Test(h), allAges>>(Generations-lives(s)); got != want {
				t.Errorf("a hash learned at all ages has ages %08b", got)
			}
			s.Rollback()
			if !bytes.Equal(s.AppendState(nil), want) {
				t.Error("a rollback does not go back to the loaded state")
			}
		})
	}
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestLoadRefusesABodyOfWrongLength cuts bodies around every step that Load reads
// in, and makes them longer.
func TestLoadRefusesABodyOfWrongLength(t *testing.T) {
	const steps = 2*loadStep + 5*BodyUnit
	classic, err := NewClassic(ClassicParams{Bits: steps, Hashes: 3}) // a byte a bit, in eight filters
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for name, s := range map[string]Set{
		"sliced":  newSliced(t, Params{Lines: steps / LineBytes, LinesPerKey: 2, CellsPerLine: 4}),
		"classic": classic,
		"single":  newSingle(t, SingleParams{Lines: steps / LineBytes, BitsPerLine: 3}),
	} {
		head, body := s.AppendHead(nil), make([]byte, s.BodyBytes())
		if len(body) != steps {
			t.Fatalf("%s: the body has %d bytes, the test wants %d", name, len(body), steps)
		}
		for _, n := range []int{0, 1, 63, 64, loadStep - 1, loadStep, loadStep + 1, 2 * loadStep, steps / 8, steps - 64, steps - 1} {
			if err := s.Load(head, bytes.NewReader(body[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: %d of %d bytes: %v, want %v", name, n, steps, err, io.ErrUnexpectedEOF)
			}
			if err := s.Load(head, io.MultiReader(bytes.NewReader(body[:n]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
				t.Errorf("%s: broken after %d of %d bytes: %v, want %v", name, n, steps, err, broken)
			}
		}
		for _, more := range []int{1, 64, loadStep} {
			longer := append(slices.Clone(body), make([]byte, more)...)
			if err := s.Load(head, bytes.NewReader(longer)); err == nil || !strings.Contains(err.Error(), "goes on") {
				t.Errorf("%s: %d bytes too many: %v, want an error", name, more, err)
			}
		}
		if err := s.Load(head, io.MultiReader(bytes.NewReader(body), iotest.ErrReader(broken))); !errors.Is(err, broken) {
			t.Errorf("%s: broken at the end: %v, want %v", name, err, broken)
		}
		if err := s.Load(head, bytes.NewReader(body)); err != nil {
			t.Errorf("%s: the right length: %v", name, err)
		}
	}
}

func TestLoadRefusesBadHeads(t *testing.T) {
	s := newSliced(t, Params{Lines: 1000, LinesPerKey: 2, CellsPerLine: 4})
	head := func(rotation, cursor, owed uint64) []byte {
		return (&Sliced{clock: clock{rotation, cursor, owed}}).AppendHead(nil)
	}
	body := make([]byte, s.BodyBytes())
	for _, c := range []struct {
		head []byte
		want string // in the error, empty for none
	}{
		{head(0, 0, 0), ""},
		{head(1<<64-1, 999, sweepSlack*8), ""},
		{head(7, 1000, 0), "line 1000 of 1000"},
		{head(7, 1<<63, 0), "line 9223372036854775808"},
		{head(7, 0, sweepSlack*8+1), "377 lines behind, want at most 376"},
		{head(7, 0, 1<<64-1), "lines behind"},
		{nil, "0 bytes, want 24"},
		{head(0, 0, 0)[:23], "23 bytes, want 24"},
		{append(head(0, 0, 0), 0), "25 bytes, want 24"},
	} {
		err := s.Load(c.head, bytes.NewReader(body))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("head %x: %v, want %q", c.head, err, c.want)
		}
	}
	c, err := NewClassic(ClassicParams{Bits: 1024, Hashes: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 7, 9, 24} {
		if err := c.Load(make([]byte, n), bytes.NewReader(make([]byte, c.BodyBytes()))); err == nil {
			t.Errorf("classic: a head of %d bytes was loaded", n)
		}
	}
	single := newSingle(t, SingleParams{Lines: MinLines, BitsPerLine: 3})
	for _, head := range [][]byte{nil, make([]byte, 7), make([]byte, 9), {1, 7: 0}} {
		if err := single.Load(head, bytes.NewReader(make([]byte, single.BodyBytes()))); err == nil {
			t.Errorf("single: head %x was loaded", head)
		}
	}
}

// TestClassicRefusesBitsBeyondItsFilters sets the first bit that a filter does not
// have, in each of them.
func TestClassicRefusesBitsBeyondItsFilters(t *testing.T) {
	c, err := NewClassic(ClassicParams{Bits: 1025, Hashes: 3}) // 17 words, one bit in the last
	if err != nil {
		t.Fatal(err)
	}
	for slot := range Generations {
		body := make([]byte, c.BodyBytes())
		last := body[slot*17*8+16*8:]
		last[0] = 1
		if err := c.Load(c.AppendHead(nil), bytes.NewReader(body)); err != nil {
			t.Errorf("filter %d, its last bit: %v", slot, err)
		}
		last[0] = 2
		if err := c.Load(c.AppendHead(nil), bytes.NewReader(body)); err == nil {
			t.Errorf("filter %d: a bit that it does not have was loaded", slot)
		}
	}
}

func TestBadCutIsABug(t *testing.T) {
	for name, make := range sets(t) {
		s := make()
		size := s.BodyBytes()
		for _, cut := range [][2]uint64{{64, 0}, {0, size + 64}, {size + 64, size + 64}, {1, 64}, {0, 63}, {0, 1<<64 - 64}} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: bytes %d to %d of %d did not panic", name, cut[0], cut[1], size)
					}
				}()
				s.AppendBody(nil, cut[0], cut[1])
			}()
		}
		if b := s.AppendBody(nil, size, size); len(b) != 0 {
			t.Errorf("%s: nothing at the end has %d bytes", name, len(b))
		}
	}
}

// FuzzLoad loads whatever comes, and if it is taken, uses it: no bytes may make the
// set panic, lose what it is given, or miss the way back to what was loaded.
func FuzzLoad(f *testing.F) {
	kinds := []func(testing.TB) Set{
		func(t testing.TB) Set { return newSliced(t, Params{Lines: MinLines, LinesPerKey: 3, CellsPerLine: 3}) },
		func(t testing.TB) Set {
			c, err := NewClassic(ClassicParams{Bits: 1030, Hashes: 5})
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
	}
	for kind, open := range kinds {
		s := open(f)
		history(s, 4)
		head, body := s.AppendHead(nil), s.AppendBody(nil, 0, s.BodyBytes())
		f.Add(uint8(kind), head, body)
		f.Add(uint8(kind), head[1:], body)
		f.Add(uint8(kind), head, body[1:])
		f.Add(uint8(kind), bytes.Repeat([]byte{0xff}, len(head)), body)
		f.Add(uint8(kind), head, bytes.Repeat([]byte{0xa5}, len(body)))
	}
	f.Fuzz(func(t *testing.T, kind uint8, head, body []byte) {
		s := kinds[int(kind)%len(kinds)](t)
		if err := s.Load(head, bytes.NewReader(body)); err != nil {
			return
		}
		want := s.AppendState(nil)
		if !bytes.Equal(want[:len(head)], head) || len(want) != len(head)+len(body) {
			t.Fatal("the head or the length changed by loading")
		}
		hashes, learn, ages := []Hash{1, 2, 3}, []bool{true, true, true}, make([]uint8, 3)
		for range 20 {
			s.TestAndAdd(hashes, learn, 3, ages)
			s.Learn(Sealed, hashes, learn, 3, ages)
			for _, h := range hashes {
				if s.Test(h)>>Sealed != 1 {
					t.Fatalf("hash %d was learned at age %d and is not found there", h, Sealed)
				}
			}
			s.Rotate(1)
		}
		s.Rollback()
		if !bytes.Equal(s.AppendState(nil), want) {
			t.Fatal("a rollback does not go back to the loaded state")
		}
	})
}
