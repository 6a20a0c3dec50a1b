package keys

import (
	"math/rand/v2"
	"testing"
)

// TestSumOne compares it with the library, by way of the hasher that streams.
func TestSumOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 2 * longAlone {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		p, seed := part{kind: text, bytes: b}, rng.Uint64()
		streams, alone := hasher{seed: seed}, hasher{seed: seed, alone: true}
		for _, h := range []*hasher{&streams, &alone} {
			h.reset()
			h.add(&p)
		}
		if got, want := alone.sum(), streams.sum(); got != want {
			t.Errorf("%d bytes, seed %d: got %x, want %x", n, seed, got, want)
		}
		if got := sumOne(seed, uint64(text)<<lengthBits|uint64(n), b); got != uint64(streams.sum()) {
			t.Errorf("%d bytes, seed %d: sumOne: got %x, want %x", n, seed, got, streams.sum())
		}
	}
}
