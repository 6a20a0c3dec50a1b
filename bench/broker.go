package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/workload"
)

// Broker is a Kafka to run streams on: a cluster that is there, or one inside
// this process.
type Broker struct {
	addresses []string
	fake      *kfake.Cluster
	client    *kgo.Client
}

// EmbeddedBroker starts a broker in this process that speaks Kafka's protocol,
// on a free port of the loopback interface. It keeps everything in memory.
func EmbeddedBroker() (*Broker, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	b, err := ConnectBroker(cluster.ListenAddrs())
	if err != nil {
		cluster.Close()
		return nil, err
	}
	b.fake = cluster
	return b, nil
}

// ConnectBroker uses the cluster that addresses lead to.
func ConnectBroker(addresses []string, connect ...kgo.Opt) (*Broker, error) {
	client, err := kgo.NewClient(append(connect, kgo.SeedBrokers(addresses...), kgo.ClientID("streamdedup-bench"))...)
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", addresses, err)
	}
	return &Broker{addresses: addresses, client: client}, nil
}

// Addresses are host:port of brokers to ask first.
func (b *Broker) Addresses() []string { return b.addresses }

// Embedded says that the broker is part of this process, and of its CPU time.
func (b *Broker) Embedded() bool { return b.fake != nil }

// Close ends the connections, and the broker if it is embedded.
func (b *Broker) Close() {
	b.client.Close()
	if b.fake != nil {
		b.fake.Close()
	}
}

// anyTime lets the wrong clocks of a workload in; nothing is deleted meanwhile.
func anyTime() map[string]*string {
	forever, always := "9223372036854775807", "-1"
	return map[string]*string{
		"message.timestamp.before.max.ms": &forever,
		"message.timestamp.after.max.ms":  &forever,
		"retention.ms":                    &always,
		"retention.bytes":                 &always,
	}
}

// CreateTopic makes a topic that takes records of any time, and waits until it
// can be written.
func (b *Broker) CreateTopic(ctx context.Context, topic string, partitions int32) error {
	adm := kadm.NewClient(b.client)
	const brokerDefault = -1
	configs := anyTime()
	if b.fake != nil {
		configs = nil // it takes any time, and does not know the settings
	}
	if _, err := adm.CreateTopic(ctx, partitions, brokerDefault, configs, topic); err != nil {
		return fmt.Errorf("create topic %q: %w", topic, err)
	}
	for {
		listed, err := adm.ListEndOffsets(ctx, topic)
		if err == nil && listed.Error() == nil && len(listed[topic]) == int(partitions) {
			return nil
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("wait for the leaders of topic %q: %w", topic, err)
		}
	}
}

// Discard deletes topics and a group that a run made; what is not there is fine.
func (b *Broker) Discard(ctx context.Context, group string, topics ...string) error {
	adm := kadm.NewClient(b.client)
	var errs []error
	if group != "" {
		if _, err := adm.DeleteGroup(ctx, group); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			errs = append(errs, fmt.Errorf("delete group %q: %w", group, err))
		}
	}
	for _, topic := range topics {
		if _, err := adm.DeleteTopic(ctx, topic); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			errs = append(errs, fmt.Errorf("delete topic %q: %w", topic, err))
		}
	}
	return errors.Join(errs...)
}

// Produce writes the next records of a workload to a topic, at most so many, each
// partition in order. Progress is told how many there are so far, now and then; it
// may be nil. The options are added to the client's.
func (b *Broker) Produce(ctx context.Context, topic string, w *workload.Generator, most int, progress func(records int), opts ...kgo.Opt) error {
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.addresses...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(1<<17))...)
	if err != nil {
		return fmt.Errorf("produce to %q: %w", topic, err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for n := 0; n < most && ctx.Err() == nil; n++ {
		r, ok := w.Next()
		if !ok {
			break
		}
		client.Produce(ctx, message(topic, r), func(_ *kgo.Record, err error) {
			if err != nil {
				cancel(err)
			}
		})
		if progress != nil && n%(1<<14) == 0 {
			progress(n)
		}
	}
	if err := errors.Join(client.Flush(ctx), context.Cause(ctx)); err != nil {
		return fmt.Errorf("produce to %q: %w", topic, err)
	}
	return nil
}

func message(topic string, r workload.Record) *kgo.Record {
	m := &kgo.Record{
		Topic: topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Time),
	}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
	}
	return m
}

// Lag is how many offsets a group has to read of a topic; begun is false while
// it has committed nothing at all.
func (b *Broker) Lag(ctx context.Context, group, topic string) (lag int64, begun bool, err error) {
	adm := kadm.NewClient(b.client)
	ends, err := adm.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, false, fmt.Errorf("ask for the ends of topic %q: %w", topic, err)
	}
	committed, err := adm.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return 0, false, fmt.Errorf("ask for the offsets of group %q: %w", group, err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		at, ok := committed.Lookup(topic, end.Partition)
		if ok && at.At >= 0 {
			begun = true
			lag += max(0, end.Offset-at.At)
			return
		}
		lag += end.Offset
	})
	return lag, begun, nil
}

const (
	// lagInterval is how often a wait for the end looks at the lag. A look costs a
	// millisecond of the CPU time that a benchmark measures, and its end is that much
	// late.
	lagInterval = 100 * time.Millisecond
	// beginInterval is how often a wait for the begin does. Nothing is measured yet, and
	// what is done before it is seen would be missing from the measurement.
	beginInterval = 5 * time.Millisecond
)

// AwaitBegin waits until a group has committed an offset of a topic.
func (b *Broker) AwaitBegin(ctx context.Context, group, topic string) error {
	return b.await(ctx, group, topic, beginInterval, func(_ int64, begun bool) bool { return begun })
}

// AwaitEnd waits until a group has read all of a topic, and tells progress the
// lag, if it is not nil.
func (b *Broker) AwaitEnd(ctx context.Context, group, topic string, progress func(lag int64)) error {
	return b.await(ctx, group, topic, lagInterval, func(lag int64, begun bool) bool {
		if progress != nil {
			progress(lag)
		}
		return begun && lag == 0
	})
}

func (b *Broker) await(ctx context.Context, group, topic string, interval time.Duration, done func(lag int64, begun bool) bool) error {
	for {
		lag, begun, err := b.Lag(ctx, group, topic)
		if err != nil {
			return err
		}
		if done(lag, begun) {
			return nil
		}
		if err := sleep(ctx, interval); err != nil {
			return fmt.Errorf("wait for group %q: %w", group, err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
