package main

import (
	"context"
	"encoding/binary"
	"math"
	"time"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/sizing"
)

// measureTextbook fills the filter of the textbook, which has no window, with so many
// IDs, and asks for others. It is what 9.585 bits and 7 hashes are said of.
func measureTextbook(ctx context.Context, p point, seed uint64) (bytes uint64, r rate, err error) {
	began := time.Now()
	bits, hashes, err := filter.TextbookSize(p.elements, p.fpr)
	if err != nil {
		return 0, rate{}, err
	}
	f := bloom.New(uint(bits), hashes)
	var id [8]byte
	next := seed << 40
	step := func() []byte {
		binary.LittleEndian.PutUint64(id[:], mix(next))
		next++
		return id[:]
	}
	for n := uint64(0); n < p.elements; n++ {
		f.Add(step())
		if n%(1<<26) == 0 {
			if ctx.Err() != nil {
				return 0, rate{}, ctx.Err()
			}
			tell("  %s of %s IDs", sizing.FormatCount(n), sizing.FormatCount(p.elements))
		}
	}
	var found uint64
	r.Probes = uint64(max(wanted/p.fpr, fewestProbes))
	for range r.Probes {
		if f.Test(step()) {
			found++
		}
	}
	k, n, m := float64(hashes), float64(p.elements), float64(bits)
	r.Model, r.Measured = math.Pow(-math.Expm1(-k*n/m), k), float64(found)/float64(r.Probes)
	r.Deviation, r.Added, r.Seconds = 1/math.Sqrt(max(1, float64(found))), p.elements, time.Since(began).Seconds()
	return uint64(f.Cap()+7) / 8, r, nil
}
