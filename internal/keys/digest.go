package keys

import (
	"crypto/sha256"
	"encoding/hex"
)

// digest is a SHA-256 as people write it, in lower-case hexadecimal digits.
type digest [2 * sha256.Size]byte

// of makes d the digest of b, and returns it as a part that is good until the next.
// What is empty has none.
func (d *digest) of(b []byte) part {
	if len(b) == 0 {
		return part{}
	}
	sum := sha256.Sum256(b)
	hex.Encode(d[:], sum[:])
	return part{kind: raw, bytes: d[:]}
}

// read makes d the digest that is written in b, in digits of either case.
func (d *digest) read(b []byte) bool {
	if len(b) != len(d) {
		return false
	}
	for i, c := range b {
		digit := hexDigit[c]
		if digit&isHex == 0 {
			return false
		}
		d[i] = lowerHex[digit&0xf]
	}
	return true
}
