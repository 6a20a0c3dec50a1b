package filter

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// geometry names a row of the benchmarks.
type geometry struct {
	layout string
	fpr    float64
	d, kk  int
}

// BenchmarkTestAndAdd is a shard's work: batches of new hashes, one in five of
// which comes a second time in the next batch, and a commit now and then. Its
// ns/op is for one hash, the making of the hash included.
//
//	go test ./filter -run '^$' -bench TestAndAdd -benchtime 10000000x -count 6
//
// Sizes are the memory of the whole filter. The filters are as full as they get,
// with random bits: an empty classic filter answers at the first bit it looks at.
func BenchmarkTestAndAdd(b *testing.B) {
	for _, mb := range []uint64{64, 1024} {
		for _, g := range []geometry{{"compact", 1e-2, 3, 3}, {"fast", 1e-2, 2, 4}, {"compact", 1e-4, 4, 4}, {"fast", 1e-4, 2, 6}} {
			b.Run(fmt.Sprintf("filter=sliced/layout=%s/fpr=%g/size=%dMB", g.layout, g.fpr, mb), func(b *testing.B) {
				shardWork(b, slicedOf(b, g, mb<<20), b.N+1)
			})
		}
		b.Run(fmt.Sprintf("filter=classic/fpr=0.01/size=%dMB", mb), func(b *testing.B) {
			shardWork(b, classicOf(b, mb<<20), b.N+1)
		})
		for _, fpr := range []float64{1e-2, 1e-4} {
			b.Run(fmt.Sprintf("filter=single/fpr=%g/size=%dMB", fpr, mb), func(b *testing.B) {
				shardWork(b, singleOf(b, fpr, mb<<20), b.N+1)
			})
		}
	}
}

// BenchmarkKernel is the look-up and addition of a batch of new hashes in a full filter
// that is larger than a cache, for each geometry with an unrolled kernel; journal and
// commits are in it. Its ns/op is for one hash, the making of the hash included.
//
//	go test ./filter -run '^$' -bench Kernel -count 6
func BenchmarkKernel(b *testing.B) {
	geometries := slices.SortedFunc(maps.Keys(kernels), func(x, y [2]int) int { return slices.Compare(x[:], y[:]) })
	for _, g := range geometries {
		b.Run(fmt.Sprintf("geometry=%dx%d/size=64MB", g[0], g[1]), func(b *testing.B) {
			shardWork(b, slicedOf(b, geometry{d: g[0], kk: g[1]}, 64<<20), b.N+batch)
		})
	}
}

// BenchmarkAfterRotation is the worst case of a Sliced: it rotates so often that
// nearly every line that an addition touches has to be cleaned first.
func BenchmarkAfterRotation(b *testing.B) {
	for _, g := range []geometry{{"compact", 1e-2, 3, 3}, {"fast", 1e-2, 2, 4}} {
		b.Run(fmt.Sprintf("filter=sliced/layout=%s/fpr=%g/size=1024MB", g.layout, g.fpr), func(b *testing.B) {
			shardWork(b, slicedOf(b, g, 1<<30), 1<<20)
		})
	}
}

// BenchmarkRollback undoes a cycle of additions; its ns/op is for one of them.
func BenchmarkRollback(b *testing.B) {
	s := slicedOf(b, geometry{"compact", 1e-2, 3, 3}, 1<<30)
	defer s.Close()
	const cycle = 1 << 17
	f := newFeed(cycle)
	for done := 0; done < b.N; done += cycle {
		b.StopTimer()
		f.fill()
		s.TestAndAdd(f.hashes, f.learn, cycle, f.ages)
		b.StartTimer()
		s.Rollback()
	}
}

// slicedOf is a full filter of size bytes: at the rate it was sized for, a good
// two fifths of the bits of each generation are set.
func slicedOf(b *testing.B, g geometry, size uint64) *Sliced {
	s, err := NewSliced(Params{Lines: size / LineBytes, LinesPerKey: g.d, CellsPerLine: g.kk})
	if err != nil {
		b.Fatal(err)
	}
	var n uint64
	word := func() uint64 { n++; return uint64(scatter(n)) }
	for i := range s.lines {
		for c := 0; c < LineBytes; c += 8 {
			w := word()
			binary.LittleEndian.PutUint64(s.lines[i][c:], w&(w>>7|w<<23|word()))
		}
		s.lines[i][stampCell] = s.stamp
	}
	return s
}

// classicOf is a full ring of size bytes in all, for a rate of 1e-2: ten hashes
// at 15.9 bits for each element of the window, which sets half of the bits.
func classicOf(b *testing.B, size uint64) *Classic {
	c, err := NewClassic(ClassicParams{Bits: size, Hashes: 10})
	if err != nil {
		b.Fatal(err)
	}
	var n uint64
	for _, f := range c.ring {
		words := f.BitSet().Words()
		for i := range words {
			n++
			words[i] = uint64(scatter(n))
		}
	}
	return c
}

// singleOf is a full filter of size bytes for a rate: half of the bits are set.
func singleOf(b *testing.B, fpr float64, size uint64) *Single {
	p, err := SingleSize(1_000_000, fpr)
	if err != nil {
		b.Fatal(err)
	}
	p.Lines = size / LineBytes
	s, err := NewSingle(p)
	if err != nil {
		b.Fatal(err)
	}
	for i := range s.lines {
		for c := 0; c < LineBytes; c += 8 {
			binary.LittleEndian.PutUint64(s.lines[i][c:], uint64(scatter(uint64(i*LineBytes+c))))
		}
	}
	return s
}

// unused is where the hashes begin that no full filter was made of.
const unused = 1 << 40

// feed makes batches of hashes.
type feed struct {
	hashes []Hash
	learn  []bool
	ages   []uint8
	next   uint64
}

func newFeed(size int) *feed {
	f := &feed{hashes: make([]Hash, size), learn: make([]bool, size), ages: make([]uint8, size)}
	for i := range f.learn {
		f.learn[i] = true
	}
	return f
}

func (f *feed) fill() {
	for i := range f.hashes {
		if i%5 == 4 {
			f.hashes[i] = scatter(unused + f.next - uint64(len(f.hashes)))
			continue
		}
		f.hashes[i] = scatter(unused + f.next)
		f.next++
	}
}

// shardWork feeds s with b.N hashes and rotates it each time after some.
func shardWork(b *testing.B, s Set, rotateAfter int) {
	const cycle = 1 << 16 // hashes between two commits
	f := newFeed(batch)
	var added uint64
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += batch {
		f.fill()
		added += s.TestAndAdd(f.hashes, f.learn, batch, f.ages)
		if done%cycle == 0 {
			s.Seal()
			s.Commit()
		}
		if done%rotateAfter == rotateAfter-batch {
			s.Rotate(1)
		}
	}
	b.StopTimer()
	if added == 0 {
		b.Fatal("nothing was added")
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// scatter is the n-th hash of a fixed sequence, all different.
func scatter(n uint64) Hash {
	n *= 0xd6e8feb86659fd93
	n = (n ^ n>>32) * 0xd6e8feb86659fd93
	return Hash(n ^ n>>32)
}
