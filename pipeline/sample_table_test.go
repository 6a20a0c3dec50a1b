package pipeline

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/streamdedup/streamdedup/filter"
)

// sampledHash is one that the sample has.
func sampledHash(rng *rand.Rand) filter.Hash {
	inverse := uint64(sampleMixer) // to three bits, and each step doubles them
	for range 5 {
		inverse *= 2 - sampleMixer*inverse
	}
	return filter.Hash((sampleFrom | rng.Uint64()>>10) * inverse)
}

// However large a sample is, a hash that it learns is work on one small part of it, and
// all parts together take what is said of them: 32 bytes for each ID of a full window.
func TestSampleGrowsInSmallParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 31))
	const perGeneration = 1 << 14
	a := newSample(perGeneration * sampleOneOf)
	for rotation := range uint64(3 * filter.Generations) {
		a.advance(rotation)
		for range perGeneration {
			h := sampledHash(rng)
			if !isSampled(h) {
				t.Fatalf("%x is not sampled", h)
			}
			a.learn(h, 1)
		}
		a.seal()
		a.commit()
		if want := perGeneration * int(min(rotation+1, filter.Generations)); a.ids() != want {
			t.Fatalf("rotation %d: %d IDs, want %d", rotation, a.ids(), want)
		}
	}
	most, slots, used := 0, 0, 0
	for i := range a.table.parts {
		p := &a.table.parts[i]
		most, slots, used = max(most, len(p.slots)), slots+len(p.slots), used+p.used
	}
	if most > 4*partIDs {
		t.Errorf("a part has %d slots, want at most %d", most, 4*partIDs)
	}
	if bytes := float64(slots*storedIDBytes) / float64(a.ids()); bytes > 33 {
		t.Errorf("%.1f bytes an ID", bytes)
	}
	if used != a.table.used {
		t.Errorf("%d slots are counted, %d are taken", a.table.used, used)
	}
}

// A copy that is made in steps, while the sample learns, forgets and takes back, is with
// what was learned since it began what the sample is at its end.
func TestSampleIsCopiedWhileItLearns(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 32))
	const perGeneration = 200
	for range 20 {
		a := newSample(perGeneration * sampleOneOf)
		if a.parts() < 5 {
			t.Fatalf("%d parts: the test is too tame", a.parts())
		}
		model := map[filter.Hash]uint64{} // rotation of each
		base := maps.Clone(model)
		var known []filter.Hash
		var since []sampledID // learned and committed after the copy began
		cycle := func(keep bool) {
			rotation := a.rotation
			var learned []sampledID
			for range rng.IntN(perGeneration / 2) {
				h := sampledHash(rng)
				if len(known) > 0 && rng.IntN(4) == 0 {
					h = known[rng.IntN(len(known))] // a repeat, or a new one that was forgotten
				}
				a.learn(h, 1)
				known = append(known, h)
				model[h] = a.rotation
				learned = append(learned, sampledID{hash: h, rotation: uint32(a.rotation)})
				if rng.IntN(150) == 0 {
					a.advance(a.rotation + 1 + rng.Uint64N(2))
				}
			}
			if !keep {
				a.rollback()
				model = maps.Clone(base)
				if a.rotation != rotation {
					t.Fatalf("rotation %d, want %d", a.rotation, rotation)
				}
				return
			}
			a.seal()
			a.commit()
			base = maps.Clone(model)
			since = append(since, learned...)
		}
		for range 30 {
			cycle(rng.IntN(4) > 0)
		}
		since = since[:0]
		var stored []byte
		for part := uint64(0); part < a.parts(); {
			var step []byte
			step, part = a.appendFrom(make([]byte, 0, rng.IntN(6000)), part)
			stored = append(stored, step...)
			cycle(rng.IntN(4) > 0)
		}
		again := newSample(perGeneration * sampleOneOf)
		if is, err := again.load(bytes.NewReader(stored)); !is || err != nil {
			t.Fatal(is, err)
		}
		for _, e := range since {
			again.refill(uint64(e.rotation), []filter.Hash{e.hash})
		}
		again.refilled(a.rotation, true)
		if again.sampleCore != a.sampleCore {
			t.Fatalf("restored to %+v, want %+v", again.sampleCore, a.sampleCore)
		}
		for h, rotation := range model {
			want := a.rotation-rotation < filter.Generations
			if is, restored := a.remembers(a.table.get(h)), again.remembers(again.table.get(h)); is != want || restored != want {
				t.Fatalf("%x of rotation %d at %d: remembered %v, restored %v, want %v", h, rotation, a.rotation, is, restored, want)
			}
		}
	}
}
