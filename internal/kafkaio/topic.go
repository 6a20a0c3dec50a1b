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
}

// OpenTopic looks a topic up. The options connect to the brokers.
func OpenTopic(ctx context.Context, name string, connect ...kgo.Opt) (*Topic, error) {
	client, err := kgo.NewClient(append(connect, kgo.ClientID("streamdedup"))...)
	if err != nil {
		return nil, fmt.Errorf("open topic %q: %w", name, err)
	}
	t := &Topic{client: client, name: name}
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

// Read gives each committed record of a partition from one point to another, in
// order, to fn. The latest point is the last stable offset when Read begins. The
// record is a view that is good until fn returns.
func (t *Topic) Read(ctx context.Context, partition int32, from, to Start, fn func(offset int64, r *pipeline.Record) error) error {
	p := pipeline.Partition{Topic: t.name, Number: partition}
	adm := kadm.NewClient(t.client)
	next, err := from.offset(ctx, adm, p)
	if err != nil {
		return err
	}
	end, err := to.offset(ctx, adm, p)
	if err != nil {
		return err
	}
	var src source
	for r := newReader(t.client, t.input.id, p, next); r.next < end; {
		records, err := r.read(ctx)
		if err != nil {
			return err
		}
		end = min(end, r.stable) // beyond lie open transactions
		b := src.views(records, true, t.limits)
		for i := range b.Records {
			if b.Offsets[i] >= end {
				return nil
			}
			if err := fn(b.Offsets[i], &b.Records[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close ends the connections.
func (t *Topic) Close() { t.client.Close() }
