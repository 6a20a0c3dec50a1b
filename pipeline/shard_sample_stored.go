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

// appendFrom appends the stored form from a part of the table on, as much as b has room
// for, and returns the part that is next: there are no more at the table's end. It
// appends at least one part, and with the first what comes before the IDs.
//
// What is learned between two of its steps may be missing. The changelog brings it back,
// as it does for the filter's body.
func (a *sample) appendFrom(b []byte, part uint64) (appended []byte, next uint64) {
	if part == 0 {
		b = binary.LittleEndian.AppendUint64(b, a.known)
	}
	for first := part; part < a.parts(); part++ {
		p := &a.table.parts[part]
		if part > first && cap(b)-len(b) < p.used*storedIDBytes {
			break
		}
		for _, e := range p.slots {
			if a.remembers(e) {
				b = binary.LittleEndian.AppendUint64(b, uint64(e.hash))
				b = binary.LittleEndian.AppendUint32(b, e.rotation)
				b = binary.LittleEndian.AppendUint32(b, e.value)
			}
		}
	}
	return b, part
}

// parts is how many the table has, always.
func (a *sample) parts() uint64 { return uint64(len(a.table.parts)) }

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
		a.refillOne(e)
	}
}

// refill takes hashes that a restored window has learned at that rotation. Runs may
// come in any order.
func (a *sample) refill(rotation uint64, hashes []filter.Hash) {
	for _, h := range hashes {
		if isSampled(h) {
			a.refillOne(sampledID{hash: h, rotation: uint32(rotation)})
		}
	}
}

// refillOne takes one ID, unless it has it from a later generation.
func (a *sample) refillOne(e sampledID) {
	if a.table.used >= a.limit {
		return
	}
	if at := a.table.get(e.hash); at.hash != 0 {
		if int32(e.rotation-at.rotation) <= 0 {
			return
		}
		if e.rotation-at.rotation < filter.Generations {
			e.value = at.value // a repeat was learned: the first copy is the same
		}
	}
	a.put(e)
}

// refilled ends the refilling: the window is at rotation. Whole says that it has
// learned nothing else.
func (a *sample) refilled(rotation uint64, whole bool) {
	a.sampleCore = sampleCore{rotation: rotation, known: a.known}
	if !whole || a.table.used >= a.limit {
		a.known = rotation + 1
	}
	for i := range a.table.parts {
		for _, e := range a.table.parts[i].slots {
			if a.remembers(e) {
				a.live[a.age(e)]++
			}
		}
	}
	a.base = a.sampleCore
}
