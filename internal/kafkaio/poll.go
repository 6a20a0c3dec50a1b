package kafkaio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
)

// Poll implements [pipeline.Session]. Its errors are fatal.
func (s *Session) Poll(ctx context.Context, wait time.Duration) (pipeline.Polled, error) {
	if !s.cycle.open {
		s.batches.recycle()
	}
	if s.hasLarge() {
		wait = 0
	}
	fetches := s.fetch(ctx, wait)
	s.opener.release()
	polled := pipeline.Polled{Lost: s.pending}
	s.pending = nil
	s.news(&polled)
	s.admission()
	if err := errors.Join(s.fit(polled.Assigned), s.watcher.found()); err != nil {
		return polled, err
	}
	if !s.cycle.open {
		s.member.Load().delivery.between(ctx)
	}
	for p, t := range s.parts {
		if t.running && t.failed != nil {
			s.trouble(ctx, p, t, t.failed, &polled)
			t.failed = nil
		}
	}
	now := time.Now().UnixMilli()
	for _, f := range fetches {
		for _, topic := range f.Topics {
			for i := range topic.Partitions {
				if err := s.accept(ctx, topic.Topic, &topic.Partitions[i], now, &polled); err != nil {
					return polled, err
				}
			}
		}
	}
	s.readLarge(ctx, now, &polled)
	return polled, nil
}

// admissionPatience is how long a group that has no dead member takes at most.
const admissionPatience = 5 * time.Second

// admission says, once, that the group has not answered yet: nothing else would show
// why nothing is read.
func (s *Session) admission() {
	m := s.member.Load()
	if m.polled.IsZero() {
		m.polled = time.Now()
	}
	if m.admitted || time.Since(m.polled) < admissionPatience {
		return
	}
	m.admitted = true
	if _, generation := m.client.GroupMetadata(); generation < 0 {
		s.log.Info("the group has not admitted us yet: a member that died keeps its place, and its partitions, until its session is over",
			"group", s.cfg.Group, "session_timeout", s.cfg.SessionTimeout)
	}
}

// fit is an error when a partition is assigned that the input did not have at the
// start: the client may know of it before the watcher.
func (s *Session) fit(assigned []pipeline.Assigned) error {
	for _, a := range assigned {
		if had := s.found.inputs[a.Partition.Topic]; a.Partition.Number >= had.partitions {
			return grown(a.Partition.Topic, had, a.Partition.Number+1)
		}
	}
	return nil
}

// fetch waits for records, a change of assignment, or the end of wait.
func (s *Session) fetch(ctx context.Context, wait time.Duration) kgo.Fetches {
	m := s.member.Load()
	wakeFetches(m.client)
	if wait <= 0 {
		return ready(m.client)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if s.cycle.flush != nil {
		defer context.AfterFunc(s.cycle.flush.answered, cancel)()
	}
	if m.waiting(cancel) {
		return ready(m.client)
	}
	defer m.waiting(nil)
	return m.client.PollFetches(ctx)
}

// ready takes what the client has, and does not wait. kgo's own poll of that kind does
// not keep assignments from changing where it finds nothing, as all others do; but what
// was read ahead is delivered after it, and its partition must still be ours by then.
func ready(client *kgo.Client) kgo.Fetches {
	if fetches := client.PollFetches(nil); len(fetches) > 0 { //nolint:staticcheck // kgo: nil takes what is there
		return fetches
	}
	return client.PollFetches(over)
}

// over is a context that has ended.
var over = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// wakeFetches makes the client look again for partitions to fetch. A seek, or a change
// of assignment, stops its fetches and starts them anew; one that was just about to
// begin then ends without having seen the new start, and without asking for another
// (kgo's loopFetch, between loadSession and incWorker). Nothing of that broker would be
// read any more, for good. To resume nothing is its only call that starts a fetch and
// changes nothing.
func wakeFetches(client *kgo.Client) { client.ResumeFetchPartitions(nil) }

// accept takes what one fetch has for one partition.
func (s *Session) accept(ctx context.Context, topic string, got *kgo.FetchPartition, now int64, polled *pipeline.Polled) error {
	p := pipeline.Partition{Topic: topic, Number: got.Partition}
	t := s.parts[p]
	if t == nil && got.Err != nil {
		return s.ofGroup(got.Err)
	}
	if t == nil || !t.running {
		if t != nil && t.next == nowhere && got.Err != nil {
			t.failed = got.Err // it will not be read when it is resumed
		}
		return nil
	}
	if t.large != nil {
		return nil // it is read in another way for now
	}
	if s.take(ctx, p, t, got.Records, got.LastStableOffset, now, polled) && got.Err != nil {
		s.trouble(ctx, p, t, got.Err, polled)
	}
	return nil
}

// take makes a batch of records that were read of a partition. It reports false where
// they stop it.
func (s *Session) take(ctx context.Context, p pipeline.Partition, t *tenancy, records []*kgo.Record, stable, now int64, polled *pipeline.Polled) bool {
	s.lag.stable(p, stable)
	b, err := s.admit(ctx, p, t, records, now)
	if err != nil {
		s.stop(ctx, p, t, err, polled)
		return false
	}
	if b != nil {
		b.Stable = stable
		polled.Batches = append(polled.Batches, b)
	}
	return true
}

// trouble judges an error of a partition that we read. Not all that the client
// gives up is lost: what the broker did not say itself, we ask for in our own way.
func (s *Session) trouble(ctx context.Context, p pipeline.Partition, t *tenancy, err error, polled *pipeline.Polled) {
	if errors.Is(err, errOpenMemory) {
		return // the client reads it again
	}
	if errors.Is(err, errTooLarge) {
		s.openLarge(p, t)
		return
	}
	var loss *kgo.ErrDataLoss
	if !isFinal(err) && !errors.As(err, &loss) {
		asking, cancel := context.WithTimeout(ctx, explainTimeout)
		defer cancel()
		_, asked := newReader(s.admin, s.found.inputs[p.Topic].id, p, t.next.offset).fetch(asking)
		if !isFinal(asked) {
			s.warn.warn("cannot read a partition, trying again", "partition", p.String(), "error", err)
			s.reseek(p)
			return
		}
		err = asked
	}
	s.stop(ctx, p, t, err, polled)
}

// ofGroup judges an error that is of no partition we read.
func (s *Session) ofGroup(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return nil // the wait is over
	case errors.Is(err, kgo.ErrClientClosed):
		return errors.New("poll: the client is closed")
	case errors.Is(err, kerr.FencedInstanceID):
		return s.fenced(err)
	case errors.Is(err, kerr.UnreleasedInstanceID):
		s.unreleased()
		return nil
	case errors.Is(err, kerr.InvalidSessionTimeout):
		return hinted("change --session-timeout, or the limits on the brokers",
			"join group %q with a session timeout of %v: %w", s.cfg.Group, s.cfg.SessionTimeout, err)
	case isForbidden(err):
		return hinted("grant the right on the brokers, or check the credentials", "read as group %q: %w", s.cfg.Group, err)
	}
	s.warn.warn("the group or a partition is in trouble, trying again", "error", err)
	return nil
}

// stop ends reading of a partition for a reason that a retry does not heal.
func (s *Session) stop(ctx context.Context, p pipeline.Partition, t *tenancy, err error, polled *pipeline.Polled) {
	err = s.missing(ctx, p, t.next.offset, err)
	polled.Stopped = append(polled.Stopped, &pipeline.Stop{Partition: p, Offset: t.next.offset, Err: err})
	s.Halt(p)
}

// admit makes a batch of records that follow what came before. It returns none
// when there is nothing new.
func (s *Session) admit(ctx context.Context, p pipeline.Partition, t *tenancy, records []*kgo.Record, now int64) (*pipeline.Batch, error) {
	// What lies before our position was read under an older one.
	from, _ := slices.BinarySearchFunc(records, t.next.offset, func(r *kgo.Record, next int64) int {
		return cmp.Compare(r.Offset, next)
	})
	records = records[from:]
	if len(records) == 0 {
		return nil, nil
	}
	if first := records[0].Offset; first > t.next.offset {
		explained, err := s.explain(ctx, p, t, first)
		if err != nil {
			return nil, err
		}
		if !explained {
			s.seek(p) // read, and ask, again
			return nil, nil
		}
	}
	last := records[len(records)-1]
	src := s.batches.take()
	if s.cfg.source != "" {
		if err := src.unroute(records, s.found.outputs.out.partitions); err != nil {
			return nil, err
		}
	}
	b := src.views(records, s.cfg.Headers, s.found.outputs.out)
	b.Partition, b.Epoch, b.Now = p, t.epoch, now
	b.First, b.Next = t.next.offset, last.Offset+1
	src.end = mark{b.Next, last.LeaderEpoch}
	t.next = src.end
	return b, nil
}

// explainTimeout bounds how long one partition may hold up the others.
const explainTimeout = 5 * time.Second

// explain asks the broker, outside of the group's client, whether there really is
// nothing to read from next up to first: aborted records, and those that
// compaction took, leave such gaps. A gap inside of a batch needs no question:
// one answer of the broker is one piece of its log. It reports false when the
// broker cannot tell now.
func (s *Session) explain(ctx context.Context, p pipeline.Partition, t *tenancy, first int64) (bool, error) {
	in := s.found.inputs[p.Topic]
	if in.compacted || t.large != nil {
		return true, nil // nobody can, or our own reader has seen all that there is
	}
	asking, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	// A long stretch of aborted records may take several attempts.
	next := t.position()
	ask := newReader(s.admin, in.id, p, next)
	there, err := ask.first(asking)
	if err != nil {
		t.empty = min(ask.next, first)
	}
	switch {
	case err == nil && there == first:
		return true, nil
	case err == nil:
		return false, fmt.Errorf("records from offset %d were skipped: reading went on at %d", there, first)
	case asking.Err() != nil:
		s.warn.warn("cannot ask why offsets are missing, reading again", "partition", p.String(),
			"from", next, "to", first, "error", err)
		return false, nil
	}
	return false, fmt.Errorf("no record from offset %d up to %d was seen: %w", next, first, err)
}
