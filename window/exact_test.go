package window

import (
	"encoding/binary"
	"io"
	"maps"
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

// exactEntry is one change: a hash added to the generation of an age, or, where
// dropped is set, a rotation by one with the generation it forgot.
type exactEntry struct {
	hash    filter.Hash
	age     int
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
	return s.addTo(0, 0xff, hashes, learn, room, ages)
}

func (s *exactSet) Learn(age int, hashes []filter.Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	return s.addTo(age, 1<<age, hashes, learn, room, ages)
}

// addTo adds the hashes that no generation of the ages in known holds to the one
// of the given age.
func (s *exactSet) addTo(age int, known uint8, hashes []filter.Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	if len(learn) != len(hashes) || len(ages) != len(hashes) {
		panic("exactSet: lengths differ")
	}
	for i, h := range hashes {
		ages[i] = s.Test(h)
		if ages[i]&known == 0 && learn[i] && added < room {
			s.gens[age][h] = struct{}{}
			s.journal = append(s.journal, exactEntry{hash: h, age: age})
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
			delete(s.gens[e.age], e.hash)
			continue
		}
		copy(s.gens[:], s.gens[1:])
		s.gens[filter.Sealed] = e.dropped
	}
	s.journal, s.seals = s.journal[:0], s.seals[:0]
}

func (s *exactSet) Sweep()               {}
func (s *exactSet) FPREstimate() float64 { return 0 }
func (s *exactSet) JournalBytes() uint64 { return uint64(len(s.journal)) * 16 }
func (s *exactSet) Bytes() uint64        { return uint64(len(s.AppendState(nil))) }
func (s *exactSet) Close() error         { return nil }

func (s *exactSet) AppendState(b []byte) []byte {
	return s.AppendBody(s.AppendHead(b), 0, s.BodyBytes())
}

// The body is the hashes of all generations, sorted, each in a unit of its own:
// the hash, and its ages as a number. The head is empty.

func (s *exactSet) Geometry() string           { return "exact" }
func (s *exactSet) BodySpan() uint64           { return 0 }
func (s *exactSet) BodyBytes() uint64          { return uint64(len(s.hashes())) * filter.BodyUnit }
func (s *exactSet) AppendHead(b []byte) []byte { return b }

func (s *exactSet) hashes() []filter.Hash {
	all := map[filter.Hash]struct{}{}
	for _, gen := range s.gens {
		maps.Copy(all, gen)
	}
	return slices.Sorted(maps.Keys(all))
}

func (s *exactSet) AppendBody(b []byte, from, to uint64) []byte {
	for _, h := range s.hashes()[from/filter.BodyUnit : to/filter.BodyUnit] {
		var unit [filter.BodyUnit]byte
		binary.LittleEndian.PutUint64(unit[:], uint64(h))
		unit[8] = s.Test(h)
		b = append(b, unit[:]...)
	}
	return b
}

// Load takes a body of any length: what an exact set holds is not in its geometry.
func (s *exactSet) Load(_ []byte, body io.Reader) error {
	*s = *newExactSet()
	var unit [filter.BodyUnit]byte
	for {
		switch _, err := io.ReadFull(body, unit[:]); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
		h := filter.Hash(binary.LittleEndian.Uint64(unit[:]))
		for age := range s.gens {
			if unit[8]>>age&1 != 0 {
				s.gens[age][h] = struct{}{}
			}
		}
	}
}
