package main

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/pipeline"
)

const (
	defaultCommitInterval = 200 * time.Millisecond
	defaultMetricsAddr    = "127.0.0.1:9464"
	metricsOff            = "off"
	warmUpInput           = "input"
)

// runSettings is the configuration of run.
type runSettings struct {
	connection
	judging
	in             []string
	out            string
	divert         string
	duplicates     string
	showIDs        bool
	createTopics   bool
	group          string
	instance       string
	start          kafkaio.Start
	scope          pipeline.Scope
	delivery       kafkaio.Delivery
	groupProtocol  kafkaio.GroupProtocol
	commitInterval time.Duration
	sessionTimeout time.Duration
	txnTimeout     time.Duration
	compression    string
	allowColdStart bool
	// unlogged leaves the changelog out, for a benchmark of its cost.
	unlogged bool
	// newSet makes the filters instead of the plan, for a test of one that breaks.
	newSet             func() (filter.Set, error)
	fixTopics          bool
	stateDir           string
	checkpointInterval time.Duration
	warmUp             string
	shards             uint64
	pin                pipeline.PinMode
	metricsAddr        string
	logLevel           string
	logFormat          string
}

func defaultRun() *runSettings {
	s := &runSettings{
		judging:            defaultJudging(),
		commitInterval:     defaultCommitInterval,
		sessionTimeout:     kafkaio.DefaultSessionTimeout,
		txnTimeout:         kafkaio.DefaultTxnTimeout,
		compression:        kafkaio.DefaultCompression,
		warmUp:             warmUpInput,
		stateDir:           defaultStateDir,
		checkpointInterval: defaultCheckpointInterval,
		shards:             uint64(max(1, runtime.GOMAXPROCS(0)-1)),
		metricsAddr:        defaultMetricsAddr,
		logLevel:           "info",
		logFormat:          "text",
	}
	s.time = "record"
	// Without a host name the flag is required: two processes of a group with the
	// same instance would fence each other.
	s.instance, _ = os.Hostname()
	return s
}

var (
	startFlag    = kindOf[kafkaio.Start]{"POINT", kafkaio.ParseStart, kafkaio.Start.String}
	deliveryFlag = kindOf[kafkaio.Delivery]{"GUARANTEE", kafkaio.ParseDelivery, kafkaio.Delivery.String}
	protocolFlag = kindOf[kafkaio.GroupProtocol]{"PROTOCOL", kafkaio.ParseGroupProtocol, kafkaio.GroupProtocol.String}

	pinFlag = kindOf[pipeline.PinMode]{"MODE", pipeline.ParsePinMode, pipeline.PinMode.String}
)

// bind defines the flags; the defaults are what s holds.
func (s *runSettings) bind(fs *pflag.FlagSet) {
	s.bindBrokers(fs)
	fs.StringSliceVar(&s.in, "in", nil, "input `TOPIC` (required, repeatable; an ID belongs to its topic)")
	fs.StringVar(&s.out, "out", "", "output `TOPIC` (required); a record keeps its partition")
	fs.StringVar(&s.divert, "divert-topic", "", "`TOPIC` for records that a policy diverts, and for those too large for the output")
	fs.StringVar(&s.duplicates, "duplicates-topic", "", "`TOPIC` for a copy of each duplicate that is dropped or tagged, with the age of the first copy")
	fs.BoolVar(&s.createTopics, "create-topics", false, "create output topics that do not exist (default false)")
	fs.StringVar(&s.group, "group", "", "consumer `GROUP` (required)")
	fs.StringVar(&s.instance, "instance", s.instance, "`NAME` of this process, unique in its group; a restarted process needs the same")
	s.judging.bind(fs, choices{
		times: "record, arrival", policies: "pass, drop, divert or fail", seed: "from cluster ID and group",
	})
	s.bindTable(fs, "format", tableUsage)
	startFlag.add(fs, &s.start, "start", "where a new group begins: earliest, latest or a time such as 2025-06-01T00:00:00Z")
	scopeFlag.add(fs, &s.scope, "scope", "where the copies of an ID are looked for: partition, or topic (across its partitions, at about half the speed)")
	fs.BoolVar(&s.allowColdStart, "allow-cold-start", false, "go on where the memory of the window is lost; duplicates of what was read before pass (default false)")
	choiceFlag("SOURCE", warmUpInput, "none").
		add(fs, &s.warmUp, "warm-up", "what is read again where the changelog does not say what was learned: input or none")
	fs.StringVar(&s.stateDir, "state-dir", s.stateDir, "`FOLDER` for checkpoints, which make a restart fast, or off; what must not be lost is in Kafka")
	durationFlag.add(fs, &s.checkpointInterval, "checkpoint-interval", "time between two checkpoints of a partition")
	fs.BoolVar(&s.fixTopics, "fix-topics", false, "correct the settings of the changelog and other topics of our own, and add the partitions that the input got (default false)")
	deliveryFlag.add(fs, &s.delivery, "delivery", "exactly-once, or at-least-once: no transactions, and a crash or a failed write may write records again")
	durationFlag.add(fs, &s.commitInterval, "commit-interval", "time between commits, which is the latency of the output")
	protocolFlag.add(fs, &s.groupProtocol, "group-protocol", "of the group: classic, or consumer (KIP-848), with which a process that died is waited for as long as the brokers say")
	durationFlag.add(fs, &s.sessionTimeout, "session-timeout", "how long the partitions of a silent process wait for it")
	durationFlag.add(fs, &s.txnTimeout, "txn-timeout", "how long the transaction of a silent process holds up readers; a cycle that takes half of it to write is undone")
	choiceFlag("CODEC", "auto", "none", "gzip", "snappy", "lz4", "zstd").
		add(fs, &s.compression, "compression", "of the output: auto (as the input), none, gzip, snappy, lz4 or zstd")
	numberFlag("workers").add(fs, &s.shards, "shards", "how many workers judge; they share out the partitions")
	pinFlag.add(fs, &s.pin, "pin", "keep workers on processors of their own: auto, on or off")
	fs.StringVar(&s.metricsAddr, "metrics-addr", s.metricsAddr, "`HOST:PORT` that serves /metrics, /healthz and /readyz, or off")
	s.bindSecurity(fs)
	fs.BoolVar(&s.showIDs, "show-ids", false, "name IDs in the log and on /healthz by their text, and not by their hash alone (default false)")
	choiceFlag("LEVEL", "debug", "info", "warn", "error").add(fs, &s.logLevel, "log-level", "what is logged: debug, info, warn or error")
	choiceFlag("FORMAT", "text", "json").add(fs, &s.logFormat, "log-format", "of the log on stderr: text or json")
}

// check refuses what can be known to be wrong without a broker.
func (s *runSettings) check() error {
	for _, required := range []struct {
		flag  string
		given bool
	}{
		{"brokers", len(s.brokers) > 0}, {"in", len(s.in) > 0}, {"out", s.out != ""},
		{"group", s.group != ""}, {"instance", s.instance != ""}, {"key", len(s.keys) > 0},
	} {
		if !required.given {
			return withHint(usagef("--%s is required", required.flag),
				"give it as a flag, as a key of --config FILE, or in the environment; `streamdedup run --help` explains it")
		}
	}
	if s.groupProtocol == kafkaio.Consumer && s.sessionTimeout != kafkaio.DefaultSessionTimeout {
		return withHint(usagef("--session-timeout does nothing with --group-protocol %s: the brokers decide", s.groupProtocol),
			"leave it out; the setting is group.consumer.session.timeout.ms of the brokers, or consumer.session.timeout.ms of the group")
	}
	if s.time == pipeline.TimeNone {
		return usagef("--time none is for files: a topic has no end, its window needs a time")
	}
	if s.shards > 1<<10 {
		return usagef("--shards %d: more workers than any machine has processors", s.shards)
	}
	if s.metricsAddr != "" && s.metricsAddr != metricsOff {
		if _, _, err := net.SplitHostPort(s.metricsAddr); err != nil {
			return withHint(usagef("--metrics-addr %s: want HOST:PORT or off", s.metricsAddr),
				"127.0.0.1:9464 is for this machine only, :9464 for all that reach it")
		}
	}
	for _, p := range []struct {
		flag    string
		diverts bool
	}{
		{"missing", s.onMissing == pipeline.Divert}, {"late", s.onLate == pipeline.Divert}, {"invalid", s.onInvalid == pipeline.Divert},
		{"duplicate", s.onDuplicate == pipeline.DivertDuplicates},
	} {
		if p.diverts && s.divert == "" {
			return withHint(usagef("--on-%s divert needs a topic to divert to", p.flag), "add --divert-topic TOPIC")
		}
	}
	if s.duplicates != "" && s.onDuplicate == pipeline.DivertDuplicates {
		return withHint(usagef("--duplicates-topic gets nothing with --on-duplicate divert: duplicates go to --divert-topic"),
			"leave one of the two out")
	}
	if err := errors.Join(s.checkScope(), s.checkTopics(), s.judging.check()); err != nil {
		return err
	}
	// Whether a plan can be made at all shows without the number of partitions.
	_, err := s.plan(1)
	return err
}

// kafka is where and as whom to read and write. The client's options connect it.
func (s *runSettings) kafka(client []kgo.Opt, log *slog.Logger) (kafkaio.Config, error) {
	extractor, err := s.extractor()
	if err != nil {
		return kafkaio.Config{}, err
	}
	c := kafkaio.Config{
		Brokers: s.brokers, Client: client,
		In: s.in, Out: s.out, Divert: s.divert, CreateTopics: s.createTopics,
		Duplicates: s.duplicates, Tags: s.onDuplicate == pipeline.TagDuplicates,
		Group: s.group, Instance: s.instance, GroupProtocol: s.groupProtocol, Delivery: s.delivery,
		Changelog: !s.unlogged, FixTopics: s.fixTopics, WarmUp: s.warmUp == warmUpInput,
		Start: s.start, AllowColdStart: s.allowColdStart,
		CommitInterval: s.commitInterval, SessionTimeout: s.sessionTimeout, TxnTimeout: s.txnTimeout,
		Compression: s.compression,
		Headers:     extractor.NeedsHeaders(),
		Logger:      log,
	}
	if err := c.Validate(); err != nil {
		err = &usageError{inFlags{err}}
		if slices.Contains(s.in, s.out) {
			err = withHint(err, "give the output a topic of its own, such as --out "+s.out+"-unique --create-topics")
		}
		return kafkaio.Config{}, err
	}
	return c, nil
}

// logger is the log as configured.
func (s *runSettings) logger(w io.Writer) *logLimit {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		panic("BUG: a log level that the flag let through: " + err.Error())
	}
	opts := &slog.HandlerOptions{Level: level}
	if s.logFormat == "json" {
		return newLogLimit(slog.NewJSONHandler(w, opts))
	}
	return newLogLimit(slog.NewTextHandler(w, opts))
}
