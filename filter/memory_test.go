package filter

import (
	"math"
	"testing"
	"unsafe"
)

// TestMemory makes filters on both sides of a huge page: their lines must be
// zero, each in one cache line, and all of them writable.
func TestMemory(t *testing.T) {
	for _, n := range []uint64{MinLines, hugePage/LineBytes - 1, hugePage / LineBytes, 2*hugePage/LineBytes + 1} {
		m, lines, err := newMemory(n)
		if err != nil {
			t.Fatal(err)
		}
		if uint64(len(lines)) != n {
			t.Errorf("%d lines: got %d", n, len(lines))
		}
		align := uintptr(LineBytes)
		if m.mapping != nil {
			align = hugePage
		}
		if at := uintptr(unsafe.Pointer(&lines[0])); at%align != 0 {
			t.Errorf("%d lines start at %#x, want a multiple of %#x", n, at, align)
		}
		for i := range lines {
			if lines[i] != (line{}) {
				t.Fatalf("line %d of %d is not zero", i, n)
			}
			for c := range lines[i] {
				lines[i][c] = 0xff
			}
		}
		for range 2 { // the second is harmless
			if err := m.free(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestMemoryBeyondThePlatform(t *testing.T) {
	if _, _, err := newMemory(math.MaxUint64 / LineBytes); err == nil {
		t.Error("no error for more memory than can be addressed")
	}
}
