package survey

import (
	"maps"
	"math/bits"

	"github.com/streamdedup/streamdedup/filter"
)

// sample remembers IDs whose hash ends in at least level zero bits: one in 2^level. An
// ID that is in it has always been, so that nothing of it is missing.
type sample struct {
	most  int
	level int
	// ids has the partition in which an ID came first; the few that come in several have
	// the others in more.
	ids  map[filter.Hash]first
	more map[place]first
	// tallies has the copies of the IDs with so many zero bits.
	tallies [65]*tally
}

// first is the first copy of an ID: at which stream time, 0 for none, and where, and how
// many others have come there.
type first struct {
	time      int64
	partition int32
	copies    uint32
}

// place is an ID in a partition.
type place struct {
	id        filter.Hash
	partition int32
}

// tally counts copies.
type tally struct {
	records   uint64 // first copies too
	elsewhere uint64 // first of their partition, though another has had the ID
	ages      histogram
}

func newSample(most int) *sample {
	s := &sample{most: most, ids: map[filter.Hash]first{}, more: map[place]first{}}
	for i := range s.tallies {
		s.tallies[i] = &tally{}
	}
	return s
}

// add takes a record with an ID that came in a partition at a stream time.
func (s *sample) add(id filter.Hash, partition int32, stream int64) {
	level := bits.TrailingZeros64(uint64(id))
	if level < s.level {
		return
	}
	t := s.tallies[level]
	t.records++
	in := place{id, partition}
	here, ok := s.ids[id]
	switch {
	case !ok:
		s.ids[id] = first{time: stream, partition: partition}
	case here.partition == partition:
		t.ages.add(here.again(stream))
		s.ids[id] = here
		return
	default:
		if here, ok = s.more[in]; ok {
			t.ages.add(here.again(stream))
			s.more[in] = here
			return
		}
		s.more[in] = first{time: stream, partition: partition}
		t.elsewhere++
	}
	for len(s.ids)+len(s.more) > s.most {
		s.halve()
	}
}

// again counts a copy that comes at a stream time, and is its age. A stream that had no
// time at the first copy does not say.
func (f *first) again(stream int64) (age int64) {
	f.copies++
	if f.time == 0 {
		return 0
	}
	return stream - f.time
}

// halve forgets the IDs of the lowest level, and all that was counted of them.
func (s *sample) halve() {
	s.tallies[s.level] = nil
	s.level++
	gone := func(id filter.Hash) bool { return bits.TrailingZeros64(uint64(id)) < s.level }
	maps.DeleteFunc(s.ids, func(id filter.Hash, _ first) bool { return gone(id) })
	maps.DeleteFunc(s.more, func(in place, _ first) bool { return gone(in.id) })
}

// total is the tally of all that is in the sample.
func (s *sample) total() *tally {
	sum := &tally{}
	for _, t := range s.tallies[s.level:] {
		sum.records += t.records
		sum.elsewhere += t.elsewhere
		sum.ages.plus(&t.ages)
	}
	return sum
}

// firsts is how many first copies of a partition came in each minute of stream time, and
// how many others the most frequent of them has.
func (s *sample) firsts() (minutes map[int64]uint64, most uint32) {
	minutes = map[int64]uint64{}
	note := func(f first) {
		most = max(most, f.copies)
		if f.time != 0 {
			minutes[f.time/millisAMinute]++
		}
	}
	for _, f := range s.ids {
		note(f)
	}
	for _, f := range s.more {
		note(f)
	}
	return minutes, most
}
