package kafkaio

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What was read may take so much memory, whatever it was compressed to. A few bytes can
// open to any number, so what is opened is counted, and not what is fetched:
//
//	32 MiB   in answers of all brokers together, as they came
//	128 MiB  opened since the last poll, and one batch more
//	128 MiB  in the batches of a cycle (pipeline), and what the last poll brought
//
// Half a GiB is enough for one stage, and the tests hold it to that; what an output with
// a large max.message.bytes has not acknowledged comes in addition.
const (
	// fetchMemory is for the answers of all brokers, of which each may be at most
	// largestFetch: more is no faster.
	fetchMemory, largestFetch, smallestFetch = 32 << 20, 8 << 20, 1 << 20
	// openMemory is for what the client has opened and nobody has polled, and
	// readMemory for what a reader opens at once; some restores read at a time.
	openMemory, readMemory = 128 << 20, 16 << 20
	// largestBatch is what one batch may take opened. One that takes more is read piece
	// by piece, with records of up to longestRecord.
	largestBatch, longestRecord = 32 << 20, 64 << 20
	// recordMemory is what a record takes besides its own bytes: the client's record,
	// our view of it and its outcome.
	recordMemory = 320
)

// fetchLimit is the most that one of so many brokers may answer with. A batch that is
// larger comes all the same, alone.
func fetchLimit(brokers int) int32 {
	return int32(min(max(fetchMemory/max(brokers, 1), smallestFetch), largestFetch))
}

var (
	// errOpenMemory says that a batch was left closed until others are polled.
	errOpenMemory = errors.New("enough is opened and not polled")
	// errTooLarge is of a batch that must be opened in pieces. It is not the client's own
	// error, after which that would stand still for good, also where it had thrown the
	// error away with all that it had read.
	errTooLarge = errors.New("a batch takes too much memory at once")
)

// opener opens the batches of one client, or reader. It refuses any with errOpenMemory
// when those since the last release take all that they may. It is safe for concurrent use.
type opener struct {
	inner kgo.Decompressor
	most  int64
	taken atomic.Int64
	// refusal is the error of a batch that takes more than largestBatch.
	refusal error
}

// clientsOwn is the client's own decompressor with our limit. Only a client gives one
// away, and nothing else is wanted of it.
var clientsOwn = sync.OnceValue(func() kgo.Decompressor {
	client, err := kgo.NewClient(kgo.MaxDecompressBatchBytes(largestBatch))
	if err != nil {
		panic(fmt.Sprintf("BUG: make a client for its decompressor: %v", err))
	}
	defer client.Close()
	return client.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
})

func newOpener(most int64, refusal error) *opener {
	return &opener{inner: clientsOwn(), most: most, refusal: refusal}
}

// Decompress implements kgo.Decompressor.
func (o *opener) Decompress(closed []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if o.taken.Load() >= o.most {
		return nil, errOpenMemory
	}
	opened, err := o.inner.Decompress(closed, codec)
	takes := int64(len(opened)) + recordMemory*countRecords(opened)
	if errors.Is(err, kgo.ErrMaxDecompress) || takes > largestBatch {
		return nil, o.refusal
	}
	if err != nil {
		return nil, err
	}
	o.taken.Add(takes)
	return opened, nil
}

// release says that what was opened is polled.
func (o *opener) release() { o.taken.Store(0) }

// countRecords counts records by their lengths, before anything is made of them.
func countRecords(opened []byte) (n int64) {
	for len(opened) > 0 {
		length, used := kbin.Varint(opened)
		if used <= 0 || length < 0 || int64(length) > int64(len(opened)-used) {
			return n // whoever reads them says what is wrong
		}
		opened = opened[used+int(length):]
		n++
	}
	return n
}
