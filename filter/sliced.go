package filter

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

const (
	// batch is how many hashes have their lines fetched before the first of
	// them is looked up. More do not overlap better: a core has fewer misses in
	// flight than that.
	batch = 64

	// overlapBytes is the largest filter whose lines are best asked for one by one
	// while the numbers of the next are computed. A larger one has more pages than
	// the processor remembers, and what it waits for then is to find the page: that
	// overlaps only in a burst of nothing else. One by one saves a fifth of a look-up
	// at 256 MiB, a tenth at 1 GiB, and nothing at 2 GiB.
	overlapBytes = 1 << 30

	// stampCell is the byte of a line that says which rotation, modulo 256,
	// last cleaned it.
	stampCell = CellsInLine

	// Every rotation owes one sweepPeriod-th of the lines, so that a line is
	// cleaned long before its stamp, a byte, could be mistaken for a later one.
	sweepPeriod = 128
	// sweepSlack is how many rotations the sweep may be behind: five gaps in the stream,
	// and seven rotations more. Only what is beyond that Rotate pays on the spot, and a
	// rotation's share takes 20 ms in a filter of 8 GiB. The constants beside sweepLag
	// hold both to what a stamp can tell.
	sweepSlack = 5*Generations + Sealed
	// sweepRecords is for how many records one owed line is cleaned. At the sizes
	// of [Size] a generation has several times the records it needs.
	sweepRecords = 16
	// sweepStep is how many lines are cleaned with one reservation of journal.
	sweepStep = 256
	// sweepHaste is how many steps a call pays while the sweep is more than a rotation
	// behind: a tenth of a millisecond, however few records the call has. Each filter of
	// a growing set pays its own.
	sweepHaste = 16

	// lineWords is what an entry about a cleaned line takes in the journal.
	lineWords = LineBytes/8 + 1
	// addWords is what an entry about an added hash takes.
	addWords = 2
	// lineEntry marks the last word of an entry about a line; the rest of the
	// word is the line's number.
	lineEntry = 1 << 63
	// bitShift is where the last word of an entry about a hash has the number of
	// its generation's bit; below it is the set of newly set cells.
	bitShift = 32
)

// line is 63 cells and a stamp. Bit b of a cell belongs to the generation whose
// rotation is b modulo 8.
type line [LineBytes]byte

// clock is the state of a [Sliced] beside its lines.
type clock struct {
	rotation uint64 // generations made so far; the filling one is rotation%8
	cursor   uint64 // line that the sweep cleans next
	owed     uint64 // lines that the sweep is behind
}

// Sliced is the sliced Bloom filter: a [Set] whose cells are bytes, with a bit
// for each generation, so that one look-up answers for all of them. The package
// comment explains the structure.
//
// A Sliced has one owner: no method may run concurrently with another.
type Sliced struct {
	params Params
	lines  []line
	clock  clock
	kernel kernel
	// patient leaves hurry to the owner, whose calls are several of this filter's.
	patient bool

	stamp byte      // rotation modulo 256
	fresh [256]byte // by stamp: the bits of a line that have not expired

	journal journal[clock]
	memory  memory
	spots   spots
	overlap bool // by overlapBytes
}

// kernel is TestAndAdd or Learn for at most [batch] hashes, without the sweep.
type kernel func(s *Sliced, to target, hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64)

// target is what tells Learn and TestAndAdd apart: a hash that no generation of
// the ages in known holds is added to the one that has the given bit of a cell.
type target struct {
	bit   uint8
	known uint8
}

// spots is where the hashes of a batch lie: scratch between the two passes.
type spots struct {
	lines [batch * maxLinesPerKey]uint64 // a key's lines, one after the other
	cells [batch * maxLinesPerKey]uint64 // the bits that pick cells in them
}

var _ Set = (*Sliced)(nil)

// NewSliced makes an empty filter of geometry p. Its memory is resident when it
// returns, in huge pages where the system has them, placed near the caller's
// processor. It is outside Go's heap and its limit; Close gives it back.
func NewSliced(p Params) (*Sliced, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("make sliced filter: %w", err)
	}
	memory, lines, err := newMemory(p.Lines)
	if err != nil {
		return nil, fmt.Errorf("make sliced filter of %d lines: %w", p.Lines, err)
	}
	return slicedIn(p, memory, lines), nil
}

// slicedIn makes an empty filter of geometry p, which is valid, in zeroed lines.
func slicedIn(p Params, memory memory, lines []line) *Sliced {
	s := &Sliced{
		params:  p,
		lines:   lines,
		kernel:  addLoop,
		memory:  memory,
		overlap: overlaps && p.Bytes() <= overlapBytes,
	}
	if k, ok := kernels[[2]int{p.LinesPerKey, p.CellsPerLine}]; ok {
		s.kernel = k
	}
	largest := batch * (addWords + p.LinesPerKey*lineWords)
	s.journal = newJournal(max(largest, sweepStep*lineWords), clock{})
	s.setClock(clock{})
	return s
}

// TestAndAdd implements [Set]. It allocates nothing but journal.
func (s *Sliced) TestAndAdd(hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	return s.add(target{s.bitOf(0), allAges}, hashes, learn, room, ages)
}

// Learn implements [Set]. It allocates nothing but journal.
func (s *Sliced) Learn(age int, hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	checkAge(age)
	return s.add(target{s.bitOf(age), 1 << age}, hashes, learn, room, ages)
}

// bitOf is the number of the bit that the generation of the given age has in a cell.
func (s *Sliced) bitOf(age int) uint8 {
	return uint8(s.clock.rotation-uint64(age)) % Generations
}

// add gives the hashes to the kernel, and pays for the sweep.
func (s *Sliced) add(to target, hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	checkArrays(hashes, learn, ages)
	for len(hashes) > 0 {
		n := min(batch, len(hashes))
		added += s.kernel(s, to, hashes[:n], learn[:n], room-added, ages[:n])
		s.sweep(uint64(n+sweepRecords-1) / sweepRecords)
		hashes, learn, ages = hashes[n:], learn[n:], ages[n:]
	}
	if !s.patient {
		s.hurry()
	}
	return added
}

// hurry pays more for a sweep that is behind: so much a call, however many hashes it has.
func (s *Sliced) hurry() {
	if s.clock.owed > s.sweepShare() {
		s.Sweep()
	}
}

// Test implements [Set].
func (s *Sliced) Test(h Hash) uint8 {
	held := byte(0xff)
	for j := range s.params.LinesPerKey {
		x := linePick(h, j)
		held &= s.lineHolds(&s.lines[lineOf(x, uint64(len(s.lines)))], cellPick(x))
	}
	return s.ages(held)
}

// Rotate implements [Set]. It takes time only when the sweep is sweepSlack rotations
// behind.
func (s *Sliced) Rotate(n int) {
	if n < 0 {
		panic("BUG: Rotate by a negative number")
	}
	n = min(n, Generations)
	debt := uint64(n) * s.sweepShare()
	for most := sweepSlack*s.sweepShare() - debt; s.clock.owed > most; {
		s.sweep(min(s.clock.owed-most, sweepStep))
	}
	next := s.clock
	next.rotation += uint64(n)
	next.owed += debt
	s.setClock(next)
}

// Sweep implements [Set]. It cleans more while the sweep is behind.
func (s *Sliced) Sweep() {
	steps := 1
	if s.clock.owed > s.sweepShare() {
		steps = sweepHaste
	}
	for range steps {
		s.sweep(sweepStep)
	}
}

// Seal implements [Set].
func (s *Sliced) Seal() { s.journal.seal(s.clock) }

// Commit implements [Set].
func (s *Sliced) Commit() { s.journal.commit() }

// Rollback implements [Set].
func (s *Sliced) Rollback() { s.setClock(s.journal.undo(s.undo)) }

// JournalBytes implements [Set].
func (s *Sliced) JournalBytes() uint64 { return s.journal.bytes() }

// Bytes implements [Set].
func (s *Sliced) Bytes() uint64 { return s.params.Bytes() }

// Close implements [Set].
func (s *Sliced) Close() error {
	s.lines = nil
	return s.memory.free()
}

// setClock moves to c and derives from it what the hot path needs.
func (s *Sliced) setClock(c clock) {
	s.clock = c
	s.stamp = byte(c.rotation)
	for stamp := range s.fresh {
		s.fresh[stamp] = freshBits(c.rotation, byte(stamp))
	}
}

// freshBits is the set of bits, in a line last cleaned at the rotation whose low
// byte is stamp, that have not expired at the given rotation. What has expired
// are the bits that the rotations since then began to use anew.
func freshBits(rotation uint64, stamp byte) byte {
	age := byte(rotation) - stamp
	if age >= Generations {
		return 0
	}
	last := byte(rotation % Generations)
	return ^bits.RotateLeft8(1<<age-1, int(last)-int(age)+1)
}

// ages turns a set of bits into a mask of ages: bit b is the generation that
// was filling (rotation - b) modulo 8 rotations ago.
func (s *Sliced) ages(held byte) uint8 {
	return bits.RotateLeft8(bits.Reverse8(held), int(s.stamp%Generations)+1)
}

// clean clears what has expired in line n, and journals it: log must have room
// for the entry. It must be called only for a line whose stamp is not the
// current one. A line is stale once in a rotation, so this is not inlined: the
// kernels need their registers for the usual case.
//
//go:noinline
func (s *Sliced) clean(n uint64, log []uint64) []uint64 {
	log = log[:len(log)+lineWords]
	entry := (*[lineWords]uint64)(log[len(log)-lineWords:])
	l := &s.lines[n]
	fresh := uint64(s.fresh[l[stampCell]]) * 0x0101010101010101
	for i := range lineWords - 1 {
		w := l[8*i:][:8]
		entry[i] = binary.LittleEndian.Uint64(w)
		binary.LittleEndian.PutUint64(w, entry[i]&fresh)
	}
	entry[lineWords-1] = lineEntry | n
	l[stampCell] = s.stamp
	return log
}

// sweep cleans up to n of the lines that are owed. n is at most sweepStep.
func (s *Sliced) sweep(n uint64) {
	n = min(n, s.clock.owed)
	if n == 0 {
		return
	}
	s.clock.owed -= n
	log := s.journal.reserve(int(n) * lineWords)
	for ; n > 0; n-- {
		if s.lines[s.clock.cursor][stampCell] != s.stamp {
			log = s.clean(s.clock.cursor, log)
		}
		if s.clock.cursor++; s.clock.cursor == uint64(len(s.lines)) {
			s.clock.cursor = 0
		}
	}
	s.journal.keep(log)
}

// sweepShare is how many lines a rotation owes.
func (s *Sliced) sweepShare() uint64 {
	return (uint64(len(s.lines)) + sweepPeriod - 1) / sweepPeriod
}

// undo takes back the entries of a chunk, the newest first.
func (s *Sliced) undo(log []uint64) {
	for len(log) > 0 {
		last := log[len(log)-1]
		if last&lineEntry != 0 {
			log = log[:len(log)-lineWords]
			l := &s.lines[last&^lineEntry]
			for i, w := range log[len(log) : len(log)+LineBytes/8] {
				binary.LittleEndian.PutUint64(l[8*i:8*i+8], w)
			}
			continue
		}
		h := Hash(log[len(log)-addWords])
		log = log[:len(log)-addWords]
		s.removeCells(h, uint32(last), 1<<(last>>bitShift))
	}
}

// removeCells clears the given bit in those cells of h that are in the set.
func (s *Sliced) removeCells(h Hash, set uint32, bit byte) {
	for j := range s.params.LinesPerKey {
		x := linePick(h, j)
		l := &s.lines[lineOf(x, uint64(len(s.lines)))]
		pick := cellPick(x)
		for c := range s.params.CellsPerLine {
			if c == cellsPerPick {
				pick = cellPickMore(pick)
			}
			if set&1 != 0 {
				l[cellOf(pick, c)] &^= bit
			}
			set >>= 1
		}
	}
}
