package kafkaio

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
)

// Session is a member of a consumer group that writes what it reads, as its
// [Delivery] says. It implements [pipeline.Session]: one goroutine calls it.
// [Session.Lag] and the restorer's questions may come from any other.
type Session struct {
	cfg   Config
	log   *slog.Logger
	warn  *warner
	admin *kgo.Client // for questions; never part of the group
	found found

	// member is who we are in the group. It is replaced when that is lost.
	member atomic.Pointer[member]

	parts    map[pipeline.Partition]*tenancy
	epoch    uint64
	pending  []pipeline.Partition // lost with a member, to be told by the next poll
	batches  batches
	opener   *opener
	failures *failures // of the member: what an old one still reports is no concern of the new
	slack    time.Duration
	lag      *lags
	watcher  *watcher
	trimmer  *logTrimmer

	copies    copies
	notCopied atomic.Uint64 // of cycles that were committed

	cycle  transaction
	logged []loggedRecord // of the open cycle
	aborts int            // in a row

	unreleasedSince time.Time // another member of our name is in the group, zero when none is known
}

var _ pipeline.Session = (*Session)(nil)

// member is one client in the group, what the group told it, and how it writes.
type member struct {
	*membership
	client   *kgo.Client
	delivery delivery
	// polled is when it was first polled, and admitted that the group's answer to its
	// joining is known, or was said to be missing.
	polled   time.Time
	admitted bool
}

// Open checks brokers and topics, ends what a predecessor left open, and joins
// the group. Nothing is read before [Session.Poll]. Its errors are [*Error]s
// where an operator can do something.
func Open(ctx context.Context, cfg Config) (*Session, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open kafka session: %w", err)
	}
	admin, err := kgo.NewClient(cfg.connection()...)
	if err != nil {
		return nil, fmt.Errorf("open kafka session: %w", err)
	}
	s := &Session{
		cfg: cfg, log: cfg.Logger, warn: newWarner(cfg.Logger), admin: admin,
		parts: map[pipeline.Partition]*tenancy{}, opener: newOpener(openMemory, errTooLarge), slack: firstSlack, lag: newLags(),
	}
	if err = checkScope(ctx, cfg, admin); err == nil {
		s.found, err = look(ctx, cfg, admin)
	}
	if err == nil {
		err = s.join(ctx)
	}
	if err != nil {
		admin.Close()
		return nil, err
	}
	s.watcher, s.trimmer = s.watch(), s.trimLogs()
	return s, nil
}

// Cluster is the ID of the Kafka cluster, empty where it has none.
func (s *Session) Cluster() string { return s.found.cluster }

// Partitions is how many partitions all inputs have together.
func (s *Session) Partitions() int32 {
	n := int32(0)
	for _, in := range s.found.inputs {
		n += in.partitions
	}
	return n
}

// Resume implements [pipeline.Session].
func (s *Session) Resume(p pipeline.Partition, next int64) uint64 {
	t := s.parts[p]
	if t == nil {
		return 0 // no batch has this epoch
	}
	if next != t.committed.offset {
		t.committed = mark{next, -1}
	}
	t.running, t.paused = true, false
	t.rewind(s.nextEpoch())
	s.lag.resume(p, next)
	s.seek(p)
	s.gate(p, t)
	return t.epoch
}

// Halt implements [pipeline.Session].
func (s *Session) Halt(p pipeline.Partition) {
	if t := s.parts[p]; t != nil {
		t.running = false
		s.lag.halt(p)
		s.gate(p, t)
	}
}

// gate lets the client read p, or not.
func (s *Session) gate(p pipeline.Partition, t *tenancy) {
	one := map[string][]int32{p.Topic: {p.Number}}
	if t.running && !t.paused && t.large == nil {
		s.client().ResumeFetchPartitions(one)
	} else {
		s.client().PauseFetchPartitions(one)
	}
}

// seek makes the client read the partitions where their tenancies say.
func (s *Session) seek(parts ...pipeline.Partition) {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, p := range parts {
		if offsets[p.Topic] == nil {
			offsets[p.Topic] = map[int32]kgo.EpochOffset{}
		}
		t := s.parts[p]
		offsets[p.Topic][p.Number] = kgo.EpochOffset{Epoch: t.next.epoch, Offset: t.position()}
	}
	s.client().SetOffsets(offsets)
}

// reseek makes the client read p anew, also where it believes to do so already.
func (s *Session) reseek(p pipeline.Partition) {
	at := s.parts[p].position()
	for _, offset := range []int64{at + 1, at} {
		s.client().SetOffsets(map[string]map[int32]kgo.EpochOffset{p.Topic: {p.Number: {Epoch: -1, Offset: offset}}})
	}
}

// Release implements [pipeline.Session].
func (s *Session) Release() { s.client().AllowRebalance() }

func (s *Session) client() *kgo.Client { return s.member.Load().client }

// Close implements [pipeline.Session]. A member that does not leave gets its
// partitions back when it restarts within the session timeout; one that leaves
// gives them to the others now.
func (s *Session) Close(ctx context.Context, leave bool) error {
	s.watcher.close()
	s.trimmer.close()
	defer s.admin.Close()
	s.closeCycle() // a callback may wait for it
	m := s.member.Load()
	id, _ := m.client.GroupMetadata()
	if !depart(ctx, m.client) {
		s.log.Warn("going without the group's answer to our joining: it finds out by the end of our session", "group", s.cfg.Group,
			"session_timeout", s.cfg.SessionTimeout)
		return nil
	}
	if !leave || id == "" {
		return nil
	}
	return s.leave(ctx, id)
}

// depart closes a member's client. That waits for the group's answer where the client is
// joining, which is as long as a member that died keeps its place: false says that ctx
// ended before.
func depart(ctx context.Context, client *kgo.Client) bool {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		client.CloseAllowingRebalance()
	}()
	select {
	case <-closed:
		return true
	case <-ctx.Done():
		return false
	}
}
