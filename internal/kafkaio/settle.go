package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamdedup/streamdedup/pipeline"
)

// settle finds out how a commit ended that did not answer yes. An error of a
// commit says nothing about it, and neither does kgo's plain no, which may stand
// for an unclear answer that it turned into an abort. First what may be open is
// closed: after that nobody can change the outcome. Then the group's own offsets
// say what it is.
func (s *exactly) settle(ctx context.Context, positions []pipeline.Position, cause error) (pipeline.CommitResult, error) {
	if cause == nil {
		// kgo does not say which: an offset commit that meets a rebalance, or the
		// markers of the transaction before it, is aborted alike.
		cause = errors.New("the group was rebalancing, or the last transaction was not finished")
	}
	// It may take as long again, and of a transaction that timed out the broker
	// takes its time: the answer is worth waiting for.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*s.cfg.TxnTimeout)
	defer cancel()
	if isFenced(cause) {
		// Before anything else: to initialise the ID anew would fence the other.
		rival, err := s.hasRival(ctx)
		if err != nil {
			return pipeline.CommitResult{}, fmt.Errorf("%w: %w", cause, err)
		}
		if rival {
			return pipeline.CommitResult{}, s.fenced(cause)
		}
	}
	if err := s.shut(ctx); err != nil {
		return s.lostIdentity(ctx, cause, err)
	}
	s.cycle.open = false
	parts := make([]pipeline.Partition, len(positions))
	for i := range positions {
		parts[i] = positions[i].Partition
	}
	offsets, err := s.committed(ctx, parts...)
	if err != nil {
		return s.unsettled(ctx, cause, err)
	}
	// Another owner may have read the same, and committed the same, and would then
	// be taken for us. While we are a member there is none.
	member, err := s.stillMember(ctx)
	if err != nil {
		return s.unsettled(ctx, cause, err)
	}
	if !member {
		return s.lost(ctx, fmt.Errorf("the group has thrown us out: %w", cause))
	}
	switch s.outcome(positions, offsets) {
	case pipeline.Committed:
		s.warn.warn("a commit failed by its answer and is done by the group's offsets", "error", cause)
		result := s.done(positions)
		s.seek(s.running()...) // the client has gone back to the cycle's start
		return result, nil
	case pipeline.Aborted:
		return s.rolledBack(ctx, cause, nil)
	}
	return s.lost(ctx, fmt.Errorf("the group's offsets are neither those before the transaction nor those after it: %w", cause))
}

// unsettled is the result of a cycle of which nobody has said how it ended. Where only
// the time was over, the restore asks the same, and has more of it.
func (s *exactly) unsettled(ctx context.Context, cause, err error) (pipeline.CommitResult, error) {
	err = fmt.Errorf("find out whether a transaction was committed (%w): %w", cause, err)
	if ctx.Err() != nil && !errors.Is(err, pipeline.ErrFenced) {
		return s.lost(ctx, err)
	}
	return pipeline.CommitResult{}, err
}

// outcome compares what the group has with the end and the start of the cycle.
func (s *Session) outcome(positions []pipeline.Position, offsets offsets) pipeline.Settlement {
	ends, starts := 0, 0
	for _, position := range positions {
		at := offsets.of(position.Partition)
		t := s.parts[position.Partition]
		// The metadata, too: a position that has not moved may have news beside it.
		if at.next == position.Next && at.metadata == position.Metadata {
			ends++
		}
		if t != nil && at.next == t.committed.offset {
			starts++
		}
	}
	switch len(positions) {
	case ends:
		return pipeline.Committed
	case starts:
		return pipeline.Aborted
	}
	return pipeline.Lost
}

// lostIdentity settles a cycle whose producer the broker no longer accepts, or
// cannot be made to answer. Cause is what the cycle met, open why its transaction
// could not be ended.
func (s *exactly) lostIdentity(ctx context.Context, cause, open error) (pipeline.CommitResult, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*s.cfg.TxnTimeout)
	defer cancel()
	all := errors.Join(cause, open)
	// Who heard nothing for long may have been fenced, too.
	rival, err := s.showsRival(ctx), error(nil)
	if !rival && (isFenced(all) || isForgotten(all)) {
		rival, err = s.hasRival(ctx)
	}
	if err != nil {
		return pipeline.CommitResult{}, fmt.Errorf("%w: %w", all, err)
	}
	// The broker says fenced to a producer whose transaction timed out, too. And
	// before transaction.version 2 it says so to whoever initialises the ID anew
	// over an open transaction: it fences the epoch that it aborts, ours.
	timedOut := s.cycle.open && time.Since(s.cycle.since) >= s.cfg.TxnTimeout
	if rival || isFenced(cause) && !timedOut {
		return pipeline.CommitResult{}, s.fenced(all)
	}
	return s.lost(ctx, all)
}

// showsRival asks the group once, and not for long, whether another process is
// what we are.
func (s *Session) showsRival(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, rivalPatience)
	defer cancel()
	return errors.Is(s.identify(ctx), kerr.FencedInstanceID)
}

// lost gives everything up: whatever the outcome was, the restore finds it.
func (s *Session) lost(ctx context.Context, cause error) (pipeline.CommitResult, error) {
	if err := s.replace(ctx, cause); err != nil {
		return pipeline.CommitResult{}, err
	}
	return pipeline.CommitResult{Settlement: pipeline.Lost, Cause: cause}, nil
}
