package keys

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// TestSpecial looks for each byte at each place of a word, before others of any
// kind.
func TestSpecial(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for c := range 256 {
		want := c == '"' || c == '\\' || c < ' '
		for place := range 8 {
			for range 50 {
				var b [8]byte
				for i := range b {
					b[i] = "a!#[]~ \x7f\x80\xa2\xdc\xff"[rng.IntN(12)]
					if i > place {
						b[i] = byte(rng.Uint32())
					}
				}
				b[place] = byte(c)
				x := word(b[:], 0)
				if x != binary.LittleEndian.Uint64(b[:]) {
					t.Fatalf("word of %q: got %#x", b, x)
				}
				if got := bits.TrailingZeros64(special(x))/8 == place; want && !got || !want && got {
					t.Fatalf("byte %#x at %d of %q: got special %v, want %v", c, place, b, got, want)
				}
			}
		}
	}
}

func TestOutcomeString(t *testing.T) {
	for o, want := range map[Outcome]string{Found: "found", Missing: "missing", Unsupported: "unsupported", Invalid: "invalid"} {
		if o.String() != want {
			t.Errorf("got %s, want %s", o, want)
		}
	}
}
