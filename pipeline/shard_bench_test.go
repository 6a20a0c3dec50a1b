package pipeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// BenchmarkShard judges batches of 1,024 records, a tenth of them copies, by a filter
// that no cache holds. A cycle is 64 batches long.
func BenchmarkShard(b *testing.B) {
	for _, spec := range []string{"key", "json:event_id"} {
		b.Run(spec, func(b *testing.B) {
			cfg := rules()
			cfg.Keys = []string{spec}
			cfg.Window.Span, cfg.Window.GenerationCapacity = 7*time.Second, 1<<20
			cfg.NewSet = func() (filter.Set, error) {
				return filter.NewSliced(filter.Params{Lines: 1 << 19, LinesPerKey: 2, CellsPerLine: 5})
			}
			s, err := NewShard(cfg, p0, false)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			batch := batchOf(0)
			for range 1024 {
				batch.Records = append(batch.Records, Record{})
				batch.Offsets = append(batch.Offsets, 0)
			}
			b.ReportAllocs()
			for n := 0; n < b.N; n += len(batch.Records) {
				b.StopTimer()
				batch.First, batch.Next = batch.Next, batch.Next+1024
				for i := range batch.Records {
					id := batch.First + int64(i)
					if i%10 == 9 {
						id -= 9
					}
					key := fmt.Appendf(nil, "%032x", uint64(id)*0x9e3779b97f4a7c15)
					batch.Records[i] = Record{Key: key, Time: epoch0 + batch.First/1000,
						Value: fmt.Appendf(nil, `{"user":"u-%d","event_id":%q,"page":"/products/17/reviews","referrer":"https://www.example.com/search?q=a"}`, id%1000, key)}
					batch.Offsets[i] = batch.First + int64(i)
				}
				b.StartTimer()
				s.Process(batch)
				if batch.Next%(64*1024) == 0 {
					s.Seal()
					s.Commit()
				}
			}
		})
	}
}
