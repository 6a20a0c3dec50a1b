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
)

// GroupProtocol is how a group shares out its partitions.
type GroupProtocol uint8

const (
	// Classic: the members agree. A static member that restarts takes the place of
	// the one before at once.
	Classic GroupProtocol = iota
	// Consumer: the coordinator decides (KIP-848). A static member that died keeps
	// its place until its session ends, which is the broker's setting.
	Consumer
)

var groupProtocols = [...]string{"classic", "consumer"}

func (p GroupProtocol) String() string { return groupProtocols[p] }

// ParseGroupProtocol reads what String gives.
func ParseGroupProtocol(s string) (GroupProtocol, error) {
	for p, name := range groupProtocols {
		if s == name {
			return GroupProtocol(p), nil
		}
	}
	return 0, fmt.Errorf("unknown value %q: want %s or %s", s, Classic, Consumer)
}

// options choose the protocol, and say where the assignments are told.
func (p GroupProtocol) options(m *membership) []kgo.Opt {
	if p == Consumer {
		// The balancer is a name for the coordinator's own; of its assignments only
		// the callbacks tell.
		m.synced = nil
		return []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.ServerSideBalancer()}
	}
	return []kgo.Opt{kgo.Balancers(syncWatcher{kgo.CooperativeStickyBalancer(), m.sync})}
}

// endPatience is how long the end of a transaction may wait for the group. A
// member that was thrown out waits for its callback, which waits for us; and with
// the coordinator's protocol so does one whose assignment changes.
func (p GroupProtocol) endPatience() time.Duration {
	if p == Consumer {
		return 100 * time.Millisecond
	}
	return 2 * time.Second
}

// lookAtProtocol refuses brokers that do not have the protocol: the client would
// take the other without a word.
func lookAtProtocol(ctx context.Context, cfg Config, cl *kgo.Client) error {
	if cfg.GroupProtocol == Classic {
		return nil
	}
	versions, err := kadm.NewClient(cl).ApiVersions(ctx)
	if err != nil {
		return fmt.Errorf("ask the brokers for their versions: %w", err)
	}
	const hint = "use --group-protocol classic, or brokers from Kafka 4.0 on with `consumer` in group.coordinator.rebalance.protocols"
	for _, broker := range versions {
		// Since version 1 a member names itself, and kgo wants that.
		if highest, ok := broker.KeyMaxVersion(int16(kmsg.ConsumerGroupHeartbeat)); broker.Err == nil && (!ok || highest < 1) {
			return hinted(hint, "broker %d does not support --group-protocol %s", broker.NodeID, Consumer)
		}
	}
	if _, err := describeGroup(ctx, cl, cfg.Group); errors.Is(err, kerr.UnsupportedVersion) {
		return hinted(hint, "the brokers do not allow --group-protocol %s: %w", Consumer, err)
	}
	return nil // whatever else it is, joining says it better
}

// describeGroup asks the coordinator for the members of a group of the consumer
// protocol.
func describeGroup(ctx context.Context, cl *kgo.Client, group string) ([]kmsg.ConsumerGroupDescribeResponseGroupMember, error) {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	if len(resp.Groups) != 1 {
		return nil, fmt.Errorf("describe group %q: the broker answered for %d groups, asked for one", group, len(resp.Groups))
	}
	return resp.Groups[0].Members, kerr.ErrorForCode(resp.Groups[0].ErrorCode)
}

// identify asks the coordinator whether we are the member that we were. The error
// is FencedInstanceID when another has our name, and UnknownMemberID when nobody has.
func (s *Session) identify(ctx context.Context) error {
	if s.cfg.GroupProtocol == Classic {
		return s.heartbeat(ctx)
	}
	// A heartbeat of ours could take an assignment away from the client, which would
	// never hear of it.
	m := s.member.Load()
	id, _ := m.client.GroupMetadata()
	members, err := describeGroup(ctx, s.admin, s.cfg.Group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return kerr.UnknownMemberID
	}
	if err != nil {
		return err
	}
	err = kerr.UnknownMemberID
	for _, member := range members {
		switch {
		case member.MemberID == id && m.wasLost():
			// It is the same name, and not the same assignment.
		case member.MemberID == id:
			return nil
		case member.InstanceID != nil && *member.InstanceID == s.cfg.Instance:
			err = kerr.FencedInstanceID
		}
	}
	return err
}

// heartbeat is the question of the classic protocol.
func (s *Session) heartbeat(ctx context.Context) error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group = s.cfg.Group
	req.MemberID, req.Generation = s.client().GroupMetadata()
	req.InstanceID = &s.cfg.Instance
	resp, err := req.RequestWith(ctx, s.admin)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// leave takes the static member out of the group, which a client does not do
// when it closes.
func (s *Session) leave(ctx context.Context, id string) error {
	by := s.leaveClassic
	if s.cfg.GroupProtocol == Consumer {
		by = s.leaveConsumer
	}
	err := persist(ctx, func() error { return by(ctx, id) })
	switch {
	case err == nil, errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.FencedInstanceID), errors.Is(err, kerr.GroupIDNotFound):
		return nil // who is not in the group has left it
	case isFinal(err):
		return fmt.Errorf("leave group %q: %w", s.cfg.Group, err)
	}
	// All is committed; the others only get our partitions later.
	s.log.Warn("cannot leave the group: it finds out by the end of our session", "group", s.cfg.Group,
		"session_timeout", s.cfg.SessionTimeout, "error", err)
	return nil
}

func (s *Session) leaveClassic(ctx context.Context, id string) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = s.cfg.Group
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.InstanceID = id, &s.cfg.Instance
	m.Reason = kmsg.StringPtr("stopping")
	req.Members = append(req.Members, m)
	resp, err := req.RequestWith(ctx, s.admin)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil && len(resp.Members) == 1 {
		err = kerr.ErrorForCode(resp.Members[0].ErrorCode)
	}
	return err
}

// leaving is the epoch of a member that does not come back. The client's own
// goodbye keeps a static member's place.
const leaving = -1

func (s *Session) leaveConsumer(ctx context.Context, id string) error {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = s.cfg.Group, id, leaving
	req.InstanceID = &s.cfg.Instance
	resp, err := req.RequestWith(ctx, s.admin)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// unreleased notes that a member of our name keeps its place. It is one of a process
// that died, or of one that lives.
func (s *Session) unreleased() {
	switch {
	case s.unreleasedSince.IsZero():
		s.unreleasedSince = time.Now()
		s.log.Info("the process before us has not left the group: waiting for the end of its session, which is the brokers' group.consumer.session.timeout.ms",
			"group", s.cfg.Group, "instance", s.cfg.Instance)
	case time.Since(s.unreleasedSince) > 2*DefaultSessionTimeout:
		s.warn.warn("another process may be this instance: the group does not give its place free",
			"group", s.cfg.Group, "instance", s.cfg.Instance, "since", time.Since(s.unreleasedSince).Round(time.Second))
	}
}
