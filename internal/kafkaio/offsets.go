package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	err      error // why it is not known
}

// offsets are what the group has committed, by topic and partition.
type offsets map[pipeline.Partition]committed

func (o offsets) of(p pipeline.Partition) committed {
	if c, ok := o[p]; ok && c.next >= 0 {
		return c
	}
	return committed{next: -1}
}

// unknown is why one of these is not known, nil when all are.
func (o offsets) unknown(parts []pipeline.Partition) error {
	for _, p := range parts {
		if err := o[p].err; err != nil {
			return fmt.Errorf("partition %s: %w", p, err)
		}
	}
	return nil
}

// committed asks the group's coordinator for all offsets, of which those of some
// partitions must be known. It waits, until ctx ends, for transactions that are
// about to commit these, and for a coordinator. What a dead member has left open on
// other partitions holds nobody up.
func (s *Session) committed(ctx context.Context, of ...pipeline.Partition) (got offsets, err error) {
	ctx = s.warn.aloud(ctx, "cannot read the group's offsets yet, trying again", "group", s.cfg.Group)
	err = persist(ctx, func() error {
		if got, err = fetchOffsets(ctx, s.admin, s.cfg.Group, topicsOf(of)...); err == nil {
			err = got.unknown(of)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("fetch the offsets of group %q: %w", s.cfg.Group, err)
	}
	return got, nil
}

// topicsOf are the topics of some partitions.
func topicsOf(parts []pipeline.Partition) []string {
	topics := make([]string, len(parts))
	for i, p := range parts {
		topics[i] = p.Topic
	}
	return topics
}

// errUnnamed is why an answer with offsets says nothing of a topic.
var errUnnamed = errors.New("the brokers named a topic by its ID, and its name could not be asked for")

// groupOffsets asks for all offsets of a group. From version 10 on the answer names
// topics by their IDs, and the client asks for the names by itself. Where that fails it
// gives the answer without an error, and without the topic: as if the group had no offset
// there, which would begin it anew. So one of these topics that is missing from such an
// answer is an error; a topic is named with all its partitions, or not at all.
func groupOffsets(ctx context.Context, adm *kadm.Client, group string, of ...string) (kadm.OffsetResponses, error) {
	resp, err := adm.FetchOffsets(ctx, group)
	if _, unnamed := resp[""]; err != nil || !unnamed {
		return resp, err
	}
	for _, topic := range of {
		if _, named := resp[topic]; !named {
			return nil, errUnnamed
		}
	}
	delete(resp, "")
	return resp, nil
}

// fetchOffsets asks once, for these topics at least. What is not known of one partition
// is said with it.
func fetchOffsets(ctx context.Context, cl *kgo.Client, group string, of ...string) (offsets, error) {
	resp, err := groupOffsets(kadm.RequireStable(ctx), kadm.NewClient(cl), group, of...)
	if err != nil {
		return nil, err
	}
	got := offsets{}
	for topic, parts := range resp {
		for number, o := range parts {
			got[pipeline.Partition{Topic: topic, Number: number}] = committed{next: o.At, metadata: o.Metadata, err: o.Err}
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
		if isStale(err) || errors.Is(err, kerr.RebalanceInProgress) || errors.Is(err, kerr.UnknownMemberID) {
			return groupMoves(err)
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

// groupMoves is the error of a member whose group moves on: what it says next
// decides, and a retry asks for that.
func groupMoves(err error) error {
	return fmt.Errorf("%w: %v", errGroupMoves, err) //nolint:errorlint // wrapped, it would end the retries
}

func (s *Session) tryCommitStart(ctx context.Context, p pipeline.Partition, start committed) error {
	m := s.member.Load()
	req := s.offsetCommit(m)
	// Who we are was read before whether p is ours: the broker refuses the request
	// when that has changed since.
	if !m.ours(p) {
		return pipeline.ErrNotOurs
	}
	s.addOffset(req, pipeline.Position{Partition: p, Next: start.next, Metadata: start.metadata}, -1)
	return s.commitOffsets(ctx, req)
}

// offsetCommit is a commit of no offsets, as who we are now.
func (s *Session) offsetCommit(m *member) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = s.cfg.Group
	req.MemberID, req.Generation = m.client.GroupMetadata()
	req.InstanceID = &s.cfg.Instance
	return req
}

func (s *Session) addOffset(req *kmsg.OffsetCommitRequest, at pipeline.Position, epoch int32) {
	i := slices.IndexFunc(req.Topics, func(t kmsg.OffsetCommitRequestTopic) bool { return t.Topic == at.Partition.Topic })
	if i < 0 {
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic, topic.TopicID = at.Partition.Topic, s.found.inputs[at.Partition.Topic].id
		i = len(req.Topics)
		req.Topics = append(req.Topics, topic)
	}
	part := kmsg.NewOffsetCommitRequestTopicPartition()
	part.Partition, part.Offset, part.LeaderEpoch, part.Metadata = at.Partition.Number, at.Next, epoch, &at.Metadata
	req.Topics[i].Partitions = append(req.Topics[i].Partitions, part)
}

// commitOffsets asks once. Of several refusals the first is the error.
func (s *Session) commitOffsets(ctx context.Context, req *kmsg.OffsetCommitRequest) error {
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
