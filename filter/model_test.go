package filter

import (
	"bytes"
	"maps"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// seeded returns a generator for a test's random choices. STREAMDEDUP_SEED
// repeats a run.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("STREAMDEDUP_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("parse STREAMDEDUP_SEED: %v", err)
		}
	}
	t.Logf("STREAMDEDUP_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// rounds is n for the long run and a tenth of it otherwise.
func rounds(n int) int {
	if os.Getenv("STREAMDEDUP_LONG") == "" {
		return n / 10
	}
	return n
}

// model is what a Set must know, exactly: the generations that hold each hash.
type model struct {
	rotation int
	learned  map[Hash]holders
}

// holders is the mask of ages that held a hash at a rotation.
type holders struct {
	rotation int
	ages     uint8
}

// ages is the mask of ages that hold h.
func (m *model) ages(h Hash) uint8 {
	l := m.learned[h]
	return l.ages << (m.rotation - l.rotation)
}

func (m *model) add(h Hash, age int) {
	m.learned[h] = holders{m.rotation, m.ages(h) | 1<<age}
}

func (m *model) clone() *model { return &model{m.rotation, maps.Clone(m.learned)} }

// eager is a sliced filter without stamps, sweep and journal: a rotation clears
// the new generation's bit in every cell. It computes places its own way.
type eager struct {
	Params
	rotation int
	cells    [][CellsInLine]byte
}

func newEager(p Params) *eager { return &eager{p, 0, make([][CellsInLine]byte, p.Lines)} }

func (e *eager) clone() *eager { return &eager{e.Params, e.rotation, slices.Clone(e.cells)} }

func (e *eager) rotate() {
	e.rotation++
	for i := range e.cells {
		for c := range e.cells[i] {
			e.cells[i][c] &^= 1 << (e.rotation % Generations)
		}
	}
}

// murmur and stafford are the finalisers by which a hash is spread, written from their
// authors' constants for the models of the tests.
func murmur(x uint64) uint64 {
	for _, m := range []uint64{0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53} {
		x ^= x >> 33
		x *= m
	}
	return x ^ x>>33
}

func stafford(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// places are pointers to the cells of h.
func (e *eager) places(h Hash) (cells []*byte) {
	for j := range e.LinesPerKey {
		x := uint64(h)
		for range j + 1 {
			x += 0x9e3779b97f4a7c15
		}
		x = murmur(x)
		n := new(big.Int).SetUint64(x)
		n.Mul(n, new(big.Int).SetUint64(e.Lines)).Rsh(n, 64)
		l := &e.cells[n.Uint64()]
		y := stafford(x)
		for c := range e.CellsPerLine {
			if c == 4 {
				y = stafford(y + 0x9e3779b97f4a7c15)
			}
			cells = append(cells, &l[(y&0xffff)*63/65536])
			y = y>>16 | y<<48
		}
	}
	return cells
}

func (e *eager) ages(h Hash) (mask uint8) {
	held := byte(0xff)
	for _, c := range e.places(h) {
		held &= *c
	}
	for age := range Generations {
		if held&e.bit(age) != 0 {
			mask |= 1 << age
		}
	}
	return mask
}

// bit is that of the generation of the given age.
func (e *eager) bit(age int) byte {
	return 1 << ((e.rotation + Generations - age) % Generations)
}

func (e *eager) add(h Hash, age int) {
	for _, c := range e.places(h) {
		*c |= e.bit(age)
	}
}

// subject is a Set under test beside what it must equal.
type subject struct {
	Set
	model *model
	eager *eager // nil unless the Set is a Sliced

	sealed []snapshot // states at each Seal since the last Commit
	last   snapshot   // state at the last Commit
}

type snapshot struct {
	model *model
	eager *eager
	bytes []byte
}

func newSubject(s Set) *subject {
	u := &subject{Set: s, model: &model{learned: map[Hash]holders{}}}
	if s, ok := s.(*Sliced); ok {
		u.eager = newEager(s.params)
	}
	u.last = u.snapshot()
	return u
}

func (u *subject) snapshot() snapshot {
	s := snapshot{model: u.model.clone(), bytes: u.AppendState(nil)}
	if u.eager != nil {
		s.eager = u.eager.clone()
	}
	return s
}

func (u *subject) testAndAdd(t *testing.T, hashes []Hash, learn []bool, room uint64) {
	t.Helper()
	u.add(t, u.TestAndAdd, 0, 0xff, hashes, learn, room)
}

func (u *subject) learn(t *testing.T, age int, hashes []Hash, learn []bool, room uint64) {
	t.Helper()
	u.add(t, learnAt(u.Set, age), age, 1<<age, hashes, learn, room)
}

// adder is TestAndAdd, or Learn at one age.
type adder func(hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64)

func learnAt(s Set, age int) adder {
	return func(hashes []Hash, learn []bool, room uint64, ages []uint8) uint64 {
		return s.Learn(age, hashes, learn, room, ages)
	}
}

// add calls one of the two operations that add: it must do so, at the given age,
// where no generation of the ages in known holds a hash.
func (u *subject) add(t *testing.T, call adder, age int, known uint8, hashes []Hash, learn []bool, room uint64) {
	t.Helper()
	ages := make([]uint8, len(hashes))
	added := call(hashes, learn, room, ages)
	var want uint64
	for i, h := range hashes {
		if held := u.model.ages(h); held&^ages[i] != 0 {
			t.Fatalf("hash %#x was learned at ages %08b, those that hold it are %08b", h, held, ages[i])
		}
		if u.eager != nil {
			if want := u.eager.ages(h); ages[i] != want {
				t.Fatalf("the ages of hash %#x are %08b, want %08b", h, ages[i], want)
			}
		}
		if ages[i]&known == 0 && learn[i] && want < room {
			want++
			u.model.add(h, age)
			if u.eager != nil {
				u.eager.add(h, age)
			}
		}
	}
	if added != want {
		t.Fatalf("%d were added, want %d", added, want)
	}
}

func (u *subject) rotate(n int) {
	u.Rotate(n)
	for range min(n, Generations) {
		u.model.rotation++
		if u.eager != nil {
			u.eager.rotate()
		}
	}
}

func (u *subject) seal() {
	u.Seal()
	u.sealed = append(u.sealed, u.snapshot())
}

func (u *subject) commit() {
	u.Commit()
	u.last, u.sealed = u.sealed[0], u.sealed[1:]
}

func (u *subject) rollback(t *testing.T) {
	t.Helper()
	u.Rollback()
	u.sealed = nil
	u.model = u.last.model.clone()
	if u.last.eager != nil {
		u.eager = u.last.eager.clone()
	}
	if !bytes.Equal(u.AppendState(nil), u.last.bytes) {
		t.Fatal("the state after a rollback is not that of the last commit")
	}
	if n := u.JournalBytes(); n != 0 {
		t.Fatalf("the journal has %d bytes after a rollback, want 0", n)
	}
}

// checkHeld looks up everything that was learned, and compares all cells.
func (u *subject) checkHeld(t *testing.T) {
	t.Helper()
	for h := range u.model.learned {
		if held, got := u.model.ages(h), u.Test(h); held&^got != 0 {
			t.Fatalf("hash %#x was learned at ages %08b, those that hold it are %08b", h, held, got)
		}
	}
	if u.eager != nil {
		u.checkCells(t)
	}
}

// checkCells compares what has not expired in each line.
func (u *subject) checkCells(t *testing.T) {
	t.Helper()
	s := u.Set.(*Sliced)
	for i, l := range s.lines {
		// A stamp's age is the number of rotations since, never more than the
		// sweep allows, which the caller's rotations put to the test.
		age := int(byte(u.model.rotation) - l[stampCell])
		live := byte(0xff)
		for a := range min(age, Generations) {
			live &^= 1 << ((u.model.rotation - a) % Generations)
		}
		for c := range CellsInLine {
			if l[c]&live != u.eager.cells[i][c] {
				t.Fatalf("cell %d of line %d, cleaned %d rotations ago, has bits %08b, want %08b", c, i, age, l[c]&live, u.eager.cells[i][c])
			}
		}
	}
}
