package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamdedup/streamdedup/pipeline"
)

// committed is what the group has for one partition.
type committed struct {
	next     int64 // -1 when there is none
	metadata string
}

// offsets are what the group has committed, by topic and partition.
type offsets map[pipeline.Partition]committed

func (o offsets) of(p pipeline.Partition) committed {
	if c, ok := o[p]; ok && c.next >= 0 {
		return c
	}
	return committed{next: -1}
}

// quiet is how long waiting for the group's offsets is nothing to talk about.
const quiet = 5 * time.Second

// committed asks the group's coordinator for all offsets. It waits, until ctx
// ends, for transactions that are about to commit some, and for a coordinator.
func (s *Session) committed(ctx context.Context) (got offsets, err error) {
	began := time.Now()
	err = persist(ctx, func() error {
		got, err = fetchOffsets(ctx, s.admin, s.cfg.Group)
		if err != nil && !isFinal(err) && time.Since(began) > quiet {
			s.warn.warn("cannot read the group's offsets yet, trying again", "group", s.cfg.Group,
				"since", time.Since(began).Round(time.Second), "error", err)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("fetch the offsets of group %q: %w", s.cfg.Group, err)
	}
	return got, nil
}

func fetchOffsets(ctx context.Context, cl *kgo.Client, group string) (offsets, error) {
	resp, err := kadm.NewClient(cl).FetchOffsets(kadm.RequireStable(ctx), group)
	if err != nil {
		return nil, err
	}
	got := offsets{}
	for topic, parts := range resp {
		for number, o := range parts {
			p := pipeline.Partition{Topic: topic, Number: number}
			if o.Err != nil {
				return nil, fmt.Errorf("partition %s: %w", p, o.Err)
			}
			got[p] = committed{next: o.At, metadata: o.Metadata}
		}
	}
	return got, nil
}

// none is how long the group must have no offset for a partition to be new to
// it. A coordinator that is being replaced can say none for a moment.
const none = 200 * time.Millisecond

// commitStart commits where p begins, as the member that has it. It fails with
// pipeline.ErrNotOurs when that is no longer us: the next owner commits its own.
func (s *Session) commitStart(ctx context.Context, p pipeline.Partition, start committed) error {
	err := persist(ctx, func() error {
		err := s.tryCommitStart(ctx, p, start)
		if errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.RebalanceInProgress) || errors.Is(err, kerr.UnknownMemberID) {
			// The group moves on; what it says next decides. No retry of the same.
			return fmt.Errorf("%w: %v", errGroupMoves, err) //nolint:errorlint // wrapped, it would end the retries
		}
		return err
	})
	if errors.Is(err, kerr.FencedInstanceID) {
		return s.fenced(err)
	}
	if err != nil {
		return fmt.Errorf("commit the start of %s: %w", p, err)
	}
	return nil
}

var errGroupMoves = errors.New("the group is rebalancing")

func (s *Session) tryCommitStart(ctx context.Context, p pipeline.Partition, start committed) error {
	m := s.member.Load()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = s.cfg.Group
	// Who we are is read before whether p is ours: the broker refuses the request
	// when that has changed since.
	req.MemberID, req.Generation = m.group.Client().GroupMetadata()
	req.InstanceID = &s.cfg.Instance
	if !m.ours(p) {
		return pipeline.ErrNotOurs
	}
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = p.Topic, s.found.inputs[p.Topic].id
	part := kmsg.NewOffsetCommitRequestTopicPartition()
	part.Partition, part.Offset, part.Metadata = p.Number, start.next, &start.metadata
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, s.admin)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, part := range t.Partitions {
			if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}
