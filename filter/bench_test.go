package filter

import (
	"fmt"
	"testing"
)

// BenchmarkTestAndAdd looks up one hash in five a second time, within the batch
// after its first, and commits as a shard does. Its ns/op is for one hash.
//
//	go test ./filter -run '^$' -bench TestAndAdd/filter=sliced -count 6
//
// The sizes are the memory of the whole filter; the small one is in the reach of
// some caches, the large one in none. A key is new, so what counts is the number of
// lines it touches, and how full they are does not.
func BenchmarkTestAndAdd(b *testing.B) {
	type geometry struct {
		layout string
		fpr    string
		d, kk  int
	}
	for _, g := range []geometry{{"compact", "1e-2", 3, 3}, {"fast", "1e-2", 2, 4}, {"compact", "1e-4", 4, 4}, {"fast", "1e-4", 2, 6}} {
		for _, mb := range []uint64{64, 1024} {
			b.Run(fmt.Sprintf("filter=sliced/layout=%s/fpr=%s/size=%dMB", g.layout, g.fpr, mb), func(b *testing.B) {
				s, err := NewSliced(Params{Lines: mb << 20 / LineBytes, LinesPerKey: g.d, CellsPerLine: g.kk})
				if err != nil {
					b.Fatal(err)
				}
				benchmarkTestAndAdd(b, s)
			})
		}
	}
}

func benchmarkTestAndAdd(b *testing.B, s Set) {
	const (
		size  = 64
		cycle = 1 << 16 // hashes between two commits
	)
	defer func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	hashes, ages, learn := make([]Hash, size), make([]uint8, size), make([]bool, size)
	for i := range learn {
		learn[i] = true
	}
	var next, added uint64
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += size {
		for i := range hashes {
			n := next - size
			if i%5 != 0 {
				n = next
				next++
			}
			hashes[i] = scatter(n)
		}
		added += s.TestAndAdd(hashes, learn, uint64(size), ages)
		if done%cycle == 0 {
			s.Seal()
			s.Commit()
		}
	}
	b.StopTimer()
	if added == 0 {
		b.Fatal("nothing was added")
	}
	b.ReportMetric(float64(s.Bytes())/(1<<20), "MB-filter")
}

// scatter is the n-th hash of a fixed sequence, all different.
func scatter(n uint64) Hash {
	n *= 0xd6e8feb86659fd93
	n = (n ^ n>>32) * 0xd6e8feb86659fd93
	return Hash(n ^ n>>32)
}
