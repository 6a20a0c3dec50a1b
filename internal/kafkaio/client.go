package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
)

// join becomes a member of the group.
func (s *Session) join(ctx context.Context) error {
	by := s.joinExactly
	if s.cfg.Delivery == AtLeastOnce {
		by = s.joinAcknowledged
	}
	m, err := by(ctx, newMembership())
	if err != nil {
		return fmt.Errorf("join group %q: %w", s.cfg.Group, err)
	}
	s.member.Store(m)
	s.failures = &failures{}
	return nil
}

// memberOptions are those of a client in the group.
func (s *Session) memberOptions(m *membership) []kgo.Opt {
	return slices.Concat(s.cfg.options(s.found.outputs.clone(), s.found.codec), s.found.fetching(), s.cfg.GroupProtocol.options(m), m.options(),
		[]kgo.Opt{kgo.WithDecompressor(s.opener)})
}

// fence initialises the transactional ID, which bumps its epoch. A coordinator
// that is being elected gets some time.
func (s *Session) fence(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.TxnTimeout)
	defer cancel()
	if err := persist(ctx, func() error { return s.tryFence(ctx) }); err != nil {
		return hinted("check that the transaction coordinator is up, and that we may write with this transactional ID",
			"take over transactional ID %q: %w", s.cfg.transactionalID(), err)
	}
	return nil
}

// tryFence takes a client of its own, which remembers a failure.
func (s *Session) tryFence(ctx context.Context) error {
	cl, err := kgo.NewClient(append(s.cfg.connection(),
		kgo.TransactionalID(s.cfg.transactionalID()), kgo.TransactionTimeout(s.cfg.TxnTimeout))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	_, _, err = cl.ProducerID(ctx)
	return err
}

// replacePatience is how long brokers may be away: until a new leader or coordinator
// is found, or one of them is started again.
const replacePatience = 2 * time.Minute

// replace gives up the member and becomes a new one, for when the old one's
// producer is beyond repair. All partitions are lost, and come again by
// assignment.
func (s *Session) replace(ctx context.Context, cause error) error {
	s.warn.warn("starting a new client", "cause", cause)
	for p := range s.parts {
		s.pending = append(s.pending, p)
		s.forget(p)
	}
	s.closeCycle()
	s.client().CloseAllowingRebalance()
	// What led here had a time of its own, which may be over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(replacePatience, 2*s.cfg.TxnTimeout))
	defer cancel()
	if err := persist(ctx, func() error { return s.join(ctx) }); err != nil {
		return fmt.Errorf("start a new client after %w: %w", cause, err)
	}
	return nil
}

// fenced is the error of a process whose identity another has taken.
func (s *Session) fenced(cause error) error {
	return hinted("give each process an --instance of its own; one that restarts keeps its name",
		"%s was taken over by another process: %w: %w", s.cfg.identity(), pipeline.ErrFenced, cause)
}

// rivalPatience is how long a process that took our transactional ID may need to
// join the group under our name.
const rivalPatience = 2 * time.Second

// hasRival asks the group whether another process is what we are. The answer
// no is certain only after another had the time to join.
func (s *Session) hasRival(ctx context.Context) (bool, error) {
	for began, try := time.Now(), 0; ; try++ {
		err := s.identify(ctx)
		if errors.Is(err, kerr.FencedInstanceID) {
			return true, nil
		}
		answered := err == nil || isFinal(err) || errors.Is(err, kerr.RebalanceInProgress)
		if answered && time.Since(began) > rivalPatience {
			return false, nil
		}
		if !answered && time.Since(began) > s.cfg.TxnTimeout {
			return false, fmt.Errorf("ask group %q whether another process is instance %q: %w", s.cfg.Group, s.cfg.Instance, err)
		}
		if err := pause(ctx, backoff(try)); err != nil {
			return false, err
		}
	}
}

// stillMember is whether nobody else can have had our partitions up to now. A
// rebalance that is being prepared has not taken any yet. It fails when another
// process is what we are: to join again would take the name back from it.
func (s *Session) stillMember(ctx context.Context) (bool, error) {
	as, _ := s.client().GroupMetadata()
	err := persist(ctx, func() error { return s.identify(ctx) })
	if err == nil || errors.Is(err, kerr.RebalanceInProgress) {
		return true, nil
	}
	if errors.Is(err, kerr.FencedInstanceID) {
		if s.joinedAgain(ctx, as) {
			return false, nil
		}
		return false, s.fenced(err)
	}
	if isFinal(err) {
		return false, nil
	}
	return false, fmt.Errorf("ask group %q whether we are a member: %w", s.cfg.Group, err)
}

// joinedAgain is whether the member that has our name is our own client: one that was
// thrown out joins anew by itself, as another member, and may still wait for the answer,
// which comes when all members have heard of it by a heartbeat.
func (s *Session) joinedAgain(ctx context.Context, as string) bool {
	patience := rivalPatience + heartbeat(s.cfg.SessionTimeout)
	for began, try := time.Now(), 0; time.Since(began) < patience; try++ {
		if id, _ := s.client().GroupMetadata(); id != "" && id != as {
			return true
		}
		if pause(ctx, backoff(try)) != nil {
			return false
		}
	}
	return false
}
