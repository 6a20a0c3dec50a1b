package kafkaio

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
)

// openLarge lets a reader of our own go on where the client did not open a batch.
func (s *Session) openLarge(p pipeline.Partition, t *tenancy) {
	s.warn.warn("a record batch opens to more than is kept in memory: reading it piece by piece",
		"partition", p.String(), "offset", t.next.offset)
	t.large = newReader(s.admin, s.found.inputs[p.Topic].id, p, t.position())
	t.large.bytes = peekBytes // of more than that one batch nothing is wanted
	t.large.largest = s.largestRecord()
	s.gate(p, t)
}

// closeLarge lets the client go on.
func (s *Session) closeLarge(p pipeline.Partition, t *tenancy) {
	t.large = nil
	s.reseek(p)
	s.gate(p, t)
}

// largestRecord is the longest record to make out of a batch that takes too much memory:
// any that we may have to write.
func (s *Session) largestRecord() int64 {
	largest := int64(longestRecord)
	for _, to := range []*output{s.found.outputs.out, s.found.outputs.divert} {
		if to != nil {
			largest = max(largest, int64(to.maxBytes))
		}
	}
	return largest
}

// turn is the partition whose large batch is read now, nil where there is none: one that
// is open, since there is memory for one.
func (s *Session) turn() (p pipeline.Partition, t *tenancy) {
	for name, of := range s.parts {
		if of.large == nil || !of.running || of.paused {
			continue
		}
		if t == nil || of.large.large != nil {
			p, t = name, of
		}
	}
	return p, t
}

// onlyOpen closes the large batches of other partitions, for which somebody waits or
// which have stopped. They are opened again where they are read on.
func (s *Session) onlyOpen(t *tenancy) {
	for _, other := range s.parts {
		if other != t && other.large != nil {
			other.large.large = nil
		}
	}
}

// hasLarge is whether there is something to read that the client does not know of.
func (s *Session) hasLarge() bool {
	_, t := s.turn()
	return t != nil
}

// readLarge takes the next piece of a large batch. Behind the batch the client goes on.
func (s *Session) readLarge(ctx context.Context, now int64, polled *pipeline.Polled) {
	p, t := s.turn()
	if t == nil {
		return
	}
	s.onlyOpen(t)
	asking, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	read := t.large
	records, err := read.fetch(asking)
	switch {
	case isFinal(err):
		t.large = nil
		s.stop(ctx, p, t, err, polled)
		return
	case err != nil:
		s.warn.warn("cannot read a large batch, trying again", "partition", p.String(), "error", err)
		s.closeLarge(p, t)
		return
	}
	if !s.take(ctx, p, t, records, read.stable, now, polled) {
		return
	}
	t.empty = read.next // what was passed besides are aborted records
	if read.large == nil {
		s.closeLarge(p, t)
	}
}

// fetching are the settings that bound how much memory takes what is read.
func (f *found) fetching() []kgo.Opt {
	largest := int32(0)
	for _, in := range f.inputs {
		largest = max(largest, in.maxBytes)
	}
	fetch := fetchLimit(f.brokers)
	// An answer is longer than that where a single batch is.
	answer := min(max(defaultAnswer, int64(fetch)+int64(largest)+requestOverhead), maxBatchLimit)
	return []kgo.Opt{kgo.FetchMaxBytes(fetch), kgo.BrokerMaxReadBytes(int32(answer))}
}

// defaultAnswer is the client's own limit of an answer.
const defaultAnswer = 100 << 20
