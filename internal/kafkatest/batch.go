package kafkatest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Batch is one record batch as no client of ours would write it: opened it may be far
// larger than memory, since it is compressed as it is made.
type Batch struct {
	Codec kgo.CompressionCodecType
	// Records is how many there are, and Value gives the value of each: its length, and
	// who writes that many bytes.
	Records int
	Value   func(i int) (length int, write func(io.Writer))
	// Age is how long ago the records are, all of them.
	Age time.Duration
	// Step is from one offset to the next, as compaction leaves them; zero is one.
	Step int32
	// Claims is how many records the batch says it has, and ClaimsCodec how they are
	// compressed, where they are not zero: a damaged batch.
	Claims      int
	ClaimsCodec kgo.CompressionCodecType
	// Transaction is the one that the batch is part of, if any.
	Transaction *Transaction
}

// Transaction is what a producer with an open one is to the brokers.
type Transaction struct {
	ID       string
	Producer int64
	Epoch    int16
	// Sequence counts the producer's records in the partition.
	Sequence int32
}

// Values are those of a batch whose records are few, or all alike.
func Values(value func(i int) []byte) func(i int) (int, func(io.Writer)) {
	return func(i int) (int, func(io.Writer)) {
		v := value(i)
		return len(v), func(w io.Writer) { _, _ = w.Write(v) } // into memory
	}
}

// Zeros are n bytes of a value that compresses a thousandfold.
func Zeros(n int) (int, func(io.Writer)) {
	return n, func(w io.Writer) {
		piece := make([]byte, 1<<16)
		for left := n; left > 0; left -= len(piece) {
			_, _ = w.Write(piece[:min(left, len(piece))])
		}
	}
}

// WriteBatch writes a batch to a partition. It returns the offset of the first record,
// and how many bytes it has.
func WriteBatch(t testing.TB, brokers []string, topic string, partition int32, b Batch) (offset int64, size int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatalf("make a client for %v: %v", brokers, err)
	}
	defer client.Close()
	framed := b.Bytes() // of half a gigabyte this takes a while
	ctx, cancel := context.WithTimeout(t.Context(), 2*adminLimit)
	defer cancel()
	meta, err := kadm.NewClient(client).Metadata(ctx, topic)
	if err != nil {
		t.Fatalf("look for topic %s: %v", topic, err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, int32(adminLimit/time.Millisecond)
	if b.Transaction != nil {
		req.TransactionID = &b.Transaction.ID
	}
	in := kmsg.NewProduceRequestTopic()
	in.Topic, in.TopicID = topic, meta.Topics[topic].ID
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = partition, framed
	in.Partitions = append(in.Partitions, part)
	req.Topics = append(req.Topics, in)
	leader := client.Broker(int(meta.Topics[topic].Partitions[partition].Leader))
	resp, err := req.RequestWith(ctx, leader)
	if err != nil {
		t.Fatalf("write a batch to %s/%d: %v", topic, partition, err)
	}
	got := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		t.Fatalf("write a batch to %s/%d: %v", topic, partition, err)
	}
	return got.BaseOffset, len(framed)
}

// Bytes are the batch as it is written, from offset zero on.
func (b Batch) Bytes() []byte { return b.framed(b.compressed()) }

func (b Batch) delta(i int) int32 { return int32(i) * max(b.Step, 1) }

// compressed are the records.
func (b Batch) compressed() []byte {
	var into bytes.Buffer
	w := compressor(b.Codec, &into)
	var head []byte
	for i := range b.Records {
		length, write := b.Value(i)
		// Attributes, the difference of time, of offset, no key, the value, no headers.
		head = append(head[:0], 0, 0)
		head = kbin.AppendVarint(head, b.delta(i))
		head = kbin.AppendVarint(head, -1)
		head = kbin.AppendVarint(head, int32(length))
		_, _ = w.Write(kbin.AppendVarint(nil, int32(len(head)+length+1))) // into memory, here and below
		_, _ = w.Write(head)
		write(w)
		_, _ = w.Write([]byte{0})
	}
	_ = w.Close()
	return into.Bytes()
}

// framed is the batch around its records.
func (b Batch) framed(records []byte) []byte {
	at := time.Now().Add(-b.Age).UnixMilli()
	if b.Claims == 0 {
		b.Claims = b.Records
	}
	batch := kmsg.RecordBatch{
		Length: int32(49 + len(records)), PartitionLeaderEpoch: -1, Magic: 2, Attributes: int16(max(b.Codec, b.ClaimsCodec)),
		LastOffsetDelta: b.delta(b.Records - 1), FirstTimestamp: at, MaxTimestamp: at,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(b.Claims), Records: records,
	}
	if t := b.Transaction; t != nil {
		batch.Attributes |= 1 << 4
		batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence = t.Producer, t.Epoch, t.Sequence
	}
	framed := batch.AppendTo(nil)
	const crcAt, attributesAt = 17, 21
	binary.BigEndian.PutUint32(framed[crcAt:], crc32.Checksum(framed[attributesAt:], crc32.MakeTable(crc32.Castagnoli)))
	return framed
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func compressor(codec kgo.CompressionCodecType, into *bytes.Buffer) io.WriteCloser {
	switch codec {
	case kgo.CodecGzip:
		return gzip.NewWriter(into)
	case kgo.CodecSnappy:
		// As Java frames it: magic, two versions, then blocks with their lengths.
		into.WriteString("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
		return &snappyBlocks{into: into}
	case kgo.CodecLz4:
		return lz4.NewWriter(into)
	case kgo.CodecZstd:
		w, err := zstd.NewWriter(into, zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err) // an option of ours is wrong
		}
		return w
	}
	return nopCloser{into}
}

// snappyBlocks writes blocks of 32 KiB, as Java does.
type snappyBlocks struct {
	into    *bytes.Buffer
	pending []byte
}

func (s *snappyBlocks) Write(p []byte) (int, error) {
	s.pending = append(s.pending, p...)
	for len(s.pending) >= 32<<10 {
		s.block(s.pending[:32<<10])
		s.pending = append(s.pending[:0], s.pending[32<<10:]...)
	}
	return len(p), nil
}

func (s *snappyBlocks) Close() error {
	if len(s.pending) > 0 {
		s.block(s.pending)
	}
	return nil
}

func (s *snappyBlocks) block(plain []byte) {
	block := s2.EncodeSnappy(nil, plain)
	s.into.Write(binary.BigEndian.AppendUint32(nil, uint32(len(block))))
	s.into.Write(block)
}
