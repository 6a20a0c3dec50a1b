package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamdedup/streamdedup/pipeline"
)

// Group is a consumer group and what it remembers of one input, seen from outside:
// whoever looks into that, drops it or carries it over is no member of the group.
// It has one owner.
type Group struct {
	// asks has never joined, and can only ask.
	asks *Session
	adm  *kadm.Client
	cfg  GroupConfig
	// logPartitions is how many the changelog has.
	logPartitions int32
	// shares says that the group has a topic in which the input is shared out.
	shares bool
}

// GroupConfig says which group, and how to reach it.
type GroupConfig struct {
	// Brokers and Client are as in [Config].
	Brokers []string
	Client  []kgo.Opt
	// Group and Input are whose state it is.
	Group, Input string
	// Logger gets what an operator must know. It is required.
	Logger *slog.Logger
}

// OpenGroup looks the input and its changelog up. Neither the group nor the
// changelog must exist.
func OpenGroup(ctx context.Context, cfg GroupConfig) (*Group, error) {
	asking := Config{Brokers: cfg.Brokers, Client: cfg.Client, In: []string{cfg.Input}, Group: cfg.Group, Logger: cfg.Logger}
	client, err := kgo.NewClient(asking.connection()...)
	if err != nil {
		return nil, fmt.Errorf("open group %q: %w", cfg.Group, err)
	}
	g := &Group{
		asks: &Session{cfg: asking, log: cfg.Logger, warn: newWarner(cfg.Logger), admin: client},
		adm:  kadm.NewClient(client), cfg: cfg,
	}
	if err := g.look(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return g, nil
}

func (g *Group) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	log := ChangelogTopic(g.cfg.Group, g.cfg.Input)
	shared := RepartitionTopic(g.cfg.Group, g.cfg.Input)
	meta, err := g.adm.Metadata(ctx, g.cfg.Input, log, shared)
	if err != nil {
		return hinted("check the address, that the broker runs, and the TLS and SASL settings",
			"reach the brokers for group %q: %w", g.cfg.Group, err)
	}
	f := &g.asks.found
	f.cluster, f.inputs, f.changelogs = meta.Cluster, map[string]input{}, map[string]changelog{}
	if _, err := f.lookAtInputs(ctx, g.asks.cfg, g.adm, meta); err != nil {
		return err
	}
	if detail, ok := meta.Topics[shared]; ok {
		g.shares = detail.Err == nil
	}
	detail, ok := meta.Topics[log]
	switch {
	case !ok || errors.Is(detail.Err, kerr.UnknownTopicOrPartition):
		return nil
	case detail.Err != nil:
		return fmt.Errorf("look at changelog topic %q: %w", log, detail.Err)
	}
	g.logPartitions = int32(len(detail.Partitions))
	f.changelogs[g.cfg.Input] = changelog{name: log, id: detail.ID}
	return nil
}

// Close ends the connections.
func (g *Group) Close() { g.asks.admin.Close() }

// Partitions is how many the input has.
func (g *Group) Partitions() int32 { return g.asks.found.inputs[g.cfg.Input].partitions }

// Cluster is the ID of the Kafka cluster, empty where it has none.
func (g *Group) Cluster() string { return g.asks.found.cluster }

// Changelog is the name of the changelog topic, empty where there is none.
func (g *Group) Changelog() string { return g.asks.found.changelogs[g.cfg.Input].name }

// hasLog is whether a partition of the input has one of the changelog.
func (g *Group) hasLog(number int32) bool { return g.Changelog() != "" && number < g.logPartitions }

// Fits is an error where the changelog has not the partitions of the input: no restart
// takes it so. What both have can be looked at and dropped.
func (g *Group) Fits() error {
	hint := "if the input got more partitions, `streamdedup run --fix-topics` adds them to the changelog too"
	switch log, in := g.logPartitions, g.Partitions(); {
	case g.Changelog() == "" || log == in:
		return nil
	case log > in:
		hint = "was the input deleted and made again? If what is known may be lost, `streamdedup state reset`, then delete the changelog topic"
	}
	return hinted(hint, "changelog topic %q has %d partitions, its input %q has %d: each belongs to one of the input",
		g.Changelog(), g.logPartitions, g.cfg.Input, g.Partitions())
}

// Shared is the topic in which the group shares the input out, empty where it does
// not: then the state of its second stage is that of this topic.
func (g *Group) Shared() string {
	if !g.shares || g.Changelog() != "" {
		return ""
	}
	return RepartitionTopic(g.cfg.Group, g.cfg.Input)
}

// TopicIDs are the IDs of the input and of the changelog, zero where there is none.
func (g *Group) TopicIDs() (in, changelog [16]byte) { return g.asks.TopicIDs(g.cfg.Input) }

func (g *Group) partition(number int32) pipeline.Partition {
	return pipeline.Partition{Topic: g.cfg.Input, Number: number}
}

// Member is a process in the group.
type Member struct {
	// Instance is its --instance, or what the broker calls it where it has none.
	Instance string `json:"instance"`
	Host     string `json:"host"`
}

// Members are the group's, none where it does not exist. Of a process that was
// killed the brokers know only after its session timeout.
func (g *Group) Members(ctx context.Context) ([]Member, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	var members []Member
	err := persist(ctx, func() (err error) {
		members, err = g.members(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask for the members of group %q: %w", g.cfg.Group, err)
	}
	return members, nil
}

func (g *Group) members(ctx context.Context) (members []Member, err error) {
	add := func(id string, instance *string, host string) {
		if instance != nil {
			id = *instance
		}
		members = append(members, Member{id, host})
	}
	classic, err := g.adm.DescribeGroups(ctx, g.cfg.Group)
	if err == nil {
		err = classic[g.cfg.Group].Err
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, err
	}
	for _, m := range classic[g.cfg.Group].Members {
		add(m.MemberID, m.InstanceID, m.ClientHost)
	}
	if len(members) > 0 {
		return members, nil
	}
	// A group of the newer protocol is none to the old question.
	if known, err := g.knows(ctx, kmsg.NewPtrConsumerGroupDescribeRequest()); err != nil || !known {
		return nil, err
	}
	modern, err := g.adm.DescribeConsumerGroups(ctx, g.cfg.Group)
	if err == nil {
		err = modern[g.cfg.Group].Err
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) && !errors.Is(err, kerr.UnsupportedVersion) {
		return nil, err
	}
	for _, m := range modern[g.cfg.Group].Members {
		add(m.MemberID, m.InstanceID, m.ClientHost)
	}
	return members, nil
}

// knows is whether the brokers know a request.
func (g *Group) knows(ctx context.Context, req kmsg.Request) (known bool, err error) {
	versions, err := g.adm.ApiVersions(ctx)
	if err != nil {
		return false, err
	}
	versions.Each(func(v kadm.BrokerApiVersions) {
		_, has := v.KeyMaxVersion(req.Key())
		known, err = known || has, errors.Join(err, v.Err)
	})
	if known {
		return true, nil
	}
	return false, err
}

// DeleteOffsets makes the group have no offset for these partitions. The brokers
// refuse that while a member reads the input.
func (g *Group) DeleteOffsets(ctx context.Context, partitions []int32) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	set := kadm.TopicsSet{}
	set.Add(g.cfg.Input, partitions...)
	err := persist(ctx, func() error {
		answers, err := g.adm.DeleteOffsets(ctx, g.cfg.Group, set)
		if errors.Is(err, kerr.GroupIDNotFound) {
			return nil // it has none
		}
		if err == nil {
			err = answers.Error()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete the offsets of group %q for %s: %w", g.cfg.Group, g.cfg.Input, err)
	}
	return nil
}

// Place is where a group goes on in a partition, and with which state.
type Place struct {
	Next  int64
	State pipeline.State
}

// CommitOffsets makes the group go on there. The brokers refuse that while it has
// members.
func (g *Group) CommitOffsets(ctx context.Context, places map[int32]Place) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	req := kmsg.NewPtrOffsetCommitRequest() // as nobody
	req.Group, req.Generation = g.cfg.Group, -1
	for _, number := range slices.Sorted(maps.Keys(places)) {
		at := places[number]
		g.asks.addOffset(req, pipeline.Position{Partition: g.partition(number), Next: at.Next, Metadata: at.State.Metadata()}, -1)
	}
	if err := persist(ctx, func() error { return g.asks.commitOffsets(ctx, req) }); err != nil {
		return fmt.Errorf("commit offsets of group %q for %s: %w", g.cfg.Group, g.cfg.Input, err)
	}
	return nil
}

// ClearChangelog deletes all records of these partitions of the changelog, as far as
// it has them.
func (g *Group) ClearChangelog(ctx context.Context, partitions []int32) error {
	const all = -1
	log := g.Changelog()
	var ends kadm.Offsets
	for _, number := range partitions {
		if g.hasLog(number) {
			ends.Add(kadm.Offset{Topic: log, Partition: number, At: all})
		}
	}
	if len(ends) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	err := persist(ctx, func() error {
		answers, err := g.adm.DeleteRecords(ctx, ends)
		if err == nil {
			err = answers.Error()
		}
		return err
	})
	if err != nil {
		return hinted("check that we may delete records of it", "delete the records of changelog %q: %w", log, err)
	}
	return nil
}

// EnsureChangelog creates the changelog topic where it is missing, and checks it.
func (g *Group) EnsureChangelog(ctx context.Context) error {
	return g.asks.found.lookAtChangelogs(ctx, g.asks.cfg, g.adm)
}

// appendTimeout bounds the transaction of an append. Brokers allow 15 minutes by
// default.
const appendTimeout = 10 * time.Minute

// Append adds a change of a partition to the changelog: all of its records or none.
func (g *Group) Append(ctx context.Context, number int32, change *pipeline.Change) (err error) {
	log := g.Changelog()
	opts := append(g.asks.cfg.connection(), kgo.TransactionalID(g.cfg.Group+"-state-import"), kgo.TransactionTimeout(appendTimeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(changelogBytes), kgo.MaxBufferedBytes(64<<20),
		kgo.ProducerBatchCompression(kgo.NoCompression())) // hashes do not compress
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("write to changelog %s/%d: %w", log, number, err)
	}
	defer client.Close()
	if err := g.append(ctx, client, number, change); err != nil {
		return fmt.Errorf("write to changelog %s/%d: %w", log, number, err)
	}
	return nil
}

func (g *Group) append(ctx context.Context, client *kgo.Client, number int32, change *pipeline.Change) error {
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	id := g.asks.found.inputs[g.cfg.Input].id
	promise := kgo.AbortingFirstErrPromise(client)
	for _, value := range change.AppendRecords(nil) {
		client.Produce(ctx, &kgo.Record{Topic: g.Changelog(), Partition: number, Key: id[:], Value: value}, promise.Promise())
	}
	if err := promise.Err(); err != nil {
		return errors.Join(err, client.EndTransaction(context.WithoutCancel(ctx), kgo.TryAbort))
	}
	return client.EndTransaction(ctx, kgo.TryCommit)
}
