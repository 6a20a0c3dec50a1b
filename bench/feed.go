package bench

import (
	"fmt"

	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
)

const (
	// feedBatch is the records of a batch: about what a fetch brings of a partition.
	feedBatch = 1024
	// copyEvery record is a copy of an earlier one.
	copyEvery = 10
	// copyReach is how many new IDs back a copy's first may be.
	copyReach = 1 << 20

	minIDBytes, maxIDBytes = 16, 36

	feedStart = int64(1_764_000_000_000)
)

// feed makes batches of records whose key is their ID, nine new ones and a copy
// in turn. Making them is not part of what is measured.
type feed struct {
	seed   uint64
	slice  int64  // ms that a generation takes
	perGen uint64 // new IDs in a generation

	batch  pipeline.Batch
	ids    []byte
	fresh  uint64 // new IDs so far
	since  uint64 // and since the current generation began
	number int64  // of the current generation
	copies uint64 // copies so far
}

func newFeed(seed uint64, slice int64, perGen uint64) *feed {
	f := &feed{seed: seed, slice: slice, perGen: perGen}
	f.batch = pipeline.Batch{
		Partition: pipeline.Partition{Topic: "bench"},
		Now:       feedStart + 1<<50, // no time is ahead of it
		Records:   make([]keys.Record, feedBatch),
		Offsets:   make([]int64, feedBatch),
	}
	return f
}

// next fills the batch. A generation begins with a batch, so that none is filled
// beyond its plan.
func (f *feed) next() *pipeline.Batch {
	if f.since+feedBatch > f.perGen {
		f.number++
		f.since = 0
	}
	b := &f.batch
	b.First, b.Next = b.Next, b.Next+feedBatch
	f.ids = f.ids[:0]
	for i := range b.Records {
		n := f.fresh
		if i%copyEvery == copyEvery-1 && f.fresh > 0 {
			n -= 1 + scramble(f.seed^uint64(b.First)^uint64(i)<<32)%min(f.fresh, copyReach)
			f.copies++
		} else {
			f.fresh++
			f.since++
		}
		b.Records[i] = keys.Record{Key: f.id(n), Time: feedStart/f.slice*f.slice + f.number*f.slice}
		b.Offsets[i] = b.First + int64(i)
	}
	return b
}

// id is the n-th ID: 16 to 36 hexadecimal digits.
func (f *feed) id(n uint64) []byte {
	if cap(f.ids) < feedBatch*maxIDBytes {
		f.ids = make([]byte, 0, feedBatch*maxIDBytes)
	}
	const digits = "0123456789abcdef"
	at := len(f.ids)
	x := scramble(f.seed + n)
	length := minIDBytes + int(x%(maxIDBytes-minIDBytes+1))
	for i := range length {
		if i > 0 && i%16 == 0 {
			x = scramble(x)
		}
		f.ids = append(f.ids, digits[x>>(4*(i%16))&15])
	}
	return f.ids[at:]
}

// check says whether a set that was fed gave the verdicts it must: it found every
// copy, and of the new IDs no more than its false-positive rate lets expect.
func (f *feed) check(c *pipeline.Counts, fpr float64) error {
	duplicates := c.Verdicts[pipeline.Duplicate]
	if duplicates < f.copies {
		return fmt.Errorf("%d of %d copies were missed", f.copies-duplicates, f.copies)
	}
	if falsely, expected := float64(duplicates-f.copies), fpr*float64(f.fresh); falsely > 2*expected+100 {
		return fmt.Errorf("%.0f new IDs were taken for seen, at most %.0f are expected", falsely, expected)
	}
	return nil
}
