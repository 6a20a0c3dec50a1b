package filter

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// Single is a [Set] of one generation, for what never forgets: an input that is
// one window as a whole. A bit is a bit there, so it takes little more than the
// textbook's filter, and touches two lines for each look-up.
//
//	a line, 64 bytes:  bit 0 | bit 1 | ... | bit 511
//
// A hash picks two lines, and some of the bits in each. A blocked filter with one
// line a key would suffer from the lines that got more than their share of keys;
// with two of them the load evens out to within one percent of the textbook's
// memory at a rate of 1e-2, and four at 1e-4.
//
// It has no time: the only age is 0, and Rotate is a bug of the caller. Forgetting
// all at once would let repeats pass, and forgetting nothing would withhold what
// the window has left behind, so a window that moves needs another Set.
//
// A Single has one owner: no method may run concurrently with another.
type Single struct {
	params  SingleParams
	kernel  singleKernel
	lines   []line
	journal journal[struct{}]
	memory  memory
	spots   spots
	overlap bool // by overlapBytes
}

// singleKernel is TestAndAdd for at most [batch] hashes.
type singleKernel func(s *Single, hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64)

const (
	// bitsInLine is how many bits a line of a Single has.
	bitsInLine = 8 * LineBytes
	// bitsPerPick is how many bits of a line the 64 bits of a pick choose, nine for
	// each. Their number is a power of two, so none has more than its share.
	bitsPerPick = 7
)

var _ Set = (*Single)(nil)

// NewSingle makes an empty filter of geometry p, in memory like that of [NewSliced].
func NewSingle(p SingleParams) (*Single, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("make single filter: %w", err)
	}
	memory, lines, err := newMemory(p.Lines)
	if err != nil {
		return nil, fmt.Errorf("make single filter of %d lines: %w", p.Lines, err)
	}
	return singleIn(p, memory, lines), nil
}

// singleIn makes an empty filter of geometry p, which is valid, in zeroed lines.
func singleIn(p SingleParams, memory memory, lines []line) *Single {
	s := &Single{
		params:  p,
		kernel:  addBits,
		lines:   lines,
		journal: newJournal(batch*addWords, struct{}{}),
		memory:  memory,
		overlap: overlaps && p.Bytes() <= overlapBytes,
	}
	if k, ok := singleKernels[p.BitsPerLine]; ok {
		s.kernel = k
	}
	return s
}

// TestAndAdd implements [Set]. It allocates nothing but journal.
func (s *Single) TestAndAdd(hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	checkArrays(hashes, learn, ages)
	for len(hashes) > 0 {
		n := min(batch, len(hashes))
		added += s.kernel(s, hashes[:n], learn[:n], room-added, ages[:n])
		hashes, learn, ages = hashes[n:], learn[n:], ages[n:]
	}
	return added
}

// Learn implements [Set]: with one generation it is TestAndAdd, and 0 the only age.
func (s *Single) Learn(age int, hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	if age != 0 {
		panic(fmt.Sprintf("BUG: filter: a single generation has no age %d", age))
	}
	return s.TestAndAdd(hashes, learn, room, ages)
}

// locate finds the two lines of each hash, asks the processor for them, and picks what
// chooses the bits in each.
func (s *Single) locate(hashes []Hash) (lines []line, at, picks *[batch * SingleLinesPerKey]uint64) {
	if len(hashes) > batch {
		panic("BUG: a kernel got more than a batch")
	}
	lines = s.lines
	at = (*[batch * SingleLinesPerKey]uint64)(s.spots.lines[:])
	picks = (*[batch * SingleLinesPerKey]uint64)(s.spots.cells[:])
	if s.overlap {
		locate(lines, hashes, SingleLinesPerKey, &s.spots)
		return lines, at, picks
	}
	for i, h := range hashes {
		x0, x1 := linePick(h, 0), linePick(h, 1)
		at[2*i], picks[2*i] = lineOf(x0, uint64(len(lines))), cellPick(x0)
		at[2*i+1], picks[2*i+1] = lineOf(x1, uint64(len(lines))), cellPick(x1)
	}
	prefetch(lines, at[:2*len(hashes)])
	return lines, at, picks
}

// addBits is the kernel for every geometry: what the unrolled ones do.
func addBits(s *Single, hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	lines, at, picks := s.locate(hashes)
	n := s.params.BitsPerLine
	log := s.journal.reserve(len(hashes) * addWords)
	for i, h := range hashes {
		l0, l1, p0, p1 := &lines[at[2*i]], &lines[at[2*i+1]], picks[2*i], picks[2*i+1]
		held := l0.holdsBits(p0, n) & l1.holdsBits(p1, n)
		ages[i] = held
		if held != 0 || !learn[i] || added >= room {
			continue
		}
		added++
		// In one expression the compiler may call them in any order, and the two lines may be
		// the same one.
		set := l0.setBits(p0, n)
		set |= l1.setBits(p1, n) << n
		log = append(log, uint64(h), set)
	}
	s.journal.keep(log)
	return added
}

// holdsBits is 1 if the n bits that pick chooses are set, else 0.
func (l *line) holdsBits(pick uint64, n int) byte {
	held := byte(1)
	rest := pick
	for range min(n, bitsPerPick) {
		b := rest % bitsInLine
		held &= l[b/8] >> (b % 8)
		rest >>= 9
	}
	if n > bitsPerPick {
		held &= l.holdsBits(cellPickMore(pick), n-bitsPerPick)
	}
	return held
}

// setBits sets the n bits that pick chooses and returns which of them were not set.
func (l *line) setBits(pick uint64, n int) (set uint64) {
	rest := pick
	for c := range min(n, bitsPerPick) {
		b := rest % bitsInLine
		cell := &l[b/8]
		set |= uint64(^*cell>>(b%8)&1) << c
		*cell |= 1 << (b % 8)
		rest >>= 9
	}
	if n > bitsPerPick {
		set |= l.setBits(cellPickMore(pick), n-bitsPerPick) << bitsPerPick
	}
	return set
}

// Test implements [Set].
func (s *Single) Test(h Hash) uint8 {
	held := byte(1)
	for j := range SingleLinesPerKey {
		x := linePick(h, j)
		held &= s.lines[lineOf(x, uint64(len(s.lines)))].holdsBits(cellPick(x), s.params.BitsPerLine)
	}
	return held
}

// Rotate implements [Set]: it panics unless n is 0.
func (s *Single) Rotate(n int) {
	if n != 0 {
		panic(fmt.Sprintf("BUG: filter: Rotate by %d of a single generation", n))
	}
}

// Sweep implements [Set]: without rotations there is nothing to clean.
func (s *Single) Sweep() {}

// Seal implements [Set].
func (s *Single) Seal() { s.journal.seal(struct{}{}) }

// Commit implements [Set].
func (s *Single) Commit() { s.journal.commit() }

// Rollback implements [Set].
func (s *Single) Rollback() { s.journal.undo(s.undo) }

// undo takes back the additions of a chunk, the newest first.
func (s *Single) undo(log []uint64) {
	for ; len(log) > 0; log = log[:len(log)-addWords] {
		h, set := Hash(log[len(log)-addWords]), log[len(log)-1]
		for j := range SingleLinesPerKey {
			x := linePick(h, j)
			s.lines[lineOf(x, uint64(len(s.lines)))].clearBits(cellPick(x), s.params.BitsPerLine, set>>(j*s.params.BitsPerLine))
		}
	}
}

// clearBits clears those of the n bits that pick chooses that are in the set.
func (l *line) clearBits(pick uint64, n int, set uint64) {
	rest := pick
	for c := range min(n, bitsPerPick) {
		b := rest % bitsInLine
		l[b/8] &^= byte(set>>c&1) << (b % 8)
		rest >>= 9
	}
	if n > bitsPerPick {
		l.clearBits(cellPickMore(pick), n-bitsPerPick, set>>bitsPerPick)
	}
}

// JournalBytes implements [Set].
func (s *Single) JournalBytes() uint64 { return s.journal.bytes() }

// Bytes implements [Set].
func (s *Single) Bytes() uint64 { return s.params.Bytes() }

// Close implements [Set].
func (s *Single) Close() error {
	s.lines = nil
	return s.memory.free()
}

// Geometry implements [Set].
func (s *Single) Geometry() string { return s.params.geometry() }

// BodyBytes implements [Set].
func (s *Single) BodyBytes() uint64 { return s.params.Bytes() }

// BodySpan implements [Set]: there are no rotations.
func (s *Single) BodySpan() uint64 { return 0 }

// AppendBody implements [Set].
func (s *Single) AppendBody(b []byte, from, to uint64) []byte {
	checkCut(from, to, s.BodyBytes())
	return append(b, bytesOf(s.lines)[from:to]...)
}

// AppendHead implements [Set].
func (s *Single) AppendHead(b []byte) []byte { return binary.LittleEndian.AppendUint64(b, 0) }

// AppendState implements [Set].
func (s *Single) AppendState(b []byte) []byte {
	b = slices.Grow(b, singleHead+int(s.BodyBytes()))
	return s.AppendBody(s.AppendHead(b), 0, s.BodyBytes())
}

// Load implements [Set]. Any body is safe: its bytes are bits and nothing else.
func (s *Single) Load(head []byte, body io.Reader) error {
	if len(head) != singleHead {
		return fmt.Errorf("load single filter: head: it has %d bytes, want %d", len(head), singleHead)
	}
	if rotation := binary.LittleEndian.Uint64(head); rotation != 0 {
		return fmt.Errorf("load single filter: head: rotation %d, want 0", rotation)
	}
	if err := readLines(s.lines, body); err != nil {
		return fmt.Errorf("load single filter: %w", err)
	}
	s.journal.clear(struct{}{})
	return nil
}
