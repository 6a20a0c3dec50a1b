package window

import (
	"encoding/binary"
	"slices"

	"github.com/streamdedup/streamdedup/filter"
)

// exactSet is a filter.Set without false positives: a Go map per generation. It
// is the oracle for everything that a Bloom filter would blur.
type exactSet struct {
	gens    [filter.Generations]map[filter.Hash]struct{} // by age
	journal []exactEntry
	seals   []int // ends of the sealed sections in journal, oldest first
}

// exactEntry is one change: a hash added to the filling generation, or, where
// dropped is set, a rotation by one with the generation it forgot.
type exactEntry struct {
	hash    filter.Hash
	dropped map[filter.Hash]struct{}
}

var _ filter.Set = (*exactSet)(nil)

func newExactSet() *exactSet {
	s := &exactSet{}
	for age := range s.gens {
		s.gens[age] = map[filter.Hash]struct{}{}
	}
	return s
}

func (s *exactSet) TestAndAdd(hashes []filter.Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	return s.addUnless(0xff, hashes, learn, room, ages)
}

func (s *exactSet) Learn(hashes []filter.Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	return s.addUnless(1, hashes, learn, room, ages)
}

// addUnless adds the hashes that no generation of the ages in known holds.
func (s *exactSet) addUnless(known uint8, hashes []filter.Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	if len(learn) != len(hashes) || len(ages) != len(hashes) {
		panic("exactSet: lengths differ")
	}
	for i, h := range hashes {
		ages[i] = s.Test(h)
		if ages[i]&known == 0 && learn[i] && added < room {
			s.gens[0][h] = struct{}{}
			s.journal = append(s.journal, exactEntry{hash: h})
			added++
		}
	}
	return added
}

func (s *exactSet) Test(h filter.Hash) (ages uint8) {
	for age := range s.gens {
		if _, ok := s.gens[age][h]; ok {
			ages |= 1 << age
		}
	}
	return ages
}

func (s *exactSet) Rotate(n int) {
	for range min(n, filter.Generations) {
		s.journal = append(s.journal, exactEntry{dropped: s.gens[filter.Sealed]})
		copy(s.gens[1:], s.gens[:])
		s.gens[0] = map[filter.Hash]struct{}{}
	}
}

func (s *exactSet) Seal() { s.seals = append(s.seals, len(s.journal)) }

func (s *exactSet) Commit() {
	end := s.seals[0]
	s.journal = slices.Delete(s.journal, 0, end)
	s.seals = slices.Delete(s.seals, 0, 1)
	for i := range s.seals {
		s.seals[i] -= end
	}
}

func (s *exactSet) Rollback() {
	for _, e := range slices.Backward(s.journal) {
		if e.dropped == nil {
			delete(s.gens[0], e.hash)
			continue
		}
		copy(s.gens[:], s.gens[1:])
		s.gens[filter.Sealed] = e.dropped
	}
	s.journal, s.seals = s.journal[:0], s.seals[:0]
}

func (s *exactSet) Sweep()               {}
func (s *exactSet) JournalBytes() uint64 { return uint64(len(s.journal)) * 16 }
func (s *exactSet) Bytes() uint64        { return uint64(len(s.AppendState(nil))) }
func (s *exactSet) Close() error         { return nil }

func (s *exactSet) AppendState(b []byte) []byte {
	for _, gen := range s.gens {
		hashes := make([]filter.Hash, 0, len(gen))
		for h := range gen {
			hashes = append(hashes, h)
		}
		slices.Sort(hashes)
		b = binary.LittleEndian.AppendUint64(b, uint64(len(hashes)))
		for _, h := range hashes {
			b = binary.LittleEndian.AppendUint64(b, uint64(h))
		}
	}
	return b
}
