package filter

import (
	"fmt"
	"os"
	"testing"
)

// BenchmarkLearn makes a memory again: batches of new hashes for the filling
// generation or an older one. Its ns/op is for one hash, the making of the hash
// included.
//
//	go test ./filter -run '^$' -bench Learn -benchtime 10000000x -count 6
func BenchmarkLearn(b *testing.B) {
	for _, age := range []int{0, 3} {
		b.Run(fmt.Sprintf("filter=sliced/layout=fast/fpr=0.01/size=1024MB/age=%d", age), func(b *testing.B) {
			const cycle = 1 << 16 // hashes between two commits
			s := slicedOf(b, geometry{"fast", 1e-2, 2, 4}, 1<<30)
			f := newFeed(256)
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += len(f.hashes) {
				f.fill()
				s.Learn(age, f.hashes, f.learn, uint64(len(f.hashes)), f.ages)
				if done%cycle == 0 {
					s.Seal()
					s.Commit()
				}
			}
			b.StopTimer()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkLoad loads filters from files that are in the system's page cache.
func BenchmarkLoad(b *testing.B) {
	load := func(b *testing.B, s Set) {
		head, file := s.AppendHead(nil), b.TempDir()+"/body"
		if err := os.WriteFile(file, s.AppendBody(nil, 0, s.BodyBytes()), 0o600); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(s.BodyBytes()))
		for b.Loop() {
			body, err := os.Open(file)
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Load(head, body); err != nil {
				b.Fatal(err)
			}
			if err := body.Close(); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("filter=sliced/layout=fast/fpr=0.01/size=1024MB", func(b *testing.B) {
		load(b, slicedOf(b, geometry{"fast", 1e-2, 2, 4}, 1<<30))
	})
	b.Run("filter=classic/fpr=0.01/size=1024MB", func(b *testing.B) { load(b, classicOf(b, 1<<30)) })
}

// BenchmarkAppendBody copies a body in the steps of a checkpoint; its ns/op is for
// one step.
func BenchmarkAppendBody(b *testing.B) {
	const step = 1 << 20
	copied := func(b *testing.B, s Set) {
		buffer := make([]byte, 0, step)
		b.SetBytes(step)
		for at := uint64(0); b.Loop(); at = (at + step) % s.BodyBytes() {
			buffer = s.AppendBody(buffer[:0], at, at+step)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("filter=sliced/layout=fast/fpr=0.01/size=1024MB", func(b *testing.B) {
		copied(b, slicedOf(b, geometry{"fast", 1e-2, 2, 4}, 1<<30))
	})
	b.Run("filter=classic/fpr=0.01/size=1024MB", func(b *testing.B) { copied(b, classicOf(b, 1<<30)) })
}
