package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
)

// acknowledged commits positions after the output was acknowledged: [AtLeastOnce].
// What lies between the two when a process dies is read, and written, again.
type acknowledged struct {
	*Session
	m *member
}

// joinAcknowledged takes nothing over: the group itself replaces a static member by
// who joins under its name, and refuses the commits of the one before.
func (s *Session) joinAcknowledged(_ context.Context, m *membership) (*member, error) {
	client, err := kgo.NewClient(append(s.memberOptions(m),
		// An output that does not answer must not hold a cycle for ever. What is given
		// up then may be written all the same, and again.
		kgo.AllowIdempotentProduceCancellation())...)
	if err != nil {
		return nil, err
	}
	joined := &member{membership: m, client: client}
	joined.delivery = &acknowledged{s, joined}
	return joined, nil
}

func (s *acknowledged) begin() error { return nil }

func (s *acknowledged) between(context.Context) {}

// takeBack gives up what is not written yet.
func (s *acknowledged) takeBack(ctx context.Context) (met, open error) {
	return nil, s.m.client.AbortBufferedRecords(ctx)
}

func (s *acknowledged) giveUp(ctx context.Context, cause, open error) (pipeline.CommitResult, error) {
	return s.lost(ctx, errors.Join(cause, open))
}

// stalePatience is how long the group may know more of us than we do: it has
// answered our joining, and the answer is on its way.
const stalePatience = 2 * time.Second

func (s *acknowledged) before([]pipeline.Position) {}

// log writes the changes, which say that their output is durable. Where that is not
// known to be done, the restore finds out.
func (s *acknowledged) log(positions []pipeline.Position) error {
	s.logChanges(positions)
	err := s.m.client.Flush(s.cycle.sending)
	_, first := s.failures.take()
	return errors.Join(err, first)
}

// commit does not ask what became of a request without an answer: the same request
// again is the question. While we are the member that read the records nobody else
// can have committed, and once we are not it is refused.
func (s *acknowledged) commit(ctx context.Context, positions []pipeline.Position) (pipeline.CommitResult, error) {
	if err := s.log(positions); err != nil {
		return s.broken(ctx, fmt.Errorf("log the changes: %w", err))
	}
	var stale time.Time
	err := persist(ctx, func() error {
		err := s.tryCommit(ctx, positions)
		if isStale(err) && stale.IsZero() {
			stale = time.Now()
		}
		// A rebalance ends at some time, with us or without.
		if errors.Is(err, kerr.RebalanceInProgress) || isStale(err) && time.Since(stale) < stalePatience {
			return groupMoves(err)
		}
		return err
	})
	switch {
	case err == nil:
		return s.done(positions), nil
	case errors.Is(err, kerr.FencedInstanceID):
		return pipeline.CommitResult{}, s.fenced(err)
	}
	return s.broken(ctx, fmt.Errorf("commit the positions: %w", err))
}

// broken is the result of a cycle whose output is durable and whose rest may not be.
func (s *acknowledged) broken(ctx context.Context, cause error) (pipeline.CommitResult, error) {
	if err := s.hopeless(ctx, cause); err != nil {
		return pipeline.CommitResult{}, err
	}
	return s.lost(ctx, cause)
}

// tryCommit commits all positions in one request.
func (s *acknowledged) tryCommit(ctx context.Context, positions []pipeline.Position) error {
	req := s.offsetCommit(s.m)
	for _, position := range positions {
		epoch := nowhere.epoch
		if t := s.parts[position.Partition]; t != nil {
			epoch = t.delivered.epoch
		}
		s.addOffset(req, position, epoch)
	}
	return s.commitOffsets(ctx, req)
}
