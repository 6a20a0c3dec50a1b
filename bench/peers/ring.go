package peers

import (
	"github.com/bits-and-blooms/bloom/v3"
)

// ringFilters is into how many Bloom filters the ring cuts its window: seven that
// are complete and one that is filling.
const ringFilters = 8

// ring is what one writes first: a Bloom filter for each part of the window, all of
// them asked, the newest one added to.
type ring struct {
	filters [ringFilters]*bloom.BloomFilter
	newest  int
	slice   int64 // ms that a filter is filled for
	since   int64 // when the newest began
	per     uint
	fpr     float64
}

// NewRing makes a ring that answers wrongly at fpr when it is full: each filter has
// an eighth of that.
func NewRing(s *Stream, fpr float64) Judge {
	r := &ring{
		slice: Window.Milliseconds() / (ringFilters - 1), since: start.UnixMilli(),
		per: uint(headroom * float64(s.Distinct) / (ringFilters - 1)), fpr: fpr / ringFilters,
	}
	for i := range r.filters {
		r.filters[i] = r.empty()
	}
	return r
}

func (r *ring) empty() *bloom.BloomFilter { return bloom.NewWithEstimates(r.per, r.fpr) }

// Judge implements [Judge].
func (r *ring) Judge(s *Stream, from, to int, passed []bool) error {
	for i := from; i < to; i++ {
		for s.times[i] >= r.since+r.slice {
			r.newest = (r.newest + 1) % ringFilters
			r.filters[r.newest] = r.empty()
			r.since += r.slice
		}
		id := s.ID(i)
		seen := false
		for _, f := range r.filters {
			if f.Test(id) {
				seen = true
				break
			}
		}
		if !seen {
			r.filters[r.newest].Add(id)
			passed[i] = true
		}
	}
	return nil
}

// Settle implements [Judge].
func (r *ring) Settle() error { return nil }

// Bytes implements [Judge].
func (r *ring) Bytes() (bytes uint64, err error) {
	for _, f := range r.filters {
		bytes += uint64(f.Cap()) / 8
	}
	return bytes, nil
}
