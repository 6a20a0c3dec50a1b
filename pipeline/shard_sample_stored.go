package pipeline

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/streamdedup/streamdedup/filter"
)

// The stored form of a sample, which follows the filter's body in a checkpoint.
// Integers are little-endian:
//
//	8 bytes  the rotation from which on everything that was learned is in it
//
// and for each ID, in no order:
//
//	8 bytes  hash
//	4 bytes  lower half of the rotation in which it was learned last
//	4 bytes  of the hash of the first copy's value, 0 where that is unknown

const storedIDBytes = 16

// appendTo appends the stored form.
func (a *sample) appendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, a.known)
	for _, e := range a.table {
		if e.hash != 0 && a.age(e) < filter.Generations {
			b = binary.LittleEndian.AppendUint64(b, uint64(e.hash))
			b = binary.LittleEndian.AppendUint32(b, e.rotation)
			b = binary.LittleEndian.AppendUint32(b, e.value)
		}
	}
	return b
}

// load takes a stored form, before anything is refilled. There is none where r has
// ended: the first versions wrote none.
func (a *sample) load(r io.Reader) (stored bool, err error) {
	var b [storedIDBytes]byte
	buffered := bufio.NewReader(r)
	if _, err := io.ReadFull(buffered, b[:8]); errors.Is(err, io.EOF) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("load sample: %w", err)
	}
	a.known = binary.LittleEndian.Uint64(b[:])
	for {
		if _, err := io.ReadFull(buffered, b[:]); errors.Is(err, io.EOF) {
			return true, nil
		} else if err != nil {
			return false, fmt.Errorf("load sample: %w", err)
		}
		e := sampledID{
			hash:     filter.Hash(binary.LittleEndian.Uint64(b[:])),
			rotation: binary.LittleEndian.Uint32(b[8:]),
			value:    binary.LittleEndian.Uint32(b[12:]),
		}
		if !isSampled(e.hash) {
			return false, fmt.Errorf("load sample: no sample has hash %x", e.hash)
		}
		a.put(e)
	}
}

// refill takes hashes that a restored window has learned at that rotation. Runs may
// come in any order.
func (a *sample) refill(rotation uint64, hashes []filter.Hash) {
	for _, h := range hashes {
		if isSampled(h) {
			a.put(sampledID{hash: h, rotation: uint32(rotation)})
		}
	}
}

// put takes one ID, unless it has it from a later generation.
func (a *sample) put(e sampledID) {
	if a.used >= a.limit {
		return
	}
	a.reserve()
	slot, is := a.find(e.hash)
	switch at := &a.table[slot]; {
	case !is:
		*at = e
		a.used++
	case int32(e.rotation-at.rotation) > 0:
		if e.rotation-at.rotation < filter.Generations {
			e.value = at.value // a repeat was learned: the first copy is the same
		}
		*at = e
	}
}

// refilled ends the refilling: the window is at rotation. Whole says that it has
// learned nothing else.
func (a *sample) refilled(rotation uint64, whole bool) {
	a.sampleCore = sampleCore{rotation: rotation, known: a.known}
	if !whole || a.used >= a.limit {
		a.known = rotation + 1
	}
	for _, e := range a.table {
		if age := a.age(e); e.hash != 0 && age < filter.Generations {
			a.live[age]++
		}
	}
	a.base = a.sampleCore
}
