package filter

import (
	"errors"
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

// memory is what a filter keeps its lines in.
type memory struct {
	mapping []byte // to unmap; nil when the lines are on the heap
}

// newMemory makes n zeroed lines that are resident and that each fill a cache
// line: off the heap in huge pages where they fill one and the system has them,
// on the heap elsewhere.
func newMemory(n uint64) (memory, []line, error) {
	r, err := reserveLines(n)
	if err == nil {
		err = r.fill(r.size())
	}
	if err != nil {
		return memory{}, nil, errors.Join(err, r.free())
	}
	return r.memory, r.lines, nil
}

// reserve is memory for lines that becomes resident, and is given back, in steps.
type reserve struct {
	memory
	lines  []line
	bytes  []byte // whole pages, which begin with the lines
	filled int    // of the bytes, from the first on, are resident
}

// reserveLines makes n zeroed lines that each fill a cache line, none of them resident.
func reserveLines(n uint64) (reserve, error) {
	if n > (math.MaxInt-2*hugePage)/LineBytes {
		return reserve{}, fmt.Errorf("allocate %d lines: more than this platform addresses", n)
	}
	size := int(n) * LineBytes
	if size >= hugePage {
		mapping, aligned, err := mapHuge(size)
		if err != nil {
			return reserve{}, err
		}
		if mapping != nil {
			return reserve{memory: memory{mapping: mapping}, lines: linesIn(aligned, int(n)), bytes: aligned}, nil
		}
	}
	b := align(make([]byte, size+LineBytes), LineBytes)
	return reserve{lines: linesIn(b, int(n)), bytes: b}, nil
}

// size is how many bytes there are to be filled.
func (r *reserve) size() int { return len(r.bytes) }

// share is a part of size.
func (r *reserve) share(part, of uint64) int {
	return int(float64(r.size()) * (float64(part) / float64(of)))
}

// pages is where the page ends that the byte before to is in.
func (r *reserve) pages(to int) int {
	return min(len(r.bytes), (to+hugePage-1)/hugePage*hugePage)
}

// fill makes the bytes up to to resident, and up to the end of their page.
func (r *reserve) fill(to int) error {
	to = r.pages(to)
	if to <= r.filled {
		return nil
	}
	b := r.bytes[r.filled:to]
	if r.mapping == nil {
		touch(b, smallPage)
	} else if err := populate(b); err != nil {
		return err
	}
	r.filled = to
	return nil
}

// drain gives n bytes back, from the last ones on. It is false once there are none left:
// then free takes no time. The bytes are lost, and not to be filled again.
func (r *reserve) drain(n int) bool {
	from := max(0, r.filled-n)
	if r.mapping != nil {
		discard(r.bytes[from:r.filled])
	}
	r.filled = from
	return from > 0 && r.mapping != nil
}

// touch writes a zero to each page of b of that size, which makes it resident.
func touch(b []byte, page int) {
	for i := 0; i < len(b); i += page {
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
