package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
)

// transaction is the open cycle.
type transaction struct {
	open  bool
	since time.Time // when it began, before the broker heard of it
	// sending ends when what is not sent by then can no longer be committed. An
	// output that does not answer must not hold the engine for ever.
	sending context.Context //nolint:containedctx // it lives as long as the transaction
	release context.CancelFunc
	// broken is why it could not begin.
	broken error
	// flush waits for the answers to its output, nil while it may get more.
	flush *flush
	// spoilt is why it must not commit.
	spoilt error
	// uncopied are the duplicates in it that were too large to be copied.
	uncopied uint64
}

// begin begins a transaction unless one is open. It reports false when none can
// be: the commit then settles why.
func (s *Session) begin() bool {
	if s.cycle.open || s.cycle.broken != nil {
		return s.cycle.broken == nil
	}
	s.cycle.since = time.Now()
	s.cycle.sending, s.cycle.release = context.WithTimeout(context.Background(), s.cfg.TxnTimeout/2)
	if err := s.member.Load().delivery.begin(); err != nil {
		s.cycle.broken = fmt.Errorf("begin a transaction: %w", err)
		return false
	}
	s.cycle.open = true
	return true
}

// closeCycle forgets the open cycle, which has ended.
func (s *Session) closeCycle() {
	if s.cycle.release != nil {
		s.cycle.release()
	}
	s.cycle = transaction{}
}

// flush is a wait for all answers of the client, beside the session's own goroutine.
type flush struct {
	answered context.Context //nolint:containedctx // its end is the signal, for a channel and for polls
	err      error           // once it has ended
}

// startFlush waits until the client has answered for all records, or ctx ends.
func startFlush(ctx context.Context, client *kgo.Client) *flush {
	answered, end := context.WithCancel(context.Background())
	f := &flush{answered: answered}
	go func() {
		defer end()
		f.err = client.Flush(ctx)
	}()
	return f
}

// wait is why the client did not answer for all.
func (f *flush) wait() error {
	<-f.answered.Done()
	return f.err
}

// Finish implements [pipeline.Session]. Why a cycle cannot be finished is for the
// commit to say.
func (s *Session) Finish(positions []pipeline.Position) <-chan struct{} {
	if !s.begin() || s.complete(positions) != nil {
		return closed
	}
	s.member.Load().delivery.before(positions)
	s.cycle.flush = startFlush(s.cycle.sending, s.client())
	return s.cycle.flush.answered.Done()
}

// closed is a channel that nobody waits for.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Commit implements [pipeline.Session]. It does not heed the end of ctx: a commit
// that is given up half-way is one whose end nobody knows.
func (s *Session) Commit(ctx context.Context, positions []pipeline.Position) (pipeline.CommitResult, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.TxnTimeout)
	defer cancel()
	if !s.begin() {
		return s.abort(ctx, nil)
	}
	if err := errors.Join(s.cycle.spoilt, s.complete(positions)); err != nil {
		return s.abort(ctx, err)
	}
	if s.cycle.flush == nil {
		s.Finish(positions)
	}
	if err := s.cycle.flush.wait(); err != nil || s.failures.any.Load() {
		return s.abort(ctx, err)
	}
	return s.member.Load().delivery.commit(ctx, positions)
}

// done is the result of a cycle that is durable.
func (s *Session) done(positions []pipeline.Position) pipeline.CommitResult {
	s.keep(positions)
	s.copies.passed(s.parts)
	s.notCopied.Add(s.cycle.uncopied)
	s.closeCycle()
	s.aborts = 0
	return pipeline.CommitResult{Settlement: pipeline.Committed, Gone: s.gone(), Logged: s.logEnds()}
}

// complete checks that each partition whose records are in the transaction is
// among the positions: else they would come out again.
func (s *Session) complete(positions []pipeline.Position) error {
	named := make(map[pipeline.Partition]bool, len(positions))
	for _, position := range positions {
		named[position.Partition] = true
	}
	for p, t := range s.parts {
		if t.delivered != t.committed && !named[p] {
			return fmt.Errorf("records of %s are in a transaction without its position", p)
		}
	}
	return nil
}

// keep notes what was committed.
func (s *Session) keep(positions []pipeline.Position) {
	for _, position := range positions {
		if t := s.parts[position.Partition]; t != nil {
			t.committed = mark{position.Next, t.delivered.epoch}
			s.lag.committed(position.Partition, position.Next)
			if position.Change != nil {
				s.trimmer.committed(position.Partition, position.Change)
			}
			// A partition that stopped in the middle of a batch has done less than was
			// handed over. Nothing of the rest is in any transaction.
			t.delivered = t.committed
		}
	}
}

// gone are partitions that the group has given away; they are forgotten.
func (s *Session) gone() []pipeline.Partition {
	var gone []pipeline.Partition
	for p := range s.parts {
		if !s.member.Load().ours(p) {
			gone = append(gone, p)
			s.forget(p)
		}
	}
	return gone
}

// running are the partitions that are read.
func (s *Session) running() []pipeline.Partition {
	var running []pipeline.Partition
	for p, t := range s.parts {
		if t.running {
			running = append(running, p)
		}
	}
	return running
}

// Abort implements [pipeline.Session].
func (s *Session) Abort(ctx context.Context) (pipeline.CommitResult, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.TxnTimeout)
	defer cancel()
	return s.abort(ctx, nil)
}

// abort takes the cycle back; nobody has asked for its commit. Cause is why, or
// nil when a record's failure says it.
func (s *Session) abort(ctx context.Context, cause error) (pipeline.CommitResult, error) {
	delivery := s.member.Load().delivery
	var open error
	if s.cycle.open {
		met, err := delivery.takeBack(ctx)
		cause, open = errors.Join(cause, met), err
	}
	// Only now has every record its answer.
	refused, first := s.failures.take()
	cause = errors.Join(cause, first)
	if open != nil || s.cycle.broken != nil {
		return delivery.giveUp(ctx, errors.Join(cause, s.cycle.broken), open)
	}
	refusals, stale := s.blame(ctx, refused, first)
	if stale != nil {
		return s.lost(ctx, stale)
	}
	return s.rolledBack(ctx, cause, refusals)
}

// rolledBack is the result of a cycle that is undone: reading goes on where it
// began, after a pause that grows while nothing commits. It fails where it would
// end the same way for ever.
func (s *Session) rolledBack(ctx context.Context, cause error, refusals []pipeline.Refusal) (pipeline.CommitResult, error) {
	if err := s.hopeless(ctx, cause); err != nil {
		return pipeline.CommitResult{}, err
	}
	s.closeCycle()
	result := pipeline.CommitResult{
		Settlement: pipeline.Aborted, Cause: cause, Refused: refusals,
		Gone: s.gone(), Epochs: map[pipeline.Partition]uint64{},
	}
	for _, p := range s.running() {
		t := s.parts[p]
		t.rewind(s.nextEpoch())
		result.Epochs[p] = t.epoch
		s.gate(p, t)
	}
	s.seek(s.running()...)
	if s.aborts++; s.aborts > 1 {
		// The client may go by what a broker told it that did not know of new partitions
		// yet, and would for minutes.
		s.client().ForceMetadataRefresh()
		_ = pause(ctx, backoff(s.aborts)) // an early end of a pause is no failure
	}
	return result, nil
}

// hopeless is why no retry of a cycle that met cause can help, nil if one can.
func (s *Session) hopeless(ctx context.Context, cause error) error {
	switch {
	case isForbidden(cause):
		return hinted("grant the right on the brokers, or check the credentials",
			"write as %s and commit as group %q: %w", s.cfg.identity(), s.cfg.Group, cause)
	case errors.Is(cause, kerr.InvalidRecord):
		return hinted("a topic with cleanup.policy=compact takes no record without a key: change its policy, or name another output",
			"the output refuses a record: %w", cause)
	case errors.Is(cause, kerr.UnknownTopicID), s.aborts > 1:
		return s.madeAnew(ctx, cause)
	}
	return nil
}

// madeAnew is an error if a topic that we write to is not the one that it was, or is
// no more: the client goes on asking for that. Only a second look says that it is no
// more.
func (s *Session) madeAnew(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	written, gone := s.written(), map[string]bool{}
	for {
		details, err := kadm.NewClient(s.admin).ListTopics(ctx, slices.Collect(maps.Keys(written))...)
		if err != nil {
			return nil
		}
		missing := false
		for topic, was := range written {
			if err := was.another(topic, details[topic], gone[topic]); err != nil {
				return fmt.Errorf("%w: %w", err, cause)
			}
			gone[topic] = isMissing(details[topic])
			missing = missing || gone[topic]
		}
		if !missing || pause(ctx, secondLook) != nil {
			return nil
		}
	}
}

// secondLook is how much later madeAnew looks again: a broker that has just come back
// knows its topics by then.
const secondLook = time.Second
