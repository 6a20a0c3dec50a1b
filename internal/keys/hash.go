package keys

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/streamdedup/streamdedup/filter"
)

// kind is the type of a part of an ID. Its number is hashed: never change one.
type kind uint8

const (
	absent  kind = iota // nothing, null, or an empty string
	nested              // an array or an object
	raw                 // a key, a header, a column or a whole value
	text                // a JSON string
	number              // a JSON number
	boolean             // true or false
	broken              // malformed
)

// part is what was found for one spec. Bytes are a view of the record; for a
// text and a column they are what stands between the quotes, escaped or not.
type part struct {
	kind    kind
	escaped bool
	bytes   []byte
}

// next decodes the first piece of s, which is the part's bytes or the rest of
// them. The piece is empty only when s is; char is there for it.
func (p *part) next(s []byte, char *[maxChar]byte) (piece, rest []byte) {
	switch {
	case !p.escaped:
		return s, nil
	case p.kind == raw:
		return nextQuoted(s)
	}
	return nextPiece(s, char)
}

// appendTo appends the decoded bytes.
func (p *part) appendTo(b []byte) []byte {
	var char [maxChar]byte
	for piece, rest := p.next(p.bytes, &char); len(piece) > 0; piece, rest = p.next(rest, &char) {
		b = append(b, piece...)
	}
	return b
}

// lengthBits is the share of the word before a part that holds its length; the
// kind has the rest.
const lengthBits = 56

// hasher hashes an ID: a 64-bit xxhash with the seed over, for each part, eight
// bytes (little endian) of its kind and its decoded length, then its decoded
// bytes. One part alone, which most IDs are, is hashed where it lies: 13 ns for a
// UUID, where streaming the parts takes 28 and collecting them in a buffer for one
// Sum64 takes 34.
//
// It has one owner: no method may run concurrently with another.
type hasher struct {
	seed   uint64
	alone  bool        // there is one part
	done   bool        // and its hash is known
	hash   filter.Hash // then
	digest xxhash.Digest
	word   [8]byte
	char   [maxChar]byte // one decoded escape
}

// longAlone is the length above which the library, which is assembly, is faster.
const longAlone = 512

// reset begins a new ID.
func (h *hasher) reset() {
	h.done = false
	if !h.alone {
		h.digest.ResetWithSeed(h.seed)
	}
}

// add appends a part, which must be one that can be an ID's.
func (h *hasher) add(p *part) {
	if h.alone {
		if !p.escaped {
			h.hash, h.done = h.whole(p.kind, p.bytes), true
			return
		}
		h.digest.ResetWithSeed(h.seed)
	}
	h.stream(p)
}

// whole is the hash of an ID of one part, which has no escapes.
func (h *hasher) whole(k kind, b []byte) filter.Hash {
	if len(b) <= longAlone {
		return filter.Hash(sumOne(h.seed, prefix(k, len(b)), b))
	}
	h.digest.ResetWithSeed(h.seed)
	h.stream(&part{kind: k, bytes: b})
	return filter.Hash(h.digest.Sum64())
}

// stream hands a part to the digest.
func (h *hasher) stream(p *part) {
	if !p.escaped {
		h.writeWord(prefix(p.kind, len(p.bytes)))
		h.write(p.bytes)
		return
	}
	length := 0
	for piece, rest := p.next(p.bytes, &h.char); len(piece) > 0; piece, rest = p.next(rest, &h.char) {
		length += len(piece)
	}
	h.writeWord(prefix(p.kind, length))
	for piece, rest := p.next(p.bytes, &h.char); len(piece) > 0; piece, rest = p.next(rest, &h.char) {
		h.write(piece)
	}
}

// prefix is the word before a part.
func prefix(k kind, length int) uint64 { return uint64(k)<<lengthBits | uint64(length) }

func (h *hasher) writeWord(w uint64) {
	binary.LittleEndian.PutUint64(h.word[:], w)
	h.write(h.word[:])
}

func (h *hasher) write(b []byte) {
	_, _ = h.digest.Write(b) // never fails
}

func (h *hasher) sum() filter.Hash {
	if h.done {
		return h.hash
	}
	return filter.Hash(h.digest.Sum64())
}
