package kafkaio

import (
	"sync"
	"time"

	"github.com/streamdedup/streamdedup/pipeline"
)

// lags knows how far the committed positions of our partitions are behind the last
// stable offsets: what lies above, in open transactions, cannot be read yet. What
// is read and not committed is still to do, and stays so where a partition stops.
// It is safe for concurrent use.
type lags struct {
	mu    sync.Mutex
	parts map[pipeline.Partition]*lag
}

// lag is one partition of ours.
type lag struct {
	at    sight
	still standstill
}

func newLags() *lags { return &lags{parts: map[pipeline.Partition]*lag{}} }

// change changes what is known of a partition, if it is ours.
func (l *lags) change(p pipeline.Partition, how func(*lag)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.parts[p]; at != nil {
		how(at)
	}
}

// resume notes that p is ours and is read from an offset on.
func (l *lags) resume(p pipeline.Partition, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parts[p] == nil {
		l.parts[p] = &lag{at: sight{stable: offset, end: offset}}
	}
	l.parts[p].at.committed, l.parts[p].at.reading = offset, true
}

// halt notes that p is not read any more.
func (l *lags) halt(p pipeline.Partition) { l.change(p, func(at *lag) { at.at.reading = false }) }

// proceed notes that p is read again.
func (l *lags) proceed(p pipeline.Partition) { l.change(p, func(at *lag) { at.at.reading = true }) }

// positions are what is committed.
func (l *lags) positions() map[pipeline.Partition]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[pipeline.Partition]int64, len(l.parts))
	for p, at := range l.parts {
		all[p] = at.at.committed
	}
	return all
}

// stable notes the end of what can be read of p.
func (l *lags) stable(p pipeline.Partition, offset int64) {
	l.change(p, func(at *lag) { at.at.stable = max(at.at.stable, offset) })
}

// committed notes what is committed of p.
func (l *lags) committed(p pipeline.Partition, offset int64) {
	l.change(p, func(at *lag) { at.at.committed = offset })
}

// see notes both ends of p, and whether it moves.
func (l *lags) see(p pipeline.Partition, now time.Time, stable, end int64) {
	l.change(p, func(at *lag) {
		at.at.stable, at.at.end = max(at.at.stable, stable), max(at.at.end, end)
		at.still.see(now, at.at)
	})
}

func (l *lags) forget(p pipeline.Partition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.parts, p)
}

// unsaid are the partitions that stand still and that the log does not have yet.
func (l *lags) unsaid(now time.Time, limit time.Duration) []pipeline.Standstill {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []pipeline.Standstill
	for p, at := range l.parts {
		if still, ok := at.still.of(p, now, limit); ok && !at.still.said {
			at.still.said = true
			all = append(all, still)
		}
	}
	return all
}

// Lag is how many offsets of each of our partitions are not committed, up to the
// last stable one at most a few seconds ago. Markers count as records. It is safe
// for concurrent use.
func (s *Session) Lag() map[pipeline.Partition]int64 {
	s.lag.mu.Lock()
	defer s.lag.mu.Unlock()
	behind := make(map[pipeline.Partition]int64, len(s.lag.parts))
	for p, at := range s.lag.parts {
		behind[p] = max(0, at.at.stable-at.at.committed)
	}
	return behind
}

// Standstills are our partitions that go no further although nothing has failed.
// It is safe for concurrent use.
func (s *Session) Standstills() []pipeline.Standstill {
	s.lag.mu.Lock()
	defer s.lag.mu.Unlock()
	var all []pipeline.Standstill
	for p, at := range s.lag.parts {
		if still, ok := at.still.of(p, time.Now(), s.cfg.stuckLimit()); ok {
			all = append(all, still)
		}
	}
	return all
}
