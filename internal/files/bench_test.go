package files

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/internal/workload"
	"github.com/streamdedup/streamdedup/pipeline"
)

// BenchmarkFilter has clicks of 230 bytes, a tenth of them duplicates, in memory.
func BenchmarkFilter(b *testing.B) {
	const records = 500_000
	g, err := workload.New(workload.Config{
		Kind: workload.Clicks, Seed: 1, Events: records * 9 / 10, Copies: records / 10, Partitions: 1,
		Start: time.Unix(1_700_000_000, 0), Span: time.Hour, Window: 24 * time.Hour,
	})
	if err != nil {
		b.Fatal(err)
	}
	var in bytes.Buffer
	for r, more := g.Next(); more; r, more = g.Next() {
		in.Write(r.Value)
		in.WriteByte('\n')
	}
	for _, key := range []string{"json:event_id", "value"} {
		b.Run("key="+key, func(b *testing.B) {
			r := rules(b, records, func(c *pipeline.Config) { c.Keys = []string{key} })
			b.SetBytes(int64(in.Len()))
			for b.Loop() {
				if _, err := run(b.Context(), b, Config{Stdin: bytes.NewReader(in.Bytes())}, io.Discard, r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
