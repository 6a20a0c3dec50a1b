package main

import (
	"context"
	"encoding/binary"
	"math"
	"sync"
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
	f, err := fillTextbook(ctx, bits, hashes, p.elements, seed)
	if err != nil {
		return 0, rate{}, err
	}
	var found uint64
	r.Probes = uint64(max(wanted/p.fpr, fewestProbes))
	for n := range r.Probes {
		if f.Test(textbookID(seed, p.elements+n)) {
			found++
		}
	}
	k, n, m := float64(hashes), float64(p.elements), float64(bits)
	r.Model, r.Measured = math.Pow(-math.Expm1(-k*n/m), k), float64(found)/float64(r.Probes)
	r.Deviation, r.Added, r.Seconds = 1/math.Sqrt(max(1, float64(found))), p.elements, time.Since(began).Seconds()
	return uint64(f.Cap()+7) / 8, r, nil
}

// textbookID is ID number n.
func textbookID(seed, n uint64) []byte {
	return binary.LittleEndian.AppendUint64(make([]byte, 0, 8), mix(seed<<40+n))
}

// textbookParts are filled side by side, each in a filter of the whole size: more would
// take more memory than the largest plan that is checked.
const textbookParts = 2

// fillTextbook adds the IDs up to a number. A filter takes them from one goroutine, and
// forgets their order: those of several, united, are the one of all their IDs.
func fillTextbook(ctx context.Context, bits uint64, hashes uint, elements, seed uint64) (*bloom.BloomFilter, error) {
	var parts [textbookParts]*bloom.BloomFilter
	var filling sync.WaitGroup
	for i := range uint64(textbookParts) {
		f := bloom.New(uint(bits), hashes)
		parts[i] = f
		filling.Go(func() {
			begin, end := elements*i/textbookParts, elements*(i+1)/textbookParts
			for n := begin; n < end; n++ {
				f.Add(textbookID(seed, n))
				if n%(1<<26) != 0 {
					continue
				}
				if ctx.Err() != nil {
					return
				}
				tell("  part %d of %d: %s of %s IDs", i+1, textbookParts, sizing.FormatCount(n-begin), sizing.FormatCount(end-begin))
			}
		})
	}
	filling.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, other := range parts[1:] {
		if err := parts[0].Merge(other); err != nil {
			return nil, err
		}
	}
	return parts[0], nil
}
