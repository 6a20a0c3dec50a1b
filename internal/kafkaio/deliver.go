package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
)

// The headers that a diverted record has besides its own: why it is here, and
// where it came from.
const (
	HeaderReason    = "streamdedup-reason"
	HeaderTopic     = "streamdedup-topic"
	HeaderPartition = "streamdedup-partition"
	HeaderOffset    = "streamdedup-offset"
)

// failures are records of the open cycle that were not acknowledged. The
// client's goroutines write them.
type failures struct {
	any     atomic.Bool
	mu      sync.Mutex
	first   error
	refused []refused
}

// refused is a record that a topic found too large.
type refused struct {
	record *kgo.Record
	err    error
}

// acknowledge is the client's answer to one record. A success is the absence of
// a failure, once the client has answered for all.
func (f *failures) acknowledge(r *kgo.Record, err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == nil {
		f.first = fmt.Errorf("write to %s/%d: %w", r.Topic, r.Partition, err)
	}
	if errors.Is(err, kerr.MessageTooLarge) {
		f.refused = append(f.refused, refused{r, err})
	}
	f.any.Store(true)
}

// take returns the failures since the last call.
func (f *failures) take() (all []refused, first error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all, first = f.refused, f.first
	f.refused, f.first = nil, nil
	f.any.Store(false)
	return all, first
}

// Deliver implements [pipeline.Session]. It waits only while the client's buffer
// is full. What goes wrong with a record, or with the beginning of the
// transaction, shows at the commit.
func (s *Session) Deliver(_ context.Context, b *pipeline.Batch) error {
	src, ok, err := s.takeOver(b)
	if err != nil || !ok {
		return err
	}
	client := s.client()
	acknowledge := s.failures.acknowledge // once: the closure is on the heap
	for i, o := range b.Outcomes {
		if s.failures.any.Load() {
			return nil // the cycle will be aborted: why send more
		}
		r := src.records[i]
		switch o.Fate {
		case pipeline.Out:
			if o.Verdict == pipeline.Duplicate {
				if c := s.copyBeside(src, b, i); c != nil {
					client.Produce(s.cycle.sending, c, acknowledge)
				}
			}
			s.retime(b, i, r, s.found.outputs.out)
			from, _ := s.whence(src, b, i)
			r.Topic, r.Partition = s.cfg.Out, from.Number
			if o.Verdict == pipeline.Duplicate {
				tag(b, i, r)
			}
		case pipeline.Diverted:
			divert := s.found.outputs.divert
			s.retime(b, i, r, divert)
			from, offset := s.whence(src, b, i)
			r.Headers = append(slices.Clip(r.Headers), diversion(b.Outcomes[i].Reason, from, offset)...)
			r.Topic, r.Partition = divert.topic, from.Number%divert.partitions
		default:
			if !s.copyOf(src, b, i, r) {
				continue
			}
		}
		// The cycle's context and not the engine's: a stop finishes the cycle.
		client.Produce(s.cycle.sending, r, acknowledge)
	}
	return nil
}

// takeOver notes that b is part of the transaction, and begins one. It reports false
// when that failed: the commit settles why.
func (s *Session) takeOver(b *pipeline.Batch) (src *source, ok bool, err error) {
	t := s.parts[b.Partition]
	if t == nil || t.epoch != b.Epoch {
		return nil, false, fmt.Errorf("deliver a batch of %s: it was read under epoch %d, which is over", b.Partition, b.Epoch)
	}
	if b.First != t.delivered.offset {
		return nil, false, fmt.Errorf("deliver a batch of %s: it begins at offset %d, the one before it ended at %d",
			b.Partition, b.First, t.delivered.offset)
	}
	src = b.Source.(*source)
	s.batches.out = append(s.batches.out, src)
	if !s.begin() {
		return src, false, nil
	}
	t.delivered = src.end
	return src, true, nil
}

// diversion are the headers that tell why a record is diverted, and where it was.
func diversion(why pipeline.Reason, from pipeline.Partition, offset int64) []kgo.RecordHeader {
	return []kgo.RecordHeader{
		{Key: HeaderReason, Value: []byte(why.String())},
		{Key: HeaderTopic, Value: []byte(from.Topic)},
		{Key: HeaderPartition, Value: strconv.AppendInt(nil, int64(from.Number), 10)},
		{Key: HeaderOffset, Value: strconv.AppendInt(nil, offset, 10)},
	}
}

// retime moves a time that the topic would refuse to one that it takes. The
// alternative is to lose the record, or to stand still before it.
func (s *Session) retime(b *pipeline.Batch, i int, r *kgo.Record, to *output) {
	t := b.Records[i].Time
	accepted := to.accept(t, b.Now, s.slack.Milliseconds())
	if accepted != t {
		r.Timestamp = time.UnixMilli(accepted)
		b.Retime(i)
	}
}

// firstSlack is how far our clock and the broker's may be apart, with the way of
// a record in between, before the first refusal tells us more.
const firstSlack = 5 * time.Second

// almost is how near to the limit a record may be refused by the client, which
// counts for the longest form of a request while it does not know the broker's.
const almost = 64

// blame looks through the failures of a cycle that is to be aborted for what
// would fail again.
func (s *Session) blame(ctx context.Context, all []refused, first error) ([]pipeline.Refusal, error) {
	if errors.Is(first, kerr.InvalidTimestamp) {
		s.slack *= 2
		s.warn.warn("the output refused a record's time: the clocks here and at the broker are apart", "slack", s.slack)
	}
	var refusals []pipeline.Refusal
	var copies []place
	var fits *output // and has refused nevertheless
	for _, failed := range all {
		b, i, beside := s.batches.find(failed.record)
		to, diverted := s.found.outputs.out, false
		if !s.cfg.routes {
			switch fate := b.Outcomes[i].Fate; {
			case beside || fate == pipeline.Dropped:
				copies = append(copies, place{b.Partition, b.Offsets[i]})
				continue
			case fate == pipeline.Diverted:
				to, diverted = s.found.outputs.divert, true
			}
		}
		if to.surelyTakes(failed.record) {
			fits = to
			continue
		}
		refusals = append(refusals, pipeline.Refusal{
			Partition: b.Partition, Offset: b.Offsets[i], Diverted: diverted, Err: failed.err})
	}
	stale := s.refusedCopies(ctx, copies)
	// One batch of records is refused as a whole. None of them is to blame when each
	// would fit: then the limit was lowered since we asked for it.
	if fits != nil {
		return nil, errors.Join(stale, s.lookAgain(ctx, fits))
	}
	return refusals, stale
}

// lookAgain asks for a topic's limits. It returns an error when they changed: the
// client must be replaced to know them.
func (s *Session) lookAgain(ctx context.Context, to *output) error {
	now, err := lookAtOutput(ctx, s.cfg, kadm.NewClient(s.admin), to.topic, to.partitions)
	if err != nil {
		s.warn.warn("cannot ask for the limits of a topic again", "topic", to.topic, "error", err)
		return nil
	}
	if now.maxBytes == to.maxBytes {
		return nil
	}
	was := to.maxBytes
	*to = *now
	return fmt.Errorf("max.message.bytes of topic %s was %d, now %d", to.topic, was, now.maxBytes)
}
