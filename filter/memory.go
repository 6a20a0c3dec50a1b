package filter

import (
	"fmt"
	"math"
	"unsafe"
)

const (
	// hugePage is the size of the pages that a large filter asks for: with the
	// usual ones a look-up would walk the page table for every line as well.
	hugePage = 2 << 20
	// smallPage is no larger than the pages of any system.
	smallPage = 4 << 10
)

// memory is what a [Sliced] keeps its lines in.
type memory struct {
	mapping []byte // to unmap; nil when the lines are on the heap
}

// newMemory makes n zeroed lines that are resident and that each fill a cache
// line: off the heap in huge pages where they fill one and the system has them,
// on the heap elsewhere.
func newMemory(n uint64) (memory, []line, error) {
	if n > (math.MaxInt-2*hugePage)/LineBytes {
		return memory{}, nil, fmt.Errorf("allocate %d lines: more than this platform addresses", n)
	}
	size := int(n) * LineBytes
	if size >= hugePage {
		mapping, aligned, err := mapHuge(size)
		if err != nil {
			return memory{}, nil, err
		}
		if mapping != nil {
			return memory{mapping: mapping}, linesIn(aligned, int(n)), nil
		}
	}
	b := make([]byte, size+LineBytes)
	touch(b)
	return memory{}, linesIn(align(b, LineBytes), int(n)), nil
}

// touch makes b resident by writing to each of its pages.
func touch(b []byte) {
	for i := 0; i < len(b); i += smallPage {
		b[i] = 0
	}
}

// align cuts off what lies before the first multiple of n in b.
func align(b []byte, n uintptr) []byte {
	return b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))&(n-1):]
}

// linesIn is the first n lines of b, which must hold as many.
func linesIn(b []byte, n int) []line {
	_ = b[n*LineBytes-1]
	return unsafe.Slice((*line)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// bytesOf is the memory of lines.
func bytesOf(lines []line) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(lines))), len(lines)*LineBytes)
}
