package kafkaio

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamdedup/streamdedup/pipeline"
)

// largeBatch is a compressed record batch that takes too much memory at once. It is
// opened as a stream and handed out in pieces: each is a batch of its own, not
// compressed, with some of the records, so that the client's own code makes records of it.
type largeBatch struct {
	partition pipeline.Partition
	// head is the batch's own, up to its records. Aborted is whether its transaction was:
	// then nobody is to see them, and none is opened.
	head    []byte
	aborted bool
	records *bufio.Reader
	// first is the batch's first offset, lastDelta the distance to its last one, and
	// left how many records are still to be opened.
	first     int64
	lastDelta int32
	left      int32
	// largest is the longest record to make, in bytes. With skips a longer one is
	// passed over.
	largest int64
	skips   bool
}

// Where things are in a batch of Kafka's message format 2.
const (
	batchLengthAt     = 8
	batchMagicAt      = 16
	batchCRCAt        = 17
	batchAttributesAt = 21
	batchLastDeltaAt  = 23
	batchProducerAt   = 43
	batchCountAt      = 57

	// batchLengthFrom is what the length does not count: the offset and itself.
	batchLengthFrom = 12
	batchMagic      = 2
	batchCodec      = 0b111 // of the attributes, as the next
	batchInTxn      = 1 << 4
)

const (
	// pieceMemory is about what one piece takes, if it has more than one record.
	pieceMemory = 8 << 20
	// largestWindow is how far back zstd may refer: as far as Java's readers allow.
	largestWindow = 128 << 20
	// recordHead is enough of a record to know its length and offset.
	recordHead = 5 + 1 + 10 + 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openLarge opens the batch with that first offset out of what was fetched.
func openLarge(p pipeline.Partition, got *kmsg.FetchResponseTopicPartition, first int64) (*largeBatch, error) {
	for rest := got.RecordBatches; len(rest) > batchOverhead; {
		length := int64(binary.BigEndian.Uint32(rest[batchLengthAt:])) + batchLengthFrom
		if length > int64(len(rest)) {
			break
		}
		raw := rest[:length]
		rest = rest[length:]
		if int64(binary.BigEndian.Uint64(raw)) != first {
			continue
		}
		if magic := raw[batchMagicAt]; magic != batchMagic {
			return nil, fmt.Errorf("the batch at offset %d has format %d: only format %d can be opened in pieces", first, magic, batchMagic)
		}
		if crc32.Checksum(raw[batchAttributesAt:], castagnoli) != binary.BigEndian.Uint32(raw[batchCRCAt:]) {
			return nil, fmt.Errorf("the batch at offset %d is damaged: its checksum is another", first)
		}
		codec := kgo.CompressionCodecType(raw[batchAttributesAt+1] & batchCodec)
		records, err := openStream(codec, raw[batchOverhead:])
		if err != nil {
			return nil, fmt.Errorf("open the batch at offset %d: %w", first, err)
		}
		return &largeBatch{
			partition: p, head: raw[:batchOverhead], aborted: isAborted(raw, got.AbortedTransactions),
			records: bufio.NewReaderSize(records, 64<<10), first: first,
			lastDelta: int32(binary.BigEndian.Uint32(raw[batchLastDeltaAt:])),
			left:      int32(binary.BigEndian.Uint32(raw[batchCountAt:])),
			largest:   longestRecord,
		}, nil
	}
	return nil, fmt.Errorf("the batch at offset %d is not in what the broker sent", first)
}

// isAborted is whether a batch is of one of these transactions, by their producers and
// first offsets. None of them ended before it in what was fetched: the client's code makes
// a record of each end, and says that a batch is too large only where it has made none.
func isAborted(raw []byte, txns []kmsg.FetchResponseTopicPartitionAbortedTransaction) bool {
	if raw[batchAttributesAt+1]&batchInTxn == 0 {
		return false
	}
	first, producer := int64(binary.BigEndian.Uint64(raw)), int64(binary.BigEndian.Uint64(raw[batchProducerAt:]))
	return slices.ContainsFunc(txns, func(t kmsg.FetchResponseTopicPartitionAbortedTransaction) bool {
		return t.ProducerID == producer && t.FirstOffset <= first
	})
}

// openStream opens what a codec has compressed, with as much memory as it refers back.
func openStream(codec kgo.CompressionCodecType, closed []byte) (io.Reader, error) {
	from := bytes.NewReader(closed)
	switch codec {
	case kgo.CodecGzip:
		return gzip.NewReader(from)
	case kgo.CodecLz4:
		return lz4.NewReader(from), nil
	case kgo.CodecZstd:
		return zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(largestWindow))
	case kgo.CodecSnappy:
		if rest, framed := bytes.CutPrefix(closed, snappyMagic); framed && len(rest) >= snappyVersions {
			return &snappyBlocks{closed: rest[snappyVersions:]}, nil
		}
		block, err := openBlock(closed)
		return bytes.NewReader(block), err
	}
	return nil, fmt.Errorf("compression %d is none that Kafka has", codec)
}

// Java writes snappy as blocks behind each other, each after its length.
var snappyMagic = []byte("\x82SNAPPY\x00")

const snappyVersions = 8 // the length of two numbers after the magic

// snappyBlocks opens one block after the other.
type snappyBlocks struct{ closed, opened []byte }

// Read implements io.Reader.
func (s *snappyBlocks) Read(into []byte) (int, error) {
	for len(s.opened) == 0 {
		if len(s.closed) == 0 {
			return 0, io.EOF
		}
		if len(s.closed) < 4 {
			return 0, io.ErrUnexpectedEOF
		}
		length := binary.BigEndian.Uint32(s.closed)
		s.closed = s.closed[4:]
		if int64(length) > int64(len(s.closed)) {
			return 0, io.ErrUnexpectedEOF
		}
		var err error
		if s.opened, err = openBlock(s.closed[:length]); err != nil {
			return 0, err
		}
		s.closed = s.closed[length:]
	}
	n := copy(into, s.opened)
	s.opened = s.opened[n:]
	return n, nil
}

// openBlock opens a block of snappy, which cannot be done in pieces.
func openBlock(closed []byte) ([]byte, error) {
	length, err := s2.DecodedLen(closed)
	if err == nil && length > longestRecord {
		err = fmt.Errorf("a block of snappy opens to %d bytes, at most %d are opened at once", length, longestRecord)
	}
	if err != nil {
		return nil, err
	}
	return s2.Decode(nil, closed)
}

// done is whether all records are handed out.
func (b *largeBatch) done() bool { return b.left == 0 }

// piece gives the next records, from an offset on, and the offset after them. It may give
// none: those of aborted transactions nobody sees.
func (b *largeBatch) piece(next int64) ([]*kgo.Record, int64, error) {
	if b.aborted {
		b.left = 0
	}
	raw := bytes.Clone(b.head)
	count, delta := int32(0), int32(max(next-b.first, 0))-1
	for b.left > 0 && int64(len(raw))+recordMemory*int64(count) < pieceMemory {
		length, at, err := b.peek()
		if err != nil {
			return nil, 0, err
		}
		offset := b.first + int64(at)
		seen, long := offset < next, length > b.largest
		if long && !seen && !b.skips {
			if count > 0 {
				break // those before it first
			}
			return nil, 0, b.tooLong(offset, length)
		}
		if count > 0 && int64(len(raw))+length > pieceMemory {
			break
		}
		if seen || long {
			_, err = io.CopyN(io.Discard, b.records, length)
		} else {
			raw, err = b.take(raw, length)
			count++
		}
		if err != nil {
			return nil, 0, b.cutOff(err)
		}
		b.left--
		delta = max(delta, at)
	}
	if b.left == 0 {
		delta = b.lastDelta // compaction may have taken the last records
	}
	after := max(next, b.first+int64(delta)+1)
	if count == 0 {
		return nil, after, nil
	}
	records, err := b.parse(raw, count, delta, next)
	return records, after, err
}

// peek looks at the next record: how many bytes it has, its length in front included,
// and how far its offset is from the first.
func (b *largeBatch) peek() (length int64, delta int32, err error) {
	head, err := b.records.Peek(recordHead)
	if len(head) == 0 {
		return 0, 0, b.cutOff(err)
	}
	n, used := kbin.Varint(head)
	rest := kbin.Reader{Src: head[max(used, 0):]}
	rest.Int8() // attributes, which are none
	rest.Varlong()
	delta = rest.Varint()
	if used <= 0 || n < 0 || !rest.Ok() {
		return 0, 0, fmt.Errorf("%d records before the end of the batch at offset %d of %s one has no form", b.left, b.first, b.partition)
	}
	return int64(used) + int64(n), delta, nil
}

// take appends a whole record.
func (b *largeBatch) take(to []byte, length int64) ([]byte, error) {
	from := len(to)
	if need := from + int(length); need > cap(to) {
		to = append(make([]byte, 0, max(need, min(2*cap(to), pieceMemory))), to...)
	}
	to = to[:from+int(length)]
	_, err := io.ReadFull(b.records, to[from:])
	return to, err
}

// parse makes records of a piece.
func (b *largeBatch) parse(raw []byte, count, lastDelta int32, next int64) ([]*kgo.Record, error) {
	binary.BigEndian.PutUint32(raw[batchLengthAt:], uint32(len(raw)-batchLengthFrom))
	raw[batchAttributesAt+1] &^= batchCodec
	binary.BigEndian.PutUint32(raw[batchLastDeltaAt:], uint32(lastDelta))
	binary.BigEndian.PutUint32(raw[batchCountAt:], uint32(count))
	as := readAs(b.partition, next)
	as.DisableCRCValidation = true // that of the whole was right
	fetched, reached := kgo.ProcessFetchPartition(as, &kmsg.FetchResponseTopicPartition{
		Partition: b.partition.Number, RecordBatches: raw}, nil, nil)
	if after := b.first + int64(lastDelta) + 1; fetched.Err == nil && reached != after {
		fetched.Err = fmt.Errorf("a record has no form, after offset %d", reached-1)
	}
	if fetched.Err != nil {
		return nil, fmt.Errorf("the batch at offset %d of %s: %w", b.first, b.partition, fetched.Err)
	}
	return fetched.Records, nil
}

// cutOff is the error of a batch that ends before its last record, or cannot be opened.
func (b *largeBatch) cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("open the batch at offset %d of %s, %d records before its end: %w", b.first, b.partition, b.left, err)
}

// tooLong is the error of a record for which there is no memory.
func (b *largeBatch) tooLong(offset, length int64) error {
	return hinted(fmt.Sprintf("a max.message.bytes of the output above it lets it be read; to go on without it, stop the group and move it past the record: "+
		"`kafka-consumer-groups.sh --reset-offsets --topic %s:%d --to-offset %d`", b.partition.Topic, b.partition.Number, offset+1),
		"the record at offset %d of %s opens to %d bytes, and at most %d are read at once", offset, b.partition, length, b.largest)
}
