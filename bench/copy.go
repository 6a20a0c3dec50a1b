package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkaio"
)

// copyJob is to copy all of a topic to another.
type copyJob struct {
	brokers  []string
	in, out  string
	group    string
	records  int
	interval time.Duration // between commits
	codec    string

	partitions int32
	begin      func() // the first record is read
	done       func() // the last commit is through
}

// options are those of a client that reads and writes as the product's own does.
func (j copyJob) options(more ...kgo.Opt) ([]kgo.Opt, error) {
	opts, err := kafkaio.Moving(j.codec)
	if err != nil {
		return nil, err
	}
	opts = append(opts,
		kgo.SeedBrokers(j.brokers...), kgo.ConsumeTopics(j.in), kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumerGroup(j.group), kgo.DisableAutoCommit())
	return append(opts, more...), nil
}

// plain copies with an idempotent producer and commits offsets at the end.
func (j copyJob) plain(ctx context.Context) error {
	opts, err := j.options()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("plain copy: %w", err)
	}
	defer client.Close()
	var acknowledged atomic.Int64
	failed := make(chan error, 1)
	for n := 0; n < j.records; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("plain copy: %w", err)
		}
		if n == 0 && fetches.NumRecords() > 0 {
			j.begin()
		}
		n += forward(fetches, func(r *kgo.Record) {
			r.Topic = j.out
			client.Produce(ctx, r, func(_ *kgo.Record, err error) {
				if err == nil {
					acknowledged.Add(1)
					return
				}
				select {
				case failed <- err:
				default:
				}
			})
		})
	}
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("plain copy: %w", err)
	}
	if n := acknowledged.Load(); n != int64(j.records) {
		return fmt.Errorf("plain copy: %d of %d records were acknowledged: %w", n, j.records, <-failed)
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		return fmt.Errorf("plain copy: %w", err)
	}
	j.done()
	return nil
}

// untuned is the plain copy while Go collects garbage whenever the heap has doubled.
func (j copyJob) untuned(ctx context.Context) error {
	const byDefault = 100 // percent
	defer debug.SetGCPercent(debug.SetGCPercent(byDefault))
	return j.plain(ctx)
}

// transactional copies in transactions of the interval.
func (j copyJob) transactional(ctx context.Context) error {
	opts, err := j.options(kgo.TransactionalID(j.group))
	if err != nil {
		return err
	}
	session, err := kgo.NewGroupTransactSession(opts...)
	if err != nil {
		return fmt.Errorf("copy in transactions: %w", err)
	}
	defer session.Close()
	for n := 0; n < j.records; {
		if err := session.Begin(); err != nil {
			return fmt.Errorf("copy in transactions: %w", err)
		}
		for end := time.Now().Add(j.interval); n < j.records && time.Now().Before(end); {
			polling, cancel := context.WithDeadline(ctx, end)
			fetches := session.PollFetches(polling)
			cancel()
			if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("copy in transactions: %w", err)
			}
			if n == 0 && fetches.NumRecords() > 0 {
				j.begin()
			}
			n += forward(fetches, func(r *kgo.Record) {
				r.Topic = j.out
				session.Produce(ctx, r, nil)
			})
		}
		committed, err := session.End(ctx, kgo.TryCommit)
		if err == nil && !committed {
			err = errors.New("a transaction was aborted")
		}
		if err != nil {
			return fmt.Errorf("copy in transactions: %w", err)
		}
	}
	j.done()
	return nil
}

// forward sends what was fetched on, without the markers, and counts it.
func forward(fetches kgo.Fetches, send func(*kgo.Record)) (n int) {
	fetches.EachRecord(func(r *kgo.Record) {
		if !r.Attrs.IsControl() {
			send(r)
			n++
		}
	})
	return n
}
