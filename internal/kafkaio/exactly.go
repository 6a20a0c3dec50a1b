package kafkaio

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamdedup/streamdedup/pipeline"
)

// exactly commits output and positions in one transaction: [ExactlyOnce].
type exactly struct {
	*Session
	group *kgo.GroupTransactSession
	m     *membership
	// open is held while a transaction is.
	open sync.Mutex
}

// joinExactly first takes over the transactional ID: that ends what a predecessor
// left open, at once and not by its time-out, and keeps a predecessor that still
// runs from committing. Only then may offsets be read, which a client in a group
// does by itself.
func (s *Session) joinExactly(ctx context.Context, m *membership) (*member, error) {
	if err := s.fence(ctx); err != nil {
		return nil, err
	}
	// Input offsets and output are one transaction, under an identity that a
	// restarted process shares with its predecessor.
	e, made := &exactly{Session: s, m: m}, make(chan struct{})
	if s.cfg.GroupProtocol == Consumer {
		// The client assigns something, or nothing, between any two revocations. A
		// transaction that ends here lets it tell of the second one, too.
		m.assigned = func() {
			<-made
			e.open.Lock()
			defer e.open.Unlock()
			e.between(context.Background())
		}
	}
	opts := append(s.memberOptions(m), kgo.TransactionalID(s.cfg.transactionalID()), kgo.TransactionTimeout(s.cfg.TxnTimeout))
	group, err := kgo.NewGroupTransactSession(opts...)
	if err != nil {
		return nil, err
	}
	e.group = group
	close(made)
	// Now and not, as kgo would, with the first transaction: by then another may
	// have our name, and we would take it back.
	if _, _, err := group.Client().ProducerID(ctx); err != nil {
		group.CloseAllowingRebalance()
		return nil, fmt.Errorf("take over transactional ID %q: %w", s.cfg.transactionalID(), err)
	}
	return &member{membership: m, client: group.Client(), delivery: e}, nil
}

func (s *exactly) begin() error {
	s.open.Lock()
	ended := s.cycle.release
	s.cycle.release = func() {
		ended()
		s.open.Unlock()
	}
	s.m.begin()
	return s.group.Begin()
}

// before makes the changes part of the transaction.
func (s *exactly) before(positions []pipeline.Position) { s.logChanges(positions) }

func (s *exactly) commit(ctx context.Context, positions []pipeline.Position) (pipeline.CommitResult, error) {
	committed, err := s.end(ctx, positions)
	if err != nil || !committed {
		return s.settle(ctx, positions, err)
	}
	return s.done(positions), nil
}

func (s *exactly) giveUp(ctx context.Context, cause, open error) (pipeline.CommitResult, error) {
	return s.lostIdentity(ctx, cause, open)
}

// between tells kgo that a revocation between two transactions need not end the
// next one: what was taken away is dropped, and no part of it.
func (s *exactly) between(ctx context.Context) {
	if !s.m.unflag() {
		return
	}
	if _, err := s.group.End(context.WithoutCancel(ctx), kgo.TryAbort); err != nil {
		// Then the next transaction aborts, and is read again.
		s.warn.warn("cannot clear the state of a finished transaction", "error", err)
	}
}

// yield lets assignments change after a time, unless it is stopped before. Once it is
// stopped it does nothing more.
func (s *exactly) yield(after time.Duration) (stop func()) {
	var mu sync.Mutex
	stopped := false
	timer := time.AfterFunc(after, func() {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			s.group.AllowRebalance()
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// end commits output and positions.
func (s *exactly) end(ctx context.Context, positions []pipeline.Position) (committed bool, err error) {
	defer s.yield(s.cfg.GroupProtocol.endPatience())()
	s.m.unflag() // End clears what is flagged up to now, and aborts for it
	return s.group.End(kgo.PreTxnCommitFnContext(ctx, func(req *kmsg.TxnOffsetCommitRequest) error {
		req.Topics = s.offsets(positions)
		return nil
	}), kgo.TryCommit)
}

// offsets are the positions as Kafka wants them. What the client has polled does
// not matter: only what the shards have judged is done.
func (s *exactly) offsets(positions []pipeline.Position) []kmsg.TxnOffsetCommitRequestTopic {
	var topics []kmsg.TxnOffsetCommitRequestTopic
	at := map[string]int{}
	for _, position := range positions {
		name := position.Partition.Topic
		if _, ok := at[name]; !ok {
			topic := kmsg.NewTxnOffsetCommitRequestTopic()
			topic.Topic, topic.TopicID = name, s.found.inputs[name].id
			at[name] = len(topics)
			topics = append(topics, topic)
		}
		part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset = position.Partition.Number, position.Next
		part.Metadata = kmsg.StringPtr(position.Metadata)
		if t := s.parts[position.Partition]; t != nil {
			part.LeaderEpoch = t.delivered.epoch
		}
		topic := &topics[at[name]]
		topic.Partitions = append(topic.Partitions, part)
	}
	return topics
}

// takeBack ends the open transaction so that nothing of it remains. Of its
// errors the first is what an abort met, the second why it is still open.
func (s *exactly) takeBack(ctx context.Context) (met, open error) {
	s.m.unflag()
	if _, met = s.group.End(ctx, kgo.TryAbort); met != nil {
		return met, s.shut(ctx)
	}
	// kgo leaves it to the next beginning to say that the broker refuses our producer,
	// when nobody knows any more what led to it. No answer is no refusal.
	if err := s.producer(ctx); isFinal(err) {
		return nil, err
	}
	return nil, nil
}

// shut ends what may be open after an unclear answer: the client initialises its
// producer anew, which aborts it. kgo calls that done also when it was not, so it
// is asked for until the broker has answered.
func (s *exactly) shut(ctx context.Context) error {
	if err := s.group.Client().EndTransaction(ctx, kgo.TryAbort); err != nil {
		return err
	}
	return persist(ctx, func() error { return s.producer(ctx) })
}

// producer initialises our producer unless it is.
func (s *exactly) producer(ctx context.Context) error {
	_, _, err := s.group.Client().ProducerID(ctx)
	if err != nil {
		return fmt.Errorf("initialise transactional ID %q: %w", s.cfg.transactionalID(), err)
	}
	return nil
}
