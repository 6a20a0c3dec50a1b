package kafkaio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

var allCodecs = []kgo.CompressionCodecType{kgo.CodecGzip, kgo.CodecSnappy, kgo.CodecLz4, kgo.CodecZstd}

var largePartition = pipeline.Partition{Topic: "in", Number: 3}

// fetchedBatch is what a broker answers with a batch in it.
func fetchedBatch(b kafkatest.Batch) *kmsg.FetchResponseTopicPartition {
	return &kmsg.FetchResponseTopicPartition{Partition: largePartition.Number, RecordBatches: b.Bytes()}
}

// pieces opens a batch from an offset on, to its end.
func pieces(t *testing.T, got *kmsg.FetchResponseTopicPartition, from int64, how func(*largeBatch)) (records []*kgo.Record, next int64, n int, err error) {
	t.Helper()
	b, err := openLarge(largePartition, got, 0)
	if err != nil {
		return nil, from, 0, err
	}
	how(b)
	for next = from; !b.done(); n++ {
		piece, after, err := b.piece(next)
		if err != nil {
			return records, next, n, err
		}
		if after < next {
			t.Fatalf("a piece from offset %d ends at %d", next, after)
		}
		records, next = append(records, piece...), after
	}
	return records, next, n, nil
}

// In pieces a batch has the records that the client makes of it, from any offset on, with
// the gaps of compaction and without what was aborted.
func TestLargeBatchIsWhatTheClientReads(t *testing.T) {
	t.Parallel()
	const records = 30_000
	value := kafkatest.Values(func(i int) []byte {
		return fmt.Appendf(nil, "%d %s", i, strings.Repeat("some text ", 10+i%70))
	})
	for _, codec := range allCodecs {
		for _, step := range []int32{1, 3} {
			t.Run(fmt.Sprintf("codec %d step %d", codec, step), func(t *testing.T) {
				got := fetchedBatch(kafkatest.Batch{Codec: codec, Records: records, Value: value, Step: step,
					Transaction: &kafkatest.Transaction{Producer: 7}})
				last := int64(records-1) * int64(step)
				for _, from := range []int64{0, 1, 4000, last, last + 1} {
					for _, aborted := range []bool{false, true} {
						got.AbortedTransactions = nil
						if aborted {
							got.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 7}}
						}
						want, _ := kgo.ProcessFetchPartition(readAs(largePartition, from), got, kgo.DefaultDecompressor(), nil)
						if want.Err != nil {
							t.Fatal(want.Err)
						}
						have, next, n, err := pieces(t, got, from, func(*largeBatch) {})
						if err != nil {
							t.Fatal(err)
						}
						if next != last+1 || from == 0 && !aborted && n < 2 {
							t.Errorf("from %d: %d pieces up to offset %d, want some up to %d", from, n, next, last+1)
						}
						sameRecords(t, have, want.Records)
					}
				}
			})
		}
	}
}

func sameRecords(t *testing.T, got, want []*kgo.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i, r := range got {
		w := want[i]
		attributes := r.Attrs.IsControl() != w.Attrs.IsControl() || r.Attrs.IsTransactional() != w.Attrs.IsTransactional()
		if r.Offset != w.Offset || !bytes.Equal(r.Value, w.Value) || r.Key != nil || !r.Timestamp.Equal(w.Timestamp) ||
			r.LeaderEpoch != w.LeaderEpoch || r.Topic != w.Topic || r.Partition != w.Partition || attributes {
			t.Fatalf("record %d is %+v, want %+v", i, r, w)
		}
	}
}

// A record for which there is no memory is an error that says where it is, after those
// before it; whoever was told to, or is behind it, passes over it.
func TestLargeBatchWithARecordThatIsTooLong(t *testing.T) {
	const long, at = longestRecord + 1000, 2
	got := fetchedBatch(kafkatest.Batch{Codec: kgo.CodecZstd, Records: 4, Transaction: &kafkatest.Transaction{Producer: 7},
		Value: func(i int) (int, func(io.Writer)) {
			if i == at {
				return kafkatest.Zeros(long)
			}
			return kafkatest.Zeros(10)
		}})
	as := func(largest int64, skips bool) func(*largeBatch) {
		return func(b *largeBatch) { b.largest, b.skips = largest, skips }
	}
	offsets := func(records []*kgo.Record) (all []int64) {
		for _, r := range records {
			all = append(all, r.Offset)
		}
		return all
	}
	for _, c := range []struct {
		name  string
		from  int64
		how   func(*largeBatch)
		want  string
		fails bool
	}{
		{"stops before it", 0, as(longestRecord, false), "[0 1]", true},
		{"passes over it", 0, as(longestRecord, true), "[0 1 3]", false},
		{"begins behind it", at + 1, as(longestRecord, false), "[3]", false},
		{"has room for it", 0, as(2*longestRecord, false), "[0 1 2 3]", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			records, _, _, err := pieces(t, got, c.from, c.how)
			if text := fmt.Sprint(offsets(records)); text != c.want || (err != nil) != c.fails {
				t.Errorf("records at %s and error %v, want %s and an error: %v", text, err, c.want, c.fails)
			}
			if !c.fails {
				return
			}
			var hint *Error
			if !errors.As(err, &hint) || !strings.Contains(err.Error(), "the record at offset 2 of in/3 opens to") ||
				!strings.Contains(hint.Hint(), "--topic in:3 --to-offset 3") {
				t.Errorf("error %v", err)
			}
		})
	}
	t.Run("aborted", func(t *testing.T) { // nobody is to see it
		got.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 7}}
		records, next, _, err := pieces(t, got, 0, as(longestRecord, false))
		if len(records) != 0 || next != 4 || err != nil {
			t.Errorf("%d records up to offset %d, error %v; want none, up to 4", len(records), next, err)
		}
	})
}

// What is damaged is an error that says where, and no panic or skipped record.
func TestLargeBatchThatIsDamaged(t *testing.T) {
	whole := kafkatest.Batch{Codec: kgo.CodecZstd, Records: 1000, Value: func(int) (int, func(io.Writer)) { return kafkatest.Zeros(50) }}
	for _, c := range []struct {
		name   string
		damage func() []byte
		want   string
	}{
		{"checksum", func() []byte {
			raw := whole.Bytes()
			raw[len(raw)-1] ^= 1
			return raw
		}, "checksum"},
		{"old format", func() []byte {
			raw := whole.Bytes()
			raw[batchMagicAt] = 1
			return raw
		}, "format 1"},
		{"fewer records", func() []byte {
			short := whole
			short.Claims = 2000
			return short.Bytes()
		}, "1000 records before its end"},
		{"not compressed as it says", func() []byte {
			other := whole
			other.Codec = kgo.CodecNone
			other.ClaimsCodec = kgo.CodecGzip
			return other.Bytes()
		}, "gzip"},
		{"cut off", func() []byte { return whole.Bytes()[:100] }, "not in what the broker sent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := &kmsg.FetchResponseTopicPartition{RecordBatches: c.damage()}
			if _, _, _, err := pieces(t, got, 0, func(*largeBatch) {}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// What is opened is counted, with what its records will take, until it is polled.
func TestOpener(t *testing.T) {
	t.Parallel()
	closed := func(records int, value func(int) (int, func(io.Writer))) []byte {
		b := kafkatest.Batch{Codec: kgo.CodecZstd, Records: records, Value: value}
		return b.Bytes()[batchOverhead:]
	}
	refusal := errors.New("refused")
	o := newOpener(openMemory, refusal)
	tens := func(int) (int, func(io.Writer)) { return kafkatest.Zeros(10) }
	for name, large := range map[string][]byte{
		"one record":   closed(1, func(int) (int, func(io.Writer)) { return kafkatest.Zeros(largestBatch) }),
		"many records": closed(largestBatch/recordMemory, tens),
	} {
		if _, err := o.Decompress(large, kgo.CodecZstd); !errors.Is(err, refusal) {
			t.Errorf("%s: error %v, want a refusal", name, err)
		}
	}
	quarter := closed(largestBatch/recordMemory/4, tens)
	var err error
	opened := 0
	for ; err == nil && opened < 100; opened++ {
		_, err = o.Decompress(quarter, kgo.CodecZstd)
	}
	if opened-1 != 4*openMemory/largestBatch || !errors.Is(err, errOpenMemory) {
		t.Errorf("%d batches were opened, then %v", opened-1, err)
	}
	o.release()
	if _, err := o.Decompress(quarter, kgo.CodecZstd); err != nil {
		t.Errorf("after a poll: %v", err)
	}
	if takes := unsafe.Sizeof(kgo.Record{}) + unsafe.Sizeof(pipeline.Record{}) + unsafe.Sizeof(pipeline.Outcome{}) + 4*8; takes > recordMemory {
		t.Errorf("a record takes %d bytes, we count %d", takes, recordMemory)
	}
	for brokers, want := range map[int]int32{0: 8 << 20, 1: 8 << 20, 4: 8 << 20, 8: 4 << 20, 1000: 1 << 20} {
		if got := fetchLimit(brokers); got != want {
			t.Errorf("%d brokers may answer with %d bytes each, want %d", brokers, got, want)
		}
	}
}
