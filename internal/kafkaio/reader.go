package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamdedup/streamdedup/pipeline"
)

// reader reads committed records of one partition outside of the group. It knows
// its position exactly, also past records that nobody sees: aborted ones and
// those that compaction took. It has one owner.
type reader struct {
	client    *kgo.Client
	topicID   kadm.TopicID
	partition pipeline.Partition
	// next is the offset to read; after a read, all before it is known.
	next int64
	// start and stable are the ends of what can be read: the log's first offset and
	// its last stable one. They are known after the first read.
	start, stable int64
	// bytes is how much to ask for. It grows while nothing comes.
	bytes int32

	// largest is the longest record to make out of a batch that takes more than
	// largestBatch. With skips a longer one is passed over, and else an error.
	largest int64
	skips   bool

	leader *kgo.Broker
	opener *opener
	large  *largeBatch // that is being read, nil where none is
}

func newReader(client *kgo.Client, topicID kadm.TopicID, p pipeline.Partition, from int64) *reader {
	return &reader{client: client, topicID: topicID, partition: p, next: from, bytes: readMaxBytes,
		largest: longestRecord, opener: newOpener(readMemory, kgo.ErrMaxDecompress)}
}

const (
	readWait     = 200 * time.Millisecond
	readMaxBytes = 8 << 20
	// peekBytes is enough for one record; a broker sends a larger one all the same.
	peekBytes = 64 << 10
)

// read returns the next records, markers among them, and moves on. It returns
// none when there are none yet, or when all that it passed was aborted. It tries
// again, until ctx ends, whatever can pass by itself.
func (r *reader) read(ctx context.Context) (records []*kgo.Record, err error) {
	err = persist(ctx, func() error {
		if records, err = r.fetch(ctx); err != nil {
			r.leader = nil // it may have moved
		}
		return err
	})
	return records, err
}

// fetch is one request, or the next piece of what one brought.
func (r *reader) fetch(ctx context.Context) ([]*kgo.Record, error) {
	if r.large != nil {
		return r.piece()
	}
	if err := r.find(ctx); err != nil {
		return nil, err
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(readWait / time.Millisecond)
	req.MinBytes = 1
	req.MaxBytes = r.bytes
	req.IsolationLevel = 1 // read_committed
	req.SessionID, req.SessionEpoch = 0, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = r.partition.Topic, r.topicID
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition = r.partition.Number
	part.FetchOffset = r.next
	part.PartitionMaxBytes = r.bytes
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)

	answer, err := r.leader.RetriableRequest(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("fetch %s at offset %d: %w", r.partition, r.next, err)
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, fmt.Errorf("fetch %s at offset %d: %w", r.partition, r.next, err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("fetch %s at offset %d: the broker answered for %d topics, asked for one",
			r.partition, r.next, len(resp.Topics))
	}
	got := &resp.Topics[0].Partitions[0]
	r.opener.release()
	fetched, next := kgo.ProcessFetchPartition(readAs(r.partition, r.next), got, r.opener, nil)
	large := (*kgo.ErrDecompressTooLarge)(nil)
	if opens := errors.As(fetched.Err, &large); fetched.Err != nil && !opens && !errors.Is(fetched.Err, errOpenMemory) {
		var broker *kerr.Error
		if !errors.As(fetched.Err, &broker) {
			fetched.Err = fmt.Errorf("%w: %w", errUnreadable, fetched.Err)
		}
		return nil, fmt.Errorf("fetch %s at offset %d: %w", r.partition, r.next, fetched.Err)
	}
	r.start, r.stable = fetched.LogStartOffset, fetched.LastStableOffset
	r.next = max(r.next, next)
	if large != nil { // and no records: where there are some the client's code leaves the error out
		return r.open(got, large.Offset)
	}
	if len(fetched.Records) == 0 {
		r.bytes = min(2*r.bytes, readMaxBytes)
	}
	return fetched.Records, nil
}

// readAs says how what was fetched is read: from an offset on, with markers, and
// without aborted records.
func readAs(p pipeline.Partition, from int64) kgo.ProcessFetchPartitionOpts {
	return kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true,
		Offset:             from,
		IsolationLevel:     kgo.ReadCommitted(),
		Topic:              p.Topic,
		Partition:          p.Number,
	}
}

// open begins with a batch that takes too much memory at once, and gives its first piece.
func (r *reader) open(got *kmsg.FetchResponseTopicPartition, first int64) (_ []*kgo.Record, err error) {
	if r.large, err = openLarge(r.partition, got, first); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errUnreadable, r.partition, err)
	}
	r.large.largest, r.large.skips = r.largest, r.skips
	return r.piece()
}

// piece gives the next piece of a large batch.
func (r *reader) piece() ([]*kgo.Record, error) {
	records, next, err := r.large.piece(r.next)
	if err != nil {
		r.large = nil
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	r.next = next
	if r.large.done() {
		r.large = nil
	}
	return records, nil
}

// find asks who leads the partition, if that is not known.
func (r *reader) find(ctx context.Context) error {
	if r.leader != nil {
		return nil
	}
	meta, err := kadm.NewClient(r.client).Metadata(ctx, r.partition.Topic)
	if err != nil {
		return fmt.Errorf("look for the leader of %s: %w", r.partition, err)
	}
	topic := meta.Topics[r.partition.Topic]
	if topic.Err != nil {
		return fmt.Errorf("look for the leader of %s: %w", r.partition, topic.Err)
	}
	if topic.ID != r.topicID {
		// What that means for the group is looked at before anything else is.
		was := topicThen{"topic", r.topicID, "start again: it goes on, or says the way out"}
		return fmt.Errorf("%w: %w", errUnreadable, was.madeAnew(r.partition.Topic, topic.ID))
	}
	leader, ok := topic.Partitions[r.partition.Number]
	if !ok || leader.Leader < 0 {
		return fmt.Errorf("look for the leader of %s: %w", r.partition, kerr.LeaderNotAvailable)
	}
	r.leader = r.client.Broker(int(leader.Leader))
	return nil
}

// first is the first offset from the position on that holds a record or a marker;
// it waits for one. What lies before the position, then or when it fails, is known
// to hold none.
func (r *reader) first(ctx context.Context) (int64, error) {
	r.bytes = peekBytes
	for {
		records, err := r.read(ctx)
		if err != nil {
			return 0, err
		}
		if len(records) > 0 {
			return records[0].Offset, nil
		}
	}
}
