package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/streamdedup/streamdedup/pipeline"
)

// RepartitionTopic is the name of the topic between the two stages of a scope of the
// topic: it has the records of one input, all copies of an ID in one partition.
func RepartitionTopic(group, input string) string { return ownTopic(group, input, "repartition") }

// RepartitionGroup is the name of the group of the first of the two stages.
func RepartitionGroup(group string) string { return group + "-repartition" }

// stages are who reads and writes where the scope is the topic: one member shares
// the records of the input out by their IDs, the other judges what it wrote. Each
// is exactly-once, so the chain is.
func (c Config) stages() (route, judge Config) {
	topic := RepartitionTopic(c.Group, c.In[0])
	route, judge = c, c
	route.Group = RepartitionGroup(c.Group)
	route.Out, route.Divert, route.Duplicates, route.Tags = topic, "", "", false
	route.CreateTopics, route.Changelog = false, false
	route.routes, route.judge = true, c.Group
	// What is in the topic is ours from its beginning on.
	judge.In, judge.Start = []string{topic}, Start{}
	judge.source = c.In[0]
	return route, judge
}

// input is the topic that the records come from in the end.
func (c Config) input() string {
	if c.source != "" {
		return c.source
	}
	return c.In[0]
}

// OpenStages opens both members of a scope of the topic, which has one input. It
// creates and checks the topic between them.
func OpenStages(ctx context.Context, cfg Config) (*RouteSession, *Session, error) {
	if err := cfg.Validate(); err != nil {
		return nil, nil, fmt.Errorf("open kafka session: %w", err)
	}
	if len(cfg.In) != 1 {
		return nil, nil, hinted("run a process group for each input", "a scope of the topic is one input's: In names %d", len(cfg.In))
	}
	if cfg.Delivery != ExactlyOnce {
		return nil, nil, fmt.Errorf("a scope of the topic is a chain of transactions: Delivery is %s", cfg.Delivery)
	}
	route, judge := cfg.stages()
	first, err := openRoute(ctx, route)
	if err != nil {
		return nil, nil, err
	}
	judge.Compression = first.compression() // between the stages there is nothing to look at yet
	second, err := Open(ctx, judge)
	if err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.SessionTimeout)
		defer cancel()
		return nil, nil, errors.Join(err, first.Close(closing, true))
	}
	return first, second, nil
}

// compression is the name of the output's codec.
func (s *Session) compression() string {
	for name, codec := range codecs {
		if codec == s.found.codec {
			return name
		}
	}
	return s.cfg.Compression
}

// lookAtRepartition creates the topic between the stages, or checks it: it must keep
// each record, as it is, until the second stage has it.
func lookAtRepartition(ctx context.Context, cfg Config, adm *kadm.Client, in input) error {
	return ensureInternal(ctx, adm, internalTopic{
		name: cfg.Out, what: "repartition topic", partitions: in.partitions,
		settings: anyTime(kept()), leastBytes: routedBytes(in.maxBytes),
	}, cfg.FixTopics)
}

// routedBytes is how large a batch the topic between the stages must take for one that
// an input takes.
func routedBytes(in int32) int32 { return int32(min(int64(in)+originRoom, math.MaxInt32)) }

// RouteSession is the member of a group that shares an input out. It implements
// [pipeline.RouteSession].
type RouteSession struct {
	*Session
	restorer *Restorer
	surveyor *surveyor
}

var _ pipeline.RouteSession = (*RouteSession)(nil)

func openRoute(ctx context.Context, cfg Config) (*RouteSession, error) {
	s, err := Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &RouteSession{Session: s, restorer: NewRestorer(s, nil), surveyor: s.survey()}, nil
}

// Targets is how many partitions IDs are shared out to.
func (s *RouteSession) Targets() int32 { return s.found.outputs.out.partitions }

// Locate implements [pipeline.RouteSession].
func (s *RouteSession) Locate(ctx context.Context, p pipeline.Partition, fresh string) (pipeline.Position, error) {
	ctx = s.aloud(ctx, p)
	past, err := s.restorer.past(ctx, p)
	if err != nil {
		return pipeline.Position{}, fmt.Errorf("locate %s: %w", p, err)
	}
	at := pipeline.Position{Partition: p, Next: past.at.next, Metadata: past.at.metadata}
	if !past.begins {
		_, err := s.restorer.check(ctx, p, at.Next)
		return at, err
	}
	at.Metadata = fresh
	s.restorer.owns(p)
	if err := s.commitStart(ctx, p, committed{next: at.Next, metadata: fresh}); err != nil {
		return pipeline.Position{}, err
	}
	s.log.Info("partition begins", "partition", p.String(), "offset", at.Next)
	return at, nil
}

// Split implements [pipeline.RouteSession].
func (s *RouteSession) Split(b *pipeline.Batch, i int) *pipeline.Batch {
	src := b.Source.(*source)
	rest := s.batches.take()
	tail := rest.views(src.records[i:], s.cfg.Headers, s.found.outputs.out)
	tail.Partition, tail.Epoch, tail.Now, tail.Stable = b.Partition, b.Epoch, b.Now, b.Stable
	tail.First, tail.Next = b.Offsets[i], b.Next
	rest.end = src.end

	src.end = mark{b.Offsets[i], src.records[i-1].LeaderEpoch}
	src.records = src.records[:i]
	b.Records, b.Offsets, b.Next = b.Records[:i], b.Offsets[:i], b.Offsets[i]
	b.Memory -= tail.Memory
	if b.Oversize != nil {
		b.Oversize = b.Oversize[:i]
	}
	return tail
}

// Pause implements [pipeline.RouteSession].
func (s *RouteSession) Pause(p pipeline.Partition) {
	s.lag.halt(p) // it does not stand still by itself
	if t := s.parts[p]; t != nil {
		t.paused = true
		s.gate(p, t)
	}
}

// Continue implements [pipeline.RouteSession]. What the client had read meanwhile it
// has thrown away, and reads it again.
func (s *RouteSession) Continue(p pipeline.Partition) {
	t := s.parts[p]
	if t == nil || !t.running {
		return
	}
	t.paused = false
	s.lag.proceed(p)
	s.gate(p, t)
}

// Deliver implements [pipeline.Session]: the records of b go where its route says,
// whatever else is said of them.
func (s *RouteSession) Deliver(_ context.Context, b *pipeline.Batch) error {
	src, ok, err := s.takeOver(b)
	if err != nil || !ok {
		return err
	}
	client, acknowledge := s.client(), s.failures.acknowledge
	headers := newOrigins(b.Partition.Number, src.records)
	for i, r := range src.records {
		if s.failures.any.Load() {
			return nil // the cycle will be aborted: why send more
		}
		to := s.found.outputs.out
		if accepted := to.accept(b.Records[i].Time, b.Now, s.slack.Milliseconds()); accepted != b.Records[i].Time {
			r.Timestamp = time.UnixMilli(accepted) // beyond what a client can write
		}
		r.Headers = headers.add(r.Headers, r.Offset)
		r.Topic, r.Partition = to.topic, b.Route[i]
		client.Produce(s.cycle.sending, r, acknowledge)
	}
	return nil
}

// Close implements [pipeline.Session].
func (s *RouteSession) Close(ctx context.Context, leave bool) error {
	s.surveyor.close()
	return s.Session.Close(ctx, leave)
}

// judgedInterval is how often what was judged is deleted between the stages.
const judgedInterval = time.Minute

// judged is what was committed between the stages, and when that was looked up.
type judged struct {
	since   time.Time
	offsets kadm.Offsets
}

// trimJudged deletes from the repartition topic what was committed by the last time:
// a restore has the changelog, and of its last moments the topic still. Without a
// changelog it reads the topic again, and nothing is deleted.
func (s *Session) trimJudged(ctx context.Context, before *judged) {
	if s.cfg.source == "" || !s.cfg.Changelog || time.Since(before.since) < judgedInterval {
		return
	}
	offsets := before.offsets
	*before = judged{time.Now(), kadm.Offsets{}}
	for p, at := range s.lag.positions() {
		before.offsets.AddOffset(p.Topic, p.Number, at, -1)
	}
	if len(offsets) == 0 {
		return
	}
	answers, err := kadm.NewClient(s.admin).DeleteRecords(ctx, offsets)
	if err == nil {
		err = answers.Error()
	}
	if err != nil && ctx.Err() == nil {
		s.warn.warn("cannot delete what was judged from the repartition topic: it grows until that is possible",
			"topic", s.cfg.In[0], "error", err)
	}
}
