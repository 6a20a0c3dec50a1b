package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
)

// Topic is a topic that is read from outside: in no group, with nothing written.
// It has one owner.
type Topic struct {
	client *kgo.Client
	name   string
	input  input
	limits *output
	// patience is how long to wait for one open transaction.
	patience time.Duration

	// OnWait is told, if it is not nil, when Read begins to wait for a transaction.
	OnWait func(OpenTransaction)
}

// OpenTopic looks a topic up. The options connect to the brokers.
func OpenTopic(ctx context.Context, name string, connect ...kgo.Opt) (*Topic, error) {
	client, err := kgo.NewClient(append(connect, kgo.ClientID("streamdedup"))...)
	if err != nil {
		return nil, fmt.Errorf("open topic %q: %w", name, err)
	}
	t := &Topic{client: client, name: name, patience: openPatience}
	if err := t.look(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return t, nil
}

func (t *Topic) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	adm := kadm.NewClient(t.client)
	meta, err := adm.Metadata(ctx, t.name)
	if err != nil {
		return hinted("check the address, that the broker runs, and the TLS and SASL settings",
			"reach the brokers for topic %q: %w", t.name, err)
	}
	detail, ok := meta.Topics[t.name]
	if !ok || errors.Is(detail.Err, kerr.UnknownTopicOrPartition) {
		return hinted("check the name; topics are case-sensitive", "topic %q does not exist", t.name)
	}
	if detail.Err != nil {
		return fmt.Errorf("look at topic %q: %w", t.name, detail.Err)
	}
	configs, err := topicConfigs(ctx, adm, t.name)
	if err != nil {
		return err
	}
	t.input = input{
		id: detail.ID, partitions: int32(len(detail.Partitions)),
		compacted: strings.Contains(configs[t.name]["cleanup.policy"], "compact"),
	}
	t.limits = limitsOf(t.name, t.input.partitions, configs[t.name])
	return nil
}

// Partitions is how many partitions the topic has.
func (t *Topic) Partitions() int32 { return t.input.partitions }

// Begin is the first offset that the topic still has of a partition.
func (t *Topic) Begin(ctx context.Context, partition int32) (int64, error) {
	return Start{}.offset(ctx, kadm.NewClient(t.client), pipeline.Partition{Topic: t.name, Number: partition})
}

// Stamped says that the topic gives records the time of their arrival.
func (t *Topic) Stamped() bool { return !t.limits.clock }

// TimeLimits are how far behind and ahead of the broker's clock a record's time
// may be; zero is no limit.
func (t *Topic) TimeLimits() (before, after time.Duration) {
	limit := func(millis int64) time.Duration {
		if millis > math.MaxInt64/int64(time.Millisecond) {
			return 0
		}
		return time.Duration(millis) * time.Millisecond
	}
	return limit(t.limits.before), limit(t.limits.after)
}

// Find is the offset of a point in a partition, at most its last stable offset:
// nobody can have read further. What an open transaction holds is read later.
func (t *Topic) Find(ctx context.Context, partition int32, at Start) (int64, error) {
	p := pipeline.Partition{Topic: t.name, Number: partition}
	adm := kadm.NewClient(t.client)
	offset, err := at.offset(ctx, adm, p)
	if err != nil || at.latest {
		return offset, err
	}
	stable, err := lookUp(ctx, adm.ListCommittedOffsets, p)
	if err != nil {
		return 0, fmt.Errorf("look for the last stable offset of %s: %w", p, err)
	}
	return min(offset, stable), nil
}

// Written is the high watermark of a partition: the end of all that is written,
// in open transactions too.
func (t *Topic) Written(ctx context.Context, partition int32) (int64, error) {
	p := pipeline.Partition{Topic: t.name, Number: partition}
	end, err := lookUp(ctx, kadm.NewClient(t.client).ListEndOffsets, p)
	if err != nil {
		return 0, fmt.Errorf("look for the end of %s: %w", p, err)
	}
	return end, nil
}

// OpenTransaction is what a read waits for: records from Offset on cannot be read
// before it ends, and after Patience the read fails.
type OpenTransaction struct {
	Partition pipeline.Partition
	Offset    int64
	Patience  time.Duration
}

// openPatience is how long a read waits for one transaction: as long as one whose
// process died takes by default to be aborted, and the brokers look for such ones
// only now and then.
const openPatience = DefaultTxnTimeout + 30*time.Second

// Read gives each committed record of a partition from one offset up to, and
// without, another to fn, in order. Where a transaction is open between them it
// waits for its end, and fails when that does not come. The record is a view that
// is good until fn returns.
func (t *Topic) Read(ctx context.Context, partition int32, from, to int64, fn func(offset int64, r *pipeline.Record) error) error {
	p := pipeline.Partition{Topic: t.name, Number: partition}
	r := newReader(t.client, t.input.id, p, from)
	r.largest = max(r.largest, int64(t.limits.maxBytes))
	open := waiting{topic: t}
	var src source
	for r.next < to {
		records, err := r.read(ctx)
		if err != nil {
			return err
		}
		b := src.views(records, true, t.limits)
		for i := range b.Records {
			if b.Offsets[i] >= to {
				return nil
			}
			if err := fn(b.Offsets[i], &b.Records[i]); err != nil {
				return err
			}
		}
		if len(records) == 0 && r.next == r.stable && r.next < to {
			if err := open.at(p, r.stable); err != nil {
				return err
			}
		}
	}
	return nil
}

// waiting is for one open transaction after the other.
type waiting struct {
	topic  *Topic
	offset int64
	since  time.Time // zero before the first
}

// at notes that nothing can be read from an offset on. It fails when that has
// lasted too long.
func (w *waiting) at(p pipeline.Partition, offset int64) error {
	patience := w.topic.patience
	if w.since.IsZero() || w.offset != offset {
		w.offset, w.since = offset, time.Now()
		if w.topic.OnWait != nil {
			w.topic.OnWait(OpenTransaction{Partition: p, Offset: offset, Patience: patience})
		}
	}
	if time.Since(w.since) < patience {
		return nil
	}
	return hinted("transactions of a process that is gone end by their time out, which is their producer's transaction.timeout.ms: "+
		"try again after it; `kafka-transactions.sh find-hanging` shows one that never ends",
		"read %s: the transaction that is open at offset %d has not ended in %v", p, offset, patience)
}

// Close ends the connections.
func (t *Topic) Close() { t.client.Close() }
