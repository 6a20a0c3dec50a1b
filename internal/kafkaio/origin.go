package kafkaio

import (
	"encoding/binary"
	"math/bits"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
)

// Between the stages of a scope of the topic a record has one header more, behind
// its own: where it came from. Its value is the version, then partition and offset
// as varints. It never reaches the output.
const (
	headerSource  = "streamdedup-source"
	OriginVersion = 1
	// originRoom is more than the header takes, with what it adds to lengths.
	originRoom = 64
)

// origin is where a record was in the input.
type origin struct {
	partition int32
	offset    int64
}

// origins makes the headers of one batch, in two pieces of memory.
type origins struct {
	partition uint64
	headers   []kgo.RecordHeader
	values    []byte
}

func newOrigins(partition int32, records []*kgo.Record) origins {
	headers, values := 0, 0
	for _, r := range records {
		headers += len(r.Headers) + 1
		values += originLength(partition, r.Offset)
	}
	return origins{uint64(partition), make([]kgo.RecordHeader, 0, headers), make([]byte, 0, values)}
}

func originLength(partition int32, offset int64) int {
	return 1 + uvarintLength(uint64(partition)) + uvarintLength(uint64(offset))
}

func uvarintLength(n uint64) int { return (bits.Len64(n|1) + 6) / 7 }

// add gives a record's headers with the origin behind them.
func (o *origins) add(to []kgo.RecordHeader, offset int64) []kgo.RecordHeader {
	from := len(o.values)
	o.values = append(o.values, OriginVersion)
	o.values = binary.AppendUvarint(o.values, o.partition)
	o.values = binary.AppendUvarint(o.values, uint64(offset))
	n := len(o.headers)
	o.headers = append(o.headers, to...)
	o.headers = append(o.headers, kgo.RecordHeader{Key: headerSource, Value: o.values[from:len(o.values):len(o.values)]})
	return o.headers[n:len(o.headers):len(o.headers)]
}

// unroute takes the origin off each record, markers aside, and keeps it: what the
// input's producer sent is all that is left. partitions is how many the output has.
func (src *source) unroute(records []*kgo.Record, partitions int32) error {
	src.origins = src.origins[:0]
	for _, r := range records {
		if r.Attrs.IsControl() {
			continue
		}
		last := len(r.Headers) - 1
		if last < 0 || r.Headers[last].Key != headerSource {
			return noOrigin(r)
		}
		o, ok := parseOrigin(r.Headers[last].Value)
		if !ok {
			return noOrigin(r)
		}
		if o.partition >= partitions {
			return hinted("add partitions to the output, then start again",
				"offset %d came from input partition %d, and the output has only %d partitions", r.Offset, o.partition, partitions)
		}
		r.Headers = r.Headers[:last]
		src.origins = append(src.origins, o)
	}
	return nil
}

func parseOrigin(b []byte) (o origin, ok bool) {
	if len(b) == 0 || b[0] != OriginVersion {
		return o, false
	}
	b = b[1:]
	partition, n := binary.Uvarint(b)
	if n <= 0 || partition > 1<<31-1 {
		return o, false
	}
	offset, m := binary.Uvarint(b[n:])
	if m <= 0 || n+m != len(b) || offset > 1<<63-1 {
		return o, false
	}
	return origin{int32(partition), int64(offset)}, true
}

// noOrigin is the error of a record between the stages that is not one of ours.
func noOrigin(r *kgo.Record) error {
	return hinted("nothing but streamdedup may write to its repartition topic: begin anew under another --group",
		"the record at offset %d of repartition topic %q does not say where it came from", r.Offset, r.Topic)
}

// whence is where record i of b was in the input.
func (s *Session) whence(src *source, b *pipeline.Batch, i int) (pipeline.Partition, int64) {
	if s.cfg.source == "" {
		return b.Partition, b.Offsets[i]
	}
	o := src.origins[i]
	return pipeline.Partition{Topic: s.cfg.source, Number: o.partition}, o.offset
}
