package audit

import (
	"math"
	"slices"
)

// unknown is far outside of all times, and small enough to be added to.
const unknown = math.MaxInt64 / 4

// bounds are the least and the greatest value that something can have.
type bounds struct{ lo, hi int64 }

// moved bounds how far stream time moved between two readings.
func moved(from, to bounds) bounds { return bounds{to.lo - from.hi, to.hi - from.lo} }

// stream follows the stream time of one partition.
type stream struct {
	slice, maxAhead int64
	arrival         bool   // records carry the wall clock as their time
	read            bounds // the wall clock during the whole reading
	recent          recent

	now      bounds // stream time
	first    int64  // the first time that was believed for certain
	certain  bool   // a time was believed for certain
	doubtful bool   // before that, one may have been
}

// observe gives the bounds of stream time at the reading of a record. Before the
// first time that was believed for certain there are none yet: see beginning.
func (s *stream) observe(t int64, ok bool) bounds {
	if ok && t <= s.read.hi+s.maxAhead {
		s.recent.add(t)
	}
	switch {
	case s.arrival:
		s.now = s.read
	case ok && t <= s.earliest()+s.maxAhead:
		if !s.certain {
			s.certain, s.first = true, t
			s.now = bounds{t, max(s.now.hi, t)}
		}
		s.now.lo = max(s.now.lo, t)
		s.now.hi = max(s.now.hi, t)
	case ok && t <= s.read.hi+s.maxAhead:
		s.doubtful = s.doubtful || !s.certain
		s.now.hi = max(s.now.hi, t)
	}
	return s.now
}

// earliest is a time that the wall clock had reached when the record was read
// that was observed last.
func (s *stream) earliest() int64 {
	if s.read.lo != -unknown {
		return s.read.lo
	}
	return min(s.recent.median(), s.read.hi)
}

// begun reports whether observe has an answer.
func (s *stream) begun() bool { return s.certain || s.arrival }

// beginning is the stream time of the records before the first believed one.
// The wall clock stood in for them, and how far it moved counts; where it stood
// in its slice does not carry over, which may cost or give a slice once.
func (s *stream) beginning() bounds {
	elapsed := s.read.hi - s.read.lo
	switch {
	case s.doubtful || s.read.lo == -unknown:
		return bounds{-unknown, unknown}
	case !s.certain: // and never will be
		return s.read
	}
	return bounds{s.first - elapsed - s.slice, s.first + s.slice}
}

// recentRecords is how many records the median is taken of: enough that a few
// wrong clocks do not matter.
const recentRecords = 15

// recent is the times of the last records, for want of a clock.
type recent struct {
	times  []int64 // a ring, filled from 0
	next   int
	sorted []int64
}

func (r *recent) add(t int64) {
	if len(r.times) < recentRecords {
		r.times = append(r.times, t)
	} else {
		old, _ := slices.BinarySearch(r.sorted, r.times[r.next])
		r.sorted = slices.Delete(r.sorted, old, old+1)
		r.times[r.next] = t
		r.next = (r.next + 1) % recentRecords
	}
	at, _ := slices.BinarySearch(r.sorted, t)
	r.sorted = slices.Insert(r.sorted, at, t)
}

// median is zero before there is a time.
func (r *recent) median() int64 {
	if len(r.sorted) == 0 {
		return 0
	}
	return r.sorted[len(r.sorted)/2]
}
