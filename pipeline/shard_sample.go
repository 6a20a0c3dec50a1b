package pipeline

import (
	"github.com/cespare/xxhash/v2"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
)

// A filter cannot say which of its answers are false. So each shard keeps an exact
// record of one in 1,024 hashes, and judges by it what the filter says of those. That
// measures the rate of false positives where it matters, on the user's own stream, and
// finds IDs that several events have. It is made of the same commits as the filter:
// what it counts does not depend on batches, commits and rollbacks.

const (
	// sampleOneOf is how many hashes one is sampled of.
	sampleOneOf = 1024
	// sampleMixer sets the choice apart from the places in a filter, which are mixed
	// in another way: the sampled ones lie in it like all others.
	sampleMixer = 0xd6e8feb86659fd93
	// sampleFrom is the least product that is sampled: the uppermost of 1,024 parts.
	// That of 0, which stands for an empty slot, is below.
	sampleFrom = (sampleOneOf - 1) << (64 - 10)
	// minSampleLimit keeps small filters from a sample that is always full.
	minSampleLimit = 1024
)

// isSampled is whether the sample has a hash when it is learned.
func isSampled(h filter.Hash) bool { return uint64(h)*sampleMixer >= sampleFrom }

// sampledID is one ID of the sample, in sixteen bytes.
type sampledID struct {
	hash filter.Hash // 0 is an empty slot
	// rotation is the lower half of that of the generation that learned it last.
	rotation uint32
	// value is of the hash of the first copy's value, 0 where that is unknown.
	value uint32
}

// sample is an exact record of the sampled hashes that a window remembers. It has one
// owner.
type sample struct {
	limit int // of live IDs
	table sampleTable

	sampleCore                // the state apart from the table
	base       sampleCore     // what it was at the last commit
	sealed     []sealedSample // oldest first
	undo       []replaced     // what was in the table's slots since the last commit
}

// sampleCore is a small value, so the journal of it is copies.
type sampleCore struct {
	rotation uint64                     // the window's
	known    uint64                     // everything learned from this rotation on is known
	live     [filter.Generations]uint32 // how many IDs were learned last at each age
}

type sealedSample struct {
	core sampleCore
	undo int // how much of the undo log is up to it
}

// replaced is what the table had for a hash: nothing, where its own hash is 0.
type replaced struct {
	hash filter.Hash
	was  sampledID
}

// newSample makes the sample of a window whose generations take so many hashes each.
// It has room for half as many again as is to be expected.
func newSample(generationCapacity uint64) sample {
	const perGeneration = sampleOneOf / filter.Generations
	expected := int(min(generationCapacity/perGeneration, 1<<30))
	return sample{
		limit: max(minSampleLimit, expected*3/2), table: newSampleTable(expected),
		undo: make([]replaced, 0, apart),
	}
}

// audit judges what the filter said of the first n records of the chunk, which
// begins at record from of b, and remembers what it learned.
func (s *Shard) audit(b *Batch, from, n int) {
	run := 0
	for i, h := range s.in.Hashes[:n] {
		if !isSampled(h) || s.scratch.ids.found[i] != keys.Found {
			continue
		}
		for s.in.Runs[run].To <= i {
			run++
		}
		s.sample.advance(s.in.Runs[run].Rotation)
		value := valueHash(b.Records[from+i].Value)
		s.sample.judge(h, value, s.in.Ages[i], &b.Counts.Audit)
		if s.in.Learn[i] {
			s.sample.learn(h, value)
		}
	}
}

// valueHash is 32 bits of a value's hash, never 0.
func valueHash(value []byte) uint32 { return uint32(xxhash.Sum64(value)) | 1 }

// advance follows the window's rotations.
func (a *sample) advance(rotation uint64) {
	passed := rotation - a.rotation
	if passed == 0 {
		return
	}
	a.rotation = rotation
	before := a.live
	a.live = [filter.Generations]uint32{}
	if passed < filter.Generations {
		copy(a.live[passed:], before[:])
	}
}

// age is that of the generation that learned an ID last. From [filter.Generations]
// on it is forgotten.
func (a *sample) age(e sampledID) uint32 { return uint32(a.rotation) - e.rotation }

// remembers is whether e is an ID, and not forgotten.
func (a *sample) remembers(e sampledID) bool { return e.hash != 0 && a.age(e) < filter.Generations }

// put notes e. What a rollback would bring back is not left out.
func (a *sample) put(e sampledID) { a.table.put(e, uint32(a.base.rotation)) }

// judge counts what the filter said of a record with a sampled hash.
func (a *sample) judge(h filter.Hash, value uint32, ages uint8, counts *Audit) {
	e := a.table.get(h)
	seen := a.remembers(e)
	if seen && ages != 0 && e.value != 0 && e.value != value {
		counts.Clashes++
	}
	if a.known > 0 && a.rotation < a.known+filter.Sealed {
		return // a generation that it does not know may hold the ID
	}
	counts.Sampled++
	switch {
	case ages == 0:
		counts.SampledNew++
	case !seen:
		counts.FalsePositives++
	}
}

// learn notes that the filling generation has learned a sampled hash.
func (a *sample) learn(h filter.Hash, value uint32) {
	was := a.table.get(h)
	if a.remembers(was) { // it learned a repeat, see [window.Config]
		a.live[a.age(was)]--
		value = was.value
	} else if a.ids() >= a.limit {
		a.known = a.rotation + 1
		return
	}
	a.undo = append(a.undo, replaced{h, was})
	a.put(sampledID{hash: h, rotation: uint32(a.rotation), value: value})
	a.live[0]++
}

// ids is how many are remembered.
func (a *sample) ids() int {
	n := uint32(0)
	for _, of := range a.live {
		n += of
	}
	return int(n)
}

// seal, commit and rollback are those of the window.
func (a *sample) seal() { a.sealed = append(a.sealed, sealedSample{a.sampleCore, len(a.undo)}) }

func (a *sample) commit() {
	first := a.sealed[0]
	a.base = first.core
	a.undo = append(a.undo[:0], a.undo[first.undo:]...)
	a.sealed = append(a.sealed[:0], a.sealed[1:]...)
	for i := range a.sealed {
		a.sealed[i].undo -= first.undo
	}
}

func (a *sample) rollback() {
	for i := len(a.undo) - 1; i >= 0; i-- {
		if was := a.undo[i].was; was.hash == 0 {
			a.table.remove(a.undo[i].hash)
		} else {
			a.put(was)
		}
	}
	a.undo, a.sealed = a.undo[:0], a.sealed[:0]
	a.sampleCore = a.base
}

// SampleStats is what an audit's exact record holds.
type SampleStats struct {
	// IDs are those that it remembers.
	IDs int
	// Known is the share of the live generations of which it knows everything. It
	// is less than 1 for a window after a restore from the input, or from a checkpoint of
	// an earlier version: no false positive can be told until it is 1.
	Known float64
	// Full says that it has no room and takes no more IDs.
	Full bool
}

// SampleStats is the audit's state, committed or not.
func (s *Shard) SampleStats() SampleStats {
	a := &s.sample
	stats := SampleStats{IDs: a.ids(), Known: 1, Full: a.ids() >= a.limit}
	state := s.window.State()
	if begun := len(state.Generations); begun > 0 {
		known := 0
		for age := range begun {
			if state.Rotation >= a.known+uint64(age) {
				known++
			}
		}
		stats.Known = float64(known) / float64(begun)
	}
	return stats
}
