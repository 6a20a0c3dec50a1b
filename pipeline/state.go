package pipeline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strconv"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/window"
)

// State is a shard's memory without its hashes: what must be known to put those
// where they belong.
type State struct {
	// Fingerprint is the configuration's, see [Config.Fingerprint].
	Fingerprint string
	// Window is when, and from which offsets on, the generations began.
	Window window.State
	// Limit is the output's limit, for a rebuild from the input.
	Limit SizeLimit
}

// State is the shard's state now, committed or not.
func (s *Shard) State() State {
	st := State{Fingerprint: s.print, Window: s.window.State(), Limit: s.limit}
	if gens := st.Window.Generations; len(gens) > 0 {
		st.Limit = st.Limit.from(gens[0].FirstOffset)
	}
	return st
}

// check says whether a shard with this fingerprint can go on with the state.
func (s State) check(print string) error {
	if s.Fingerprint != print {
		return fmt.Errorf("key spec, seed, scope or filter kind have changed (fingerprint %s, now %s): %w",
			s.Fingerprint, print, ErrForeignState)
	}
	return nil
}

// The binary form of a state, in a changelog record and in the head of a
// checkpoint:
//
//	8 bytes   fingerprint, little-endian
//	uvarint   slice, ms
//	uvarint   rotation
//	varint    stream time, ms
//	1 byte    1 when the stream time is a record's, 0 when it is the wall clock's
//	varint    known from, ms
//	3 varint  size limit: now, before, since
//	1 byte    number of live generations, at most 8, and if there are any:
//	varint    number of the oldest
//	varint    first offset of the oldest
//	uvarint   for each next one: how far after that its first offset lies
//	1 byte    a bit for each, the oldest in bit 0: late records may be missing
//
// A uvarint is an unsigned number of seven bits a byte, the lowest first; a varint
// has its sign in the lowest bit.

// AppendBinary appends the binary form of s.
func (s State) AppendBinary(b []byte) []byte {
	return s.appendRest(binary.LittleEndian.AppendUint64(b, s.print()))
}

// print is the fingerprint as a number, 0 when it is none.
func (s State) print() uint64 {
	n, _ := strconv.ParseUint(s.Fingerprint, 16, 64) // it was made by Config.Fingerprint
	return n
}

// appendRest appends all but the fingerprint.
func (s State) appendRest(b []byte) []byte {
	w := &s.Window
	b = binary.AppendUvarint(b, uint64(w.Slice))
	b = binary.AppendUvarint(b, w.Rotation)
	b = binary.AppendVarint(b, w.StreamTime)
	believed := byte(0)
	if w.Believed {
		believed = 1
	}
	b = append(b, believed)
	b = binary.AppendVarint(b, w.KnownFrom)
	for _, v := range [...]int64{s.Limit.Now, s.Limit.Before, s.Limit.Since} {
		b = binary.AppendVarint(b, v)
	}
	b = append(b, byte(len(w.Generations)))
	if len(w.Generations) == 0 {
		return b
	}
	b = binary.AppendVarint(b, w.Generations[0].Number)
	b = binary.AppendVarint(b, w.Generations[0].FirstOffset)
	var late byte
	for i, g := range w.Generations {
		if i > 0 {
			b = binary.AppendUvarint(b, uint64(g.FirstOffset-w.Generations[i-1].FirstOffset))
		}
		if g.LateKept {
			late |= 1 << i
		}
	}
	return append(b, late)
}

// errCutOff is the error of a form that ends too early.
var errCutOff = errors.New("it is cut off")

// ParseState reads what [State.AppendBinary] wrote, and returns what follows it.
func ParseState(b []byte) (s State, rest []byte, err error) {
	r := binaryReader{rest: b}
	s = r.state(r.uint64())
	return s, r.rest, r.err
}

// binaryReader takes numbers off its rest. After the first failure it gives zeros.
type binaryReader struct {
	rest []byte
	err  error
}

func (r *binaryReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}

func (r *binaryReader) take(n int) []byte {
	if n > len(r.rest) {
		r.fail(errCutOff)
		return make([]byte, 8)[:min(n, 8)]
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *binaryReader) byte() byte     { return r.take(1)[0] }
func (r *binaryReader) uint64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *binaryReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail(errCutOff)
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *binaryReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail(errCutOff)
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// state reads a state whose fingerprint was read before.
func (r *binaryReader) state(print uint64) State {
	s := State{Fingerprint: fingerprintText(print)}
	w := &s.Window
	w.Slice = int64(r.uvarint())
	w.Rotation = r.uvarint()
	w.StreamTime = r.varint()
	w.Believed = r.byte() != 0
	w.KnownFrom = r.varint()
	s.Limit = SizeLimit{Now: r.varint(), Before: r.varint(), Since: r.varint()}
	n := int(r.byte())
	if w.Slice < 1 { // ages are times divided by it
		r.fail(fmt.Errorf("its generations are %d ms long", w.Slice))
	}
	if n > filter.Generations {
		r.fail(fmt.Errorf("it has %d generations, at most %d are live", n, filter.Generations))
	}
	if n == 0 || r.err != nil {
		return s
	}
	number, offset := r.varint(), r.varint()
	w.Generations = make([]window.Generation, n)
	for i := range w.Generations {
		if i > 0 {
			offset += int64(r.uvarint())
		}
		w.Generations[i] = window.Generation{Number: number + int64(i), FirstOffset: offset}
	}
	for late := r.byte(); late != 0; late &= late - 1 {
		i := bits.TrailingZeros8(late)
		if i >= n {
			r.fail(fmt.Errorf("it names generation %d of %d", i, n))
			break
		}
		w.Generations[i].LateKept = true
	}
	return s
}

func fingerprintText(n uint64) string { return fmt.Sprintf("%016x", n) }
