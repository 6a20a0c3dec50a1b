package filter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// The stored form of a Set is its head and its body. Numbers are little-endian.
//
// Sliced, head of 24 bytes:
//
//	 0  8  rotation: generations made so far; the filling one has bit rotation%8
//	 8  8  cursor: the line that the sweep cleans next, below the number of lines
//	16  8  owed: lines that the sweep is behind, at most what 47 rotations owe
//
// Sliced, body of 64 bytes for each line, in order:
//
//	 0 63  cells; bit b is of the newest generation whose rotation is b modulo 8
//	63  1  stamp: rotation, modulo 256, at which the line was last cleaned
//
// Classic, head of 8 bytes:
//
//	 0  8  rotation: generations made so far; the filling one has slot rotation%8
//
// Classic, body of eight filters by slot, each of its bits rounded up to words:
//
//	 0  8  bits 0 to 63 of the filter, bit 0 the lowest; the next word has 64 to
//	       127, and so on; beyond the filter's last bit the last word is zero
//
// Single, head of 8 bytes:
//
//	 0  8  rotation: always 0
//
// Single, body of 64 bytes for each line, in order:
//
//	 0 64  bits; bit b of the line is bit b%8 of byte b/8, bit 0 the lowest
//
// Where the bits of a hash are is pinned by the golden files in testdata. The
// words of Geometry number it all: whoever changes one of these bytes, or where a
// hash lies, counts slicedFormat, classicFormat or singleFormat up, so that what an
// earlier version stored is told apart instead of taken for empty.

const (
	// BodyUnit divides the offsets at which a body may be cut.
	BodyUnit = LineBytes

	slicedFormat  = 1
	classicFormat = 1
	singleFormat  = 1

	slicedHead  = 3 * 8
	classicHead = 8
	singleHead  = 8

	// loadStep is how much Load reads at once: as much as any reader of bodies has to
	// sum up before it can give out a byte, so that it needs no buffer for that.
	loadStep = 1 << 20
)

// Ages of stamps. Two visits of the sweep to a line are at most sweepLag rotations
// apart: sweepPeriod rotations owe as many lines as there are, and the sweep is
// never further behind than what sweepSlack of them owe. So no stamp is ever 256 rotations old,
// when freshBits would take it for a new one.
//
// A body that is copied while the Set goes on breaks that. A line that is copied
// just before the sweep comes to it keeps its old stamp in the copy, but as the head
// has it, it was swept, and its next turn is up to sweepLag rotations away: nearly
// twice sweepLag in all. Load makes up for it, see sweepLate.
const (
	sweepLag = sweepPeriod + sweepSlack
	// bodySpan and sweepSlack are as large as they can be: the second limit below is met
	// but for one.
	bodySpan = 32
	// recentSweep is for how many rotations the sweep of the last bodySpan ones can
	// have paid, as it may have been behind by sweepSlack when they began.
	recentSweep = bodySpan + sweepSlack

	// Constants that do not compile if they overflow: Load must see the oldest stamp
	// of a body as what it is, and the sweep that of a line which Load left alone.
	_ = uint8(sweepLag + bodySpan)
	_ = uint8(recentSweep + sweepLag)
)

// Geometry implements [Set].
func (s *Sliced) Geometry() string { return s.params.geometry() }

// BodyBytes implements [Set].
func (s *Sliced) BodyBytes() uint64 { return s.params.Bytes() }

// BodySpan implements [Set].
func (s *Sliced) BodySpan() uint64 { return bodySpan }

// AppendBody implements [Set].
func (s *Sliced) AppendBody(b []byte, from, to uint64) []byte {
	checkCut(from, to, s.BodyBytes())
	return append(b, bytesOf(s.lines)[from:to]...)
}

// AppendHead implements [Set].
func (s *Sliced) AppendHead(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, s.clock.rotation)
	b = binary.LittleEndian.AppendUint64(b, s.clock.cursor)
	return binary.LittleEndian.AppendUint64(b, s.clock.owed)
}

// AppendState implements [Set].
func (s *Sliced) AppendState(b []byte) []byte {
	b = slices.Grow(b, slicedHead+int(s.BodyBytes()))
	return s.AppendBody(s.AppendHead(b), 0, s.BodyBytes())
}

// Load implements [Set]. It reads straight into the lines: all that a look-up does
// with a byte of them is to mask with it, or to pick one of 256 masks, so no body
// does more harm than its bits.
func (s *Sliced) Load(head []byte, body io.Reader) error {
	c, err := s.parseHead(head)
	if err != nil {
		return fmt.Errorf("load sliced filter: head: %w", err)
	}
	if err := readLines(s.lines, body); err != nil {
		return fmt.Errorf("load sliced filter: %w", err)
	}
	s.setClock(c)
	s.sweepLate()
	s.journal.clear(s.clock)
	return nil
}

func (s *Sliced) parseHead(head []byte) (clock, error) {
	if len(head) != slicedHead {
		return clock{}, fmt.Errorf("it has %d bytes, want %d", len(head), slicedHead)
	}
	c := clock{
		rotation: binary.LittleEndian.Uint64(head),
		cursor:   binary.LittleEndian.Uint64(head[8:]),
		owed:     binary.LittleEndian.Uint64(head[16:]),
	}
	if c.cursor >= s.params.Lines {
		return clock{}, fmt.Errorf("the sweep is at line %d of %d", c.cursor, s.params.Lines)
	}
	if most := sweepSlack * s.sweepShare(); c.owed > most {
		return clock{}, fmt.Errorf("the sweep is %d lines behind, want at most %d", c.owed, most)
	}
	return c, nil
}

// sweepLate cleans the lines that the sweep visited after they had been copied. They
// are among the last that the cursor passed, before which others were owed: of the
// lines that recentSweep rotations owe, all but those still owed. There, a line
// that was copied after its visit has a stamp of recentSweep rotations at most; what
// a line with an older one holds has expired. In a body that was copied within one
// rotation there is none such.
func (s *Sliced) sweepLate() {
	at := s.clock.cursor
	for range recentSweep*s.sweepShare() - s.clock.owed {
		if at == 0 {
			at = s.params.Lines
		}
		at--
		if l := &s.lines[at]; s.stamp-l[stampCell] > recentSweep {
			*l = line{stampCell: s.stamp}
		}
	}
}

// Geometry implements [Set].
func (c *Classic) Geometry() string { return c.params.geometry() }

// BodyBytes implements [Set].
func (c *Classic) BodyBytes() uint64 { return c.params.Bytes() }

// BodySpan implements [Set]: a filter that was copied before a rotation emptied its
// slot would be loaded as the new generation.
func (c *Classic) BodySpan() uint64 { return 0 }

// AppendBody implements [Set].
func (c *Classic) AppendBody(b []byte, from, to uint64) []byte {
	checkCut(from, to, c.BodyBytes())
	for from < to {
		words := c.wordsAt(from, to-from)
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		from += 8 * uint64(len(words))
	}
	return b
}

// wordsAt are the words at an offset of the body, as many as are in n bytes and in
// one filter.
func (c *Classic) wordsAt(offset, n uint64) []uint64 {
	size := c.BodyBytes() / Generations
	words := c.ring[offset/size].BitSet().Words()[offset%size/8:]
	return words[:min(uint64(len(words)), n/8)]
}

// AppendHead implements [Set].
func (c *Classic) AppendHead(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(b, c.rotation)
}

// AppendState implements [Set].
func (c *Classic) AppendState(b []byte) []byte {
	b = slices.Grow(b, classicHead+int(c.BodyBytes()))
	return c.AppendBody(c.AppendHead(b), 0, c.BodyBytes())
}

// Load implements [Set].
func (c *Classic) Load(head []byte, body io.Reader) error {
	if len(head) != classicHead {
		return fmt.Errorf("load classic filter: head: it has %d bytes, want %d", len(head), classicHead)
	}
	size := c.BodyBytes()
	step := make([]byte, min(loadStep, size))
	for at := uint64(0); at < size; {
		words := c.wordsAt(at, uint64(len(step)))
		if err := readFull(body, step[:8*len(words)]); err != nil {
			return fmt.Errorf("load classic filter: body from byte %d of %d: %w", at, size, err)
		}
		for i := range words {
			words[i] = binary.LittleEndian.Uint64(step[8*i:])
		}
		at += 8 * uint64(len(words))
	}
	if err := readEnd(body); err != nil {
		return fmt.Errorf("load classic filter: body after %d bytes: %w", size, err)
	}
	if slot := c.overfull(); slot >= 0 {
		return fmt.Errorf("load classic filter: body: filter %d has bits beyond its %d", slot, c.params.Bits)
	}
	c.rotation = binary.LittleEndian.Uint64(head)
	c.retired = nil
	c.journal.clear(ringClock{rotation: c.rotation})
	return nil
}

// overfull is the slot of a filter whose last word has more bits than the filter,
// which the library relies on not to be, or -1.
func (c *Classic) overfull() int {
	used := c.params.Bits % wordBits
	for slot, f := range c.ring {
		words := f.BitSet().Words()
		if used != 0 && words[len(words)-1]>>used != 0 {
			return slot
		}
	}
	return -1
}

// checkCut panics unless a body of size bytes may be cut at from and to.
func checkCut(from, to, size uint64) {
	if from > to || to > size || from%BodyUnit != 0 || to%BodyUnit != 0 {
		panic(fmt.Sprintf("BUG: filter: bytes %d to %d of a body of %d", from, to, size))
	}
}

// readLines fills lines with a body, to its end.
func readLines(lines []line, body io.Reader) error {
	all := bytesOf(lines)
	for at := 0; at < len(all); {
		step := all[at:min(len(all), at+loadStep)]
		if err := readFull(body, step); err != nil {
			return fmt.Errorf("body from byte %d of %d: %w", at, len(all), err)
		}
		at += len(step)
	}
	if err := readEnd(body); err != nil {
		return fmt.Errorf("body after %d bytes: %w", len(all), err)
	}
	return nil
}

// readFull fills b. A body that ends here ends too soon.
func readFull(body io.Reader, b []byte) error {
	_, err := io.ReadFull(body, b)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readEnd is an error unless the body ends here.
func readEnd(body io.Reader) error {
	var b [1]byte
	_, err := io.ReadFull(body, b[:])
	switch {
	case err == nil:
		return errors.New("it goes on")
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}
