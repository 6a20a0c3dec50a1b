package kafkaio

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
)

// lags knows how far the committed positions of our partitions are behind the last
// stable offsets: what lies above, in open transactions, cannot be read yet. What
// is read and not committed is still to do, and stays so where a partition stops.
// It is safe for concurrent use.
type lags struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	parts map[pipeline.Partition]*lag
}

type lag struct{ committed, stable int64 }

// lagInterval is how often the ends are asked for. A fetch tells them too, but
// nobody fetches a partition that has stopped.
const lagInterval = 5 * time.Second

// watchLag asks for ends until it is closed.
func watchLag(cl *kgo.Client, topics []string, warn *warner) *lags {
	ctx, cancel := context.WithCancel(context.Background())
	l := &lags{cancel: cancel, done: make(chan struct{}), parts: map[pipeline.Partition]*lag{}}
	go func() {
		defer close(l.done)
		for pause(ctx, lagInterval) == nil {
			ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topics...)
			if err != nil && ctx.Err() == nil {
				warn.warn("cannot ask for the ends of the input; the lag shown is old", "error", err)
			}
			ends.Each(func(o kadm.ListedOffset) {
				if o.Err == nil {
					l.stable(pipeline.Partition{Topic: o.Topic, Number: o.Partition}, o.Offset)
				}
			})
		}
	}()
	return l
}

func (l *lags) close() {
	l.cancel()
	<-l.done
}

// stable notes the end of a partition, if it is ours.
func (l *lags) stable(p pipeline.Partition, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.parts[p]; at != nil {
		at.stable = max(at.stable, offset)
	}
}

// committed notes what is committed of a partition, which is ours then.
func (l *lags) committed(p pipeline.Partition, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parts[p] == nil {
		l.parts[p] = &lag{stable: offset}
	}
	l.parts[p].committed = offset
}

func (l *lags) forget(p pipeline.Partition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.parts, p)
}

// Lag is how many offsets of each of our partitions are not committed, up to the
// last stable one at most a few seconds ago. Markers count as records. It is safe
// for concurrent use.
func (s *Session) Lag() map[pipeline.Partition]int64 {
	s.lag.mu.Lock()
	defer s.lag.mu.Unlock()
	behind := make(map[pipeline.Partition]int64, len(s.lag.parts))
	for p, at := range s.lag.parts {
		behind[p] = max(0, at.stable-at.committed)
	}
	return behind
}
