package kafkaio

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
)

// source is what belongs to a batch on this side: the records behind its views,
// and memory that is used again.
type source struct {
	batch   pipeline.Batch
	records []*kgo.Record // those of the batch, markers left out
	headers []pipeline.Header
	large   []bool
	origins []origin // of the records of a routed batch
	copies  []copied // of tagged duplicates
	// end is the position after the batch.
	end mark
}

// batches keeps the memory of batches that are done with. It has one owner.
type batches struct {
	free []*source
	// out are delivered; the engine may read them until the cycle has ended.
	out []*source
}

// copied is a record that goes to the topic for duplicates, beside the one that it is
// a copy of.
type copied struct {
	record *kgo.Record
	of     int
}

// find is where a record that was delivered in the open cycle came from, and whether
// it goes to the topic for duplicates beside that one.
func (b *batches) find(r *kgo.Record) (batch *pipeline.Batch, i int, beside bool) {
	for _, src := range b.out {
		if i := slices.Index(src.records, r); i >= 0 {
			return &src.batch, i, false
		}
		if i := slices.IndexFunc(src.copies, func(c copied) bool { return c.record == r }); i >= 0 {
			return &src.batch, src.copies[i].of, true
		}
	}
	panic("BUG: a record failed that was not delivered in this cycle")
}

// maxFree bounds what is kept for later.
const maxFree = 256

func (b *batches) take() *source {
	if n := len(b.free); n > 0 {
		src := b.free[n-1]
		b.free = b.free[:n-1]
		return src
	}
	return &source{}
}

// recycle takes back what was delivered in cycles that have ended.
func (b *batches) recycle() {
	for _, src := range b.out {
		if len(b.free) == maxFree {
			break
		}
		clear(src.records)
		clear(src.batch.Records)
		clear(src.headers)
		clear(src.copies)
		b.free = append(b.free, src)
	}
	clear(b.out)
	b.out = b.out[:0]
}

// views makes a batch of records, which are of one partition, in order, and with
// markers among them. Neither keys nor values are copied.
func (src *source) views(records []*kgo.Record, headers bool, out *output) *pipeline.Batch {
	b, n := &src.batch, len(records)
	*b = pipeline.Batch{
		Records:  slices.Grow(b.Records[:0], n),
		Offsets:  slices.Grow(b.Offsets[:0], n),
		Outcomes: slices.Grow(b.Outcomes[:0], n),
		Source:   src,

		SizeLimit: int64(out.maxBytes) - out.room,
	}
	src.records = slices.Grow(src.records[:0], n)
	src.headers = src.headers[:0]
	src.copies = src.copies[:0]
	large := false
	src.large = slices.Grow(src.large[:0], n)
	for _, r := range records {
		if r.Attrs.IsControl() {
			continue
		}
		view := pipeline.Record{Key: r.Key, Value: r.Value, Time: r.Timestamp.UnixMilli()}
		if headers {
			view.Headers = src.view(r.Headers)
		}
		b.Records = append(b.Records, view)
		b.Offsets = append(b.Offsets, r.Offset)
		src.records = append(src.records, r)
		b.Memory += recordMemory + int64(len(r.Key)+len(r.Value))
		src.large = append(src.large, out.tooLarge(r))
		large = large || src.large[len(src.large)-1]
	}
	if large {
		b.Oversize = src.large
	}
	return b
}

func (src *source) view(headers []kgo.RecordHeader) []pipeline.Header {
	if len(headers) == 0 {
		return nil
	}
	src.headers = slices.Grow(src.headers, len(headers))
	from := len(src.headers)
	for _, h := range headers {
		src.headers = append(src.headers, pipeline.Header{Name: h.Key, Value: h.Value})
	}
	return src.headers[from:len(src.headers):len(src.headers)]
}
