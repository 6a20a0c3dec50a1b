package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/workload"
)

const (
	// sentHeader tells when a record was due to be produced, in nanoseconds on this
	// process's clock: one that has to wait for its turn is late by that, too.
	sentHeader = "streamdedup-bench-sent"
	// rateShare of the measured throughput is what the latency is measured under.
	rateShare = 3
	// pace is how often the paced producer looks at the clock.
	pace = time.Millisecond
	// warmPace is how often a record is sent until the first comes out.
	warmPace = 100 * time.Millisecond
	// drainFor is how long the last records may take. Of the records unwantedShare may
	// stay out, as false positives.
	drainFor      = time.Minute
	unwantedShare = 1000
	// coldShare of the time is not measured: caches and connections settle.
	coldShare = 10
)

// latencies measures the latency of the ways that the product is compared by.
func (m *measurement) latencies(ctx context.Context, ways []way, result *KafkaCase) error {
	rate := m.Rate
	if rate == 0 {
		rate = result.way(ExactlyOnce).MedianEventsPerSecond / rateShare
	}
	result.LatencyRate = rate
	var plain Latency
	for i, w := range ways {
		if w.name != PlainCopy && w.name != AtLeastOnce && w.name != ExactlyOnce {
			continue
		}
		m.tell("latency of %s; %s", w.name, m.kafkaCase)
		l, err := m.latency(ctx, w, fmt.Sprintf("%s-%d-latency", m.name, i), rate)
		if err != nil {
			return fmt.Errorf("latency of %s: %w", w.name, err)
		}
		if w.name == PlainCopy {
			plain = l
		}
		l.AddedP50MS, l.AddedP99MS = l.P50MS-plain.P50MS, l.P99MS-plain.P99MS
		result.way(w.name).Latency = &l
	}
	return nil
}

// latency runs one way on a topic that is written at a steady rate.
func (m *measurement) latency(ctx context.Context, w way, out string, rate float64) (_ Latency, err error) {
	in := out + "-in"
	if err := errors.Join(m.Broker.CreateTopic(ctx, in, m.partitions), m.Broker.CreateTopic(ctx, out, m.partitions)); err != nil {
		return Latency{}, err
	}
	defer func() {
		err = errors.Join(err, m.discard(context.WithoutCancel(ctx), in, out), m.Broker.Discard(context.WithoutCancel(ctx), "", in))
	}()
	following, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watch, err := m.watch(following, out)
	if err != nil {
		return Latency{}, err
	}
	defer watch.close()
	ended := make(chan error, 1)
	go func() {
		err := w.follow(following, m.job(in, out))
		ended <- err
		stop(errors.Join(err, errEnded))
	}()
	sent, from, err := m.load(following, in, rate, watch)
	if err == nil {
		err = watch.await(following, sent-sent/unwantedShare)
	}
	stop(nil)
	if err := errors.Join(err, <-ended); err != nil {
		return Latency{}, err
	}
	return newLatency(watch.since(from)), nil
}

// load writes new records at a steady rate, once a first one has come through. It
// returns how many it wrote in all and when what is to be measured began.
func (m *measurement) load(ctx context.Context, topic string, rate float64, watch *watch) (sent int, from time.Duration, err error) {
	codec, err := kafkaio.Moving(m.codec)
	if err != nil {
		return 0, 0, err
	}
	client, err := kgo.NewClient(append(codec, kgo.SeedBrokers(m.Broker.Addresses()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(pace))...)
	if err != nil {
		return 0, 0, err
	}
	defer client.Close()
	x := m.workload(max(int(rate*m.Latency.Seconds()), 1), m.Seed)
	x.Events, x.Copies = x.Events+x.Copies+int(drainFor/warmPace), 0
	generator, err := workload.New(x)
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	send := func(due time.Duration) {
		r, _ := generator.Next()
		record := message(topic, r)
		record.Timestamp = time.Now()
		record.Headers = append(record.Headers, kgo.RecordHeader{
			Key: sentHeader, Value: binary.BigEndian.AppendUint64(nil, uint64(due)),
		})
		client.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil {
				cancel(err)
			}
		})
		sent++
	}
	for ; watch.received() == 0; err = sleep(ctx, warmPace) {
		if err == nil && watch.now() > drainFor {
			err = fmt.Errorf("no record came out in %s", drainFor)
		}
		if err != nil {
			return sent, 0, err
		}
		send(watch.now())
	}
	began, before := watch.now(), sent
	// What falls due while the machine stands still is written all the same, also at the end.
	for all := before + int(rate*m.Latency.Seconds()); sent < all; {
		for due := min(before+int(rate*(watch.now()-began).Seconds()), all); sent < due; {
			send(began + time.Duration(float64(sent-before)/rate*float64(time.Second)))
		}
		if err := sleep(ctx, pace); err != nil {
			return sent, 0, err
		}
	}
	return sent, began + m.Latency/coldShare, errors.Join(client.Flush(ctx), context.Cause(ctx))
}

// watch reads an output as its readers do and notes when records came.
type watch struct {
	began  time.Time
	client *kgo.Client
	ended  chan struct{}

	mu    sync.Mutex
	seen  []seen
	err   error
	stops context.CancelFunc
}

// seen is a record that came out.
type seen struct{ sent, took time.Duration }

func (m *measurement) watch(ctx context.Context, topic string) (*watch, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(m.Broker.Addresses()...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return nil, err
	}
	w := &watch{began: time.Now(), client: client, ended: make(chan struct{})}
	ctx, w.stops = context.WithCancel(ctx)
	go w.read(ctx)
	return w, nil
}

func (w *watch) now() time.Duration { return time.Since(w.began) }

func (w *watch) read(ctx context.Context) {
	defer close(w.ended)
	for ctx.Err() == nil {
		fetches := w.client.PollFetches(ctx)
		at := w.now()
		w.mu.Lock()
		if err := fetches.Err(); err != nil && w.err == nil && ctx.Err() == nil {
			w.err = fmt.Errorf("read the output: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			for _, h := range r.Headers {
				if h.Key == sentHeader && len(h.Value) == 8 {
					sent := time.Duration(binary.BigEndian.Uint64(h.Value))
					w.seen = append(w.seen, seen{sent, at - sent})
				}
			}
		})
		w.mu.Unlock()
	}
}

func (w *watch) received() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

// await waits for so many records.
func (w *watch) await(ctx context.Context, records int) error {
	for until := w.now() + drainFor; w.received() < records; {
		w.mu.Lock()
		err := w.err
		w.mu.Unlock()
		if err == nil && w.now() > until {
			err = fmt.Errorf("%d of %d records came out in %s", w.received(), records, drainFor)
		}
		if err == nil {
			err = sleep(ctx, lagInterval)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// since are the latencies of the records sent from a time on.
func (w *watch) since(from time.Duration) (latencies []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.seen {
		if s.sent >= from {
			latencies = append(latencies, s.took)
		}
	}
	return latencies
}

func (w *watch) close() {
	w.stops()
	<-w.ended
	w.client.Close()
}

// newLatency sums up; it sorts.
func newLatency(latencies []time.Duration) Latency {
	slices.Sort(latencies)
	ms := func(p float64) float64 { return percentile(latencies, p) / float64(time.Millisecond) }
	return Latency{Records: len(latencies), P50MS: ms(0.5), P99MS: ms(0.99)}
}
