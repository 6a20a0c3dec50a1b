package filter

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/bits-and-blooms/bloom/v3"
)

// TestClassicIsTheLibrarysFilter adds hashes to a ring and, as 8 little-endian
// bytes, to a filter of the library: the filling filter must have the same bits.
func TestClassicIsTheLibrarysFilter(t *testing.T) {
	c, err := NewClassic(ClassicParams{Bits: 1 << 16, Hashes: 7})
	if err != nil {
		t.Fatal(err)
	}
	c.Rotate(3)
	want := bloom.New(1<<16, 7)
	for n := range uint64(1000) {
		h, ages := scatter(n), []uint8{0}
		if c.TestAndAdd([]Hash{h}, []bool{true}, 1, ages) == 1 {
			want.Add(binary.LittleEndian.AppendUint64(nil, uint64(h)))
		}
	}
	if !c.ring[3].Equal(want) {
		t.Error("the ring's filling filter differs from the library's")
	}
}

func TestNewClassicRefusesBadParams(t *testing.T) {
	for _, p := range []ClassicParams{{}, {Bits: 1 << 62, Hashes: 3}, {Bits: 1 << 20}, {Bits: 1 << 20, Hashes: 1 << 30}} {
		if c, err := NewClassic(p); err == nil || c != nil {
			t.Errorf("NewClassic(%+v) = %v, %v, want an error", p, c, err)
		}
	}
}

// TestSilentlyEmptyFilterIsRefused goes past the limits of ClassicParams to a
// size that the library answers with a filter of no bits, which holds nothing.
func TestSilentlyEmptyFilterIsRefused(t *testing.T) {
	if f, err := newBloom(ClassicParams{Bits: 1 << 62, Hashes: 3}); err == nil {
		t.Errorf("newBloom made a filter of %d bits, want an error", f.BitSet().Len())
	}
}

// TestClassicRotationsAreUndone keeps what rotations took out until the commit,
// and not after it.
func TestClassicRotationsAreUndone(t *testing.T) {
	c, err := NewClassic(ClassicParams{Bits: 1 << 16, Hashes: 7})
	if err != nil {
		t.Fatal(err)
	}
	one, two := c.Bytes()/Generations, 2*c.Bytes()/Generations
	ring := slices.Clone(c.ring[:])
	c.Rotate(1)
	c.Seal()
	c.Rotate(2)
	if got, want := c.JournalBytes(), 3*(one+8); got != want {
		t.Errorf("after three rotations the journal has %d bytes, want %d", got, want)
	}
	c.Commit()
	if got, want := c.JournalBytes(), two+2*8; got != want {
		t.Errorf("after the commit of one the journal has %d bytes, want %d", got, want)
	}
	c.Rollback()
	if c.rotation != 1 || !slices.Equal(c.ring[2:], ring[2:]) || c.ring[1] == ring[1] {
		t.Errorf("after the rollback the ring is %p at rotation %d", c.ring, c.rotation)
	}
}
