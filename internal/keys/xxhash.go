package keys

import (
	"encoding/binary"
	"math/bits"
)

// The primes of xxhash (Collet).
const (
	prime1 = 11400714785074694791
	prime2 = 14029467366897019727
	prime3 = 1609587929392839161
	prime4 = 9650029242287828579
	prime5 = 2870177450012600261
)

func round64(acc, x uint64) uint64 { return bits.RotateLeft64(acc+x*prime2, 31) * prime1 }

func merge64(h, acc uint64) uint64 { return (h^round64(0, acc))*prime1 + prime4 }

// sumOne is the 64-bit xxhash, with a seed, of prefix (little endian) and b. The
// library hashes in one call without a seed only.
func sumOne(seed, prefix uint64, b []byte) uint64 {
	n := uint64(len(b)) + 8
	h := seed + prime5
	if len(b) >= 24 {
		p1 := uint64(prime1)
		v1 := round64(seed+p1+prime2, prefix)
		v2 := round64(seed+prime2, binary.LittleEndian.Uint64(b))
		v3 := round64(seed, binary.LittleEndian.Uint64(b[8:]))
		v4 := round64(seed-p1, binary.LittleEndian.Uint64(b[16:]))
		for b = b[24:]; len(b) >= 32; b = b[32:] {
			v1 = round64(v1, binary.LittleEndian.Uint64(b))
			v2 = round64(v2, binary.LittleEndian.Uint64(b[8:]))
			v3 = round64(v3, binary.LittleEndian.Uint64(b[16:]))
			v4 = round64(v4, binary.LittleEndian.Uint64(b[24:]))
		}
		h = bits.RotateLeft64(v1, 1) + bits.RotateLeft64(v2, 7) + bits.RotateLeft64(v3, 12) + bits.RotateLeft64(v4, 18)
		h = merge64(merge64(merge64(merge64(h, v1), v2), v3), v4)
		h += n
	} else {
		h += n
		h = bits.RotateLeft64(h^round64(0, prefix), 27)*prime1 + prime4
	}
	for ; len(b) >= 8; b = b[8:] {
		h = bits.RotateLeft64(h^round64(0, binary.LittleEndian.Uint64(b)), 27)*prime1 + prime4
	}
	if len(b) >= 4 {
		h = bits.RotateLeft64(h^uint64(binary.LittleEndian.Uint32(b))*prime1, 23)*prime2 + prime3
		b = b[4:]
	}
	for _, c := range b {
		h = bits.RotateLeft64(h^uint64(c)*prime5, 11) * prime1
	}
	h ^= h >> 33
	h *= prime2
	h ^= h >> 29
	h *= prime3
	return h ^ h>>32
}
