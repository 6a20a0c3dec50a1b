package bench

import (
	"fmt"

	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
)

const (
	// feedBatch is the records of a batch: about what a fetch brings of a partition.
	feedBatch = 1024
	// copyReach is how many new IDs back a copy's first may be, and reachGenerations
	// how many generations: the window must still have it.
	copyReach        = 1 << 20
	reachGenerations = 4

	minIDBytes, maxIDBytes = 16, 36

	feedStart = int64(1_764_000_000_000)
)

// feed makes batches of records whose key is their ID, new ones and copies by its
// workload. Making them is not part of what is measured.
type feed struct {
	seed     uint64
	slice    int64 // ms that a generation takes
	workload Workload

	batch  pipeline.Batch
	ids    []byte
	issued uint64                   // numbers of IDs so far, but for hot ones
	starts [reachGenerations]uint64 // and before the generations, the newest first
	hot    uint64                   // the hot ID's number, another one in each generation
	warm   bool                     // it has come

	fresh, copies uint64 // records so far
}

func newFeed(seed uint64, slice int64) *feed {
	f := &feed{seed: seed, slice: slice, hot: hotID}
	f.batch = pipeline.Batch{
		Partition: pipeline.Partition{Topic: "bench"},
		Now:       feedStart + 1<<50, // no time is ahead of it
		Records:   make([]keys.Record, feedBatch),
		Offsets:   make([]int64, feedBatch),
	}
	return f
}

// rotate says that a generation begins.
func (f *feed) rotate() {
	copy(f.starts[1:], f.starts[:])
	f.starts[0] = f.issued
	f.hot++
	f.warm = false
}

// next fills the batch with records of the generation of the given number. The
// first has a time that nothing before is later than.
func (f *feed) next(generation int64) *pipeline.Batch {
	b := &f.batch
	b.First, b.Next = b.Next, b.Next+feedBatch
	f.ids = f.ids[:0]
	at := (feedStart/f.slice + generation) * f.slice
	for i := range b.Records {
		r := keys.Record{Key: f.nextID(i), Time: at}
		if f.workload == Disorder && i > 0 {
			r.Time -= int64(f.random(i) >> 32 % uint64(f.slice))
		}
		b.Records[i] = r
		b.Offsets[i] = b.First + int64(i)
	}
	return b
}

// random is a number of its own for each record.
func (f *feed) random(i int) uint64 {
	return scramble(f.seed ^ uint64(f.batch.First) ^ uint64(i)<<32)
}

// nextID is the ID of the i-th record of the batch.
func (f *feed) nextID(i int) []byte {
	repeats := f.workload.repeats(i)
	reach := min(f.issued-f.starts[reachGenerations-1], copyReach)
	switch {
	case repeats && f.workload == Hot:
		if f.warm {
			f.copies++
		} else {
			f.fresh++
			f.warm = true
		}
		return f.id(f.hot)
	case repeats && reach > 0:
		f.copies++
		return f.id(f.issued - 1 - f.random(i)%reach)
	}
	f.fresh++
	f.issued++
	return f.id(f.issued - 1)
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
func (f *feed) check(duplicates uint64, fpr float64) error {
	if duplicates < f.copies {
		return fmt.Errorf("%d of %d copies were missed", f.copies-duplicates, f.copies)
	}
	if falsely, expected := float64(duplicates-f.copies), fpr*float64(f.fresh); falsely > 2*expected+100 {
		return fmt.Errorf("%.0f new IDs were taken for seen, at most %.0f are expected", falsely, expected)
	}
	return nil
}
