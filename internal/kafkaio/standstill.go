package kafkaio

import (
	"time"

	"github.com/streamdedup/streamdedup/pipeline"
)

// sight is how far a partition is at one moment.
type sight struct {
	// reading says that batches are wanted: it is restored and has not stopped.
	reading bool
	// committed is where the next cycle begins, stable up to where records can be
	// read, and end up to where they are written.
	committed, stable, end int64
}

// held is whether there are records and an open transaction of another producer
// stands before all of them.
func (s sight) held() bool { return s.reading && s.committed >= s.stable && s.stable < s.end }

// behind is whether there are records to read.
func (s sight) behind() bool { return s.reading && s.committed < s.stable }

// standstill says from sights of a partition for how long it has not moved. It
// knows no clock, so a test can let hours pass.
type standstill struct {
	last sight
	// heldSince and stuckSince are when it was first seen as it is, zero when it
	// moves.
	heldSince, stuckSince time.Time
	// said says that the log has it.
	said bool
}

// see takes the next sight.
func (s *standstill) see(now time.Time, next sight) {
	s.heldSince = lasting(s.heldSince, now, next.held(), next.stable == s.last.stable)
	s.stuckSince = lasting(s.stuckSince, now, next.behind(), next.committed == s.last.committed)
	s.last = next
	s.said = s.said && (!s.heldSince.IsZero() || !s.stuckSince.IsZero())
}

// lasting is since when something holds that holds from one sight to the next only
// where its offset is the same.
func lasting(since, now time.Time, holds, same bool) time.Time {
	switch {
	case !holds:
		return time.Time{}
	case since.IsZero() || !same:
		return now
	}
	return since
}

const (
	// heldAfter is how long a transaction may be open before it is talked about:
	// those of a stream are shorter.
	heldAfter = 10 * time.Second
	// stuckAfter is how long nothing may be committed while there are records, at
	// least.
	stuckAfter = time.Minute
)

// stuckLimit lets one transaction time out, and the next one commit.
func (c Config) stuckLimit() time.Duration { return max(stuckAfter, 2*c.TxnTimeout) }

// of says what holds a partition up, false when nothing does.
func (s *standstill) of(p pipeline.Partition, now time.Time, stuckLimit time.Duration) (pipeline.Standstill, bool) {
	at := pipeline.Standstill{Partition: p, Offset: s.last.committed, Lag: s.last.stable - s.last.committed}
	if !s.heldSince.IsZero() && now.Sub(s.heldSince) >= heldAfter {
		at.For, at.OpenTransaction = now.Sub(s.heldSince), true
		return at, true
	}
	at.For = now.Sub(s.stuckSince)
	return at, !s.stuckSince.IsZero() && at.For >= stuckLimit
}
