package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
)

// reachTimeout bounds how long brokers may take to answer at the start.
const reachTimeout = 15 * time.Second

// input is what must be known of an input topic.
type input struct {
	id         kadm.TopicID
	partitions int32
	// compacted topics have holes that nobody can explain.
	compacted bool
	// maxBytes is the largest record batch, max.message.bytes.
	maxBytes int32
	// shared out by ID, the records of new partitions go where their IDs are known.
	shared bool
}

// found is what the brokers say at the start.
type found struct {
	cluster string
	brokers int
	inputs  map[string]input
	outputs outputs
	codec   kgo.CompressionCodec
	// changelogs are by input, none where changes are not logged.
	changelogs map[string]changelog
	// sources are what people call the inputs, with their limits.
	sources map[string]input
}

// errUnreachable is the error of brokers of which none answers. Likely the address
// is wrong, which no patience heals.
var errUnreachable = errors.New("reach the brokers")

func unreachable(cfg Config, err error) error {
	return hinted("check the address, that the broker runs, and the TLS and SASL settings",
		"%w at %s: %w", errUnreachable, strings.Join(cfg.Brokers, ","), err)
}

// look checks at the start whatever would fail later: that brokers answer, that
// topics exist and fit each other, and that limits allow what is asked for. What a
// broker calls passing, such as a leader that is being elected, gets some time.
func look(ctx context.Context, cfg Config, cl *kgo.Client) (f found, err error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	for try := 0; ; try++ {
		f, err = tryLook(ctx, cfg, cl)
		if !isPassing(err) || errors.Is(err, errUnreachable) || pause(ctx, min(backoff(try), maxPatience)) != nil {
			break
		}
	}
	if err == nil {
		f.warn(cfg.Logger)
	}
	return f, err
}

// warn says what of the topics may surprise later.
func (f found) warn(log *slog.Logger) {
	for _, to := range f.outputs.all() {
		if to.compacted {
			log.Warn("a topic that is written has cleanup.policy=compact: a record without a key will end the process, "+
				"and of records with the same key only the last one stays", "topic", to.topic)
		}
		what := "what is too large for it is diverted, or stops its partition"
		if to == f.outputs.duplicates {
			what = "of a duplicate that is too large for it there is no copy"
		}
		for topic, in := range f.sources {
			if in.maxBytes > to.maxBytes {
				log.Warn("a topic that is written takes smaller records than the input: "+what,
					"topic", to.topic, "max_message_bytes", to.maxBytes, "input", topic, "input_max_message_bytes", in.maxBytes)
			}
		}
	}
}

func tryLook(ctx context.Context, cfg Config, cl *kgo.Client) (found, error) {
	adm := kadm.NewClient(cl)
	meta, err := adm.Metadata(ctx, append([]string{cfg.Out}, cfg.In...)...)
	if err != nil {
		return found{}, unreachable(cfg, err)
	}
	f := found{cluster: meta.Cluster, brokers: len(meta.Brokers), inputs: map[string]input{}}
	partitions, err := f.lookAtInputs(ctx, cfg, adm, meta)
	if err != nil {
		return found{}, err
	}
	if cfg.routes {
		if err := lookAtRepartition(ctx, cfg, adm, f.inputs[cfg.In[0]]); err != nil {
			return found{}, err
		}
	}
	f.sources = f.inputs
	if cfg.source != "" {
		source, err := lookAtSource(ctx, adm, cfg.source)
		if err != nil {
			return found{}, err
		}
		partitions, f.sources = source.partitions, map[string]input{cfg.source: source}
	}
	for _, to := range []struct {
		name string
		as   **output
		same bool // must have the input's partitions
	}{
		{cfg.Out, &f.outputs.out, !cfg.routes}, {cfg.Divert, &f.outputs.divert, false}, {cfg.Duplicates, &f.outputs.duplicates, false},
	} {
		if to.name == "" {
			continue
		}
		if *to.as, err = lookAtOutput(ctx, cfg, adm, to.name, partitions); err != nil {
			return found{}, err
		}
		if n := (*to.as).partitions; to.same && n != partitions {
			return found{}, hinted("create the output with the input's partition count, or name another output",
				"output topic %q has %d partitions, input topic %q has %d: they must match, a record keeps its partition",
				cfg.Out, n, cfg.input(), partitions)
		}
	}
	if err := checkTxnTimeout(ctx, cfg, adm, meta); cfg.Delivery == ExactlyOnce && err != nil {
		return found{}, err
	}
	if err := lookAtProtocol(ctx, cfg, cl); err != nil {
		return found{}, err
	}
	if cfg.Changelog {
		if err := f.lookAtChangelogs(ctx, cfg, adm); err != nil {
			return found{}, err
		}
	}
	f.codec, err = chooseCodec(ctx, cfg, cl, f)
	return f, err
}

// lookAtInputs returns how many partitions the inputs have.
func (f *found) lookAtInputs(ctx context.Context, cfg Config, adm *kadm.Client, meta kadm.Metadata) (int32, error) {
	policies, err := topicConfigs(ctx, adm, cfg.In...)
	if err != nil {
		return 0, err
	}
	for _, topic := range cfg.In {
		detail, ok := meta.Topics[topic]
		if !ok || errors.Is(detail.Err, kerr.UnknownTopicOrPartition) {
			return 0, hinted("check the name; topics are case-sensitive", "input topic %q does not exist", topic)
		}
		if detail.Err != nil {
			return 0, fmt.Errorf("look at input topic %q: %w", topic, detail.Err)
		}
		f.inputs[topic] = input{
			id:         detail.ID,
			partitions: int32(len(detail.Partitions)),
			compacted:  strings.Contains(policies[topic]["cleanup.policy"], "compact"),
			maxBytes:   limitsOf(topic, 0, policies[topic]).maxBytes,
			shared:     cfg.routes,
		}
		if first := f.inputs[cfg.In[0]]; f.inputs[topic].partitions != first.partitions {
			return 0, hinted("run one process group for each input, with outputs of their own",
				"input topic %q has %d partitions, input topic %q has %d: inputs of one output must match",
				topic, f.inputs[topic].partitions, cfg.In[0], first.partitions)
		}
	}
	return f.inputs[cfg.In[0]].partitions, nil
}

// lookAtOutput creates the topic if that is wanted and it is missing.
func lookAtOutput(ctx context.Context, cfg Config, adm *kadm.Client, topic string, partitions int32) (*output, error) {
	details, err := adm.ListTopics(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("look at output topic %q: %w", topic, err)
	}
	detail, ok := details[topic]
	if !ok || errors.Is(detail.Err, kerr.UnknownTopicOrPartition) {
		if !cfg.CreateTopics {
			return nil, hinted("create it, or add --create-topics", "output topic %q does not exist", topic)
		}
		const brokerDefault = -1
		if _, err := adm.CreateTopic(ctx, partitions, brokerDefault, nil, topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return nil, fmt.Errorf("create output topic %q with %d partitions: %w", topic, partitions, err)
		}
		if detail, err = awaitTopic(ctx, adm, topic, 1); err != nil {
			return nil, fmt.Errorf("wait for the leaders of new topic %q: %w", topic, err)
		}
	} else if detail.Err != nil {
		return nil, fmt.Errorf("look at output topic %q: %w", topic, detail.Err)
	}
	configs, err := topicConfigs(ctx, adm, topic)
	if err != nil {
		return nil, err
	}
	found := limitsOf(topic, int32(len(detail.Partitions)), configs[topic])
	found.id = detail.ID
	switch {
	case cfg.routes:
		found.room = originRoom
	case cfg.Tags && topic == cfg.Out:
		found.room = tagRoom
	case topic == cfg.Duplicates && found.compacted:
		return nil, hinted("a copy may have no key, and copies with the same key are to stay: set cleanup.policy=delete, or name another topic",
			"topic for duplicates %q has cleanup.policy=compact", topic)
	}
	return found, nil
}

// limitsOf reads a topic's settings. Brokers before 3.6 have one setting for
// times before and after.
func limitsOf(topic string, partitions int32, configs map[string]string) *output {
	number := func(name string, fallback int64) int64 {
		if n, err := strconv.ParseInt(configs[name], 10, 64); err == nil {
			return n
		}
		return fallback
	}
	either := number("message.timestamp.difference.max.ms", math.MaxInt64)
	return &output{
		topic:      topic,
		partitions: partitions,
		compacted:  strings.Contains(configs["cleanup.policy"], "compact"),
		maxBytes:   int32(number("max.message.bytes", defaultMaxBytes)),
		clock:      configs["message.timestamp.type"] != "LogAppendTime",
		before:     number("message.timestamp.before.max.ms", either),
		after:      number("message.timestamp.after.max.ms", either),
	}
}

// topicConfigs gives nothing for a topic that does not exist.
func topicConfigs(ctx context.Context, adm *kadm.Client, topics ...string) (map[string]map[string]string, error) {
	described, err := adm.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("read the settings of %s: %w", strings.Join(topics, ","), err)
	}
	settings := map[string]map[string]string{}
	for _, topic := range described {
		if topic.Err != nil && !errors.Is(topic.Err, kerr.UnknownTopicOrPartition) {
			return nil, fmt.Errorf("read the settings of topic %q: %w", topic.Name, topic.Err)
		}
		settings[topic.Name] = map[string]string{}
		for _, c := range topic.Configs {
			settings[topic.Name][c.Key] = c.MaybeValue()
		}
	}
	return settings, nil
}

// awaitTopic waits until a topic that was just made, or given more partitions, has
// at least so many, each with a leader: a broker may answer for a while as it was.
func awaitTopic(ctx context.Context, adm *kadm.Client, topic string, partitions int32) (kadm.TopicDetail, error) {
	for {
		details, err := adm.ListTopics(ctx, topic)
		if err != nil {
			return kadm.TopicDetail{}, err
		}
		if detail := details[topic]; detail.Err == nil && len(detail.Partitions) >= int(partitions) && hasLeaders(detail) {
			return detail, nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return kadm.TopicDetail{}, err
		}
	}
}

func hasLeaders(topic kadm.TopicDetail) bool {
	for _, p := range topic.Partitions {
		if p.Err != nil || p.Leader < 0 {
			return false
		}
	}
	return true
}

// checkTxnTimeout compares the transaction time-out with what brokers allow. A
// broker that keeps its settings to itself is believed to allow it; it will say
// no itself.
func checkTxnTimeout(ctx context.Context, cfg Config, adm *kadm.Client, meta kadm.Metadata) error {
	if len(meta.Brokers) == 0 {
		return nil
	}
	described, err := adm.DescribeBrokerConfigs(ctx, meta.Brokers[0].NodeID)
	if err != nil || len(described) == 0 || described[0].Err != nil {
		cfg.Logger.Debug("cannot read the broker's settings", "error", err)
		return nil
	}
	for _, c := range described[0].Configs {
		if c.Key != "transaction.max.timeout.ms" {
			continue
		}
		ms, err := strconv.ParseInt(c.MaybeValue(), 10, 64)
		if allowed := time.Duration(ms) * time.Millisecond; err == nil && cfg.TxnTimeout > allowed {
			return hinted("lower --txn-timeout, or raise transaction.max.timeout.ms on the brokers",
				"transaction timeout %v is above the brokers' transaction.max.timeout.ms of %v", cfg.TxnTimeout, allowed)
		}
	}
	return nil
}

// codecNames are the codecs by their number in a record batch.
var codecNames = [8]string{"none", "gzip", "snappy", "lz4", "zstd", "none", "none", "none"}

// peekRecords is how far before the end of a partition chooseCodec looks.
const peekRecords = 100

// chooseCodec takes the input's codec for the output where none is named: who
// chose it knew the data. An empty input says nothing, and lz4 is cheap.
func chooseCodec(ctx context.Context, cfg Config, cl *kgo.Client, f found) (kgo.CompressionCodec, error) {
	if cfg.Compression != DefaultCompression {
		return codecs[cfg.Compression], nil
	}
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, cfg.In...)
	if err != nil {
		return kgo.CompressionCodec{}, fmt.Errorf("list the ends of %s: %w", strings.Join(cfg.In, ","), err)
	}
	starts, err := kadm.NewClient(cl).ListStartOffsets(ctx, cfg.In...)
	if err != nil {
		return kgo.CompressionCodec{}, fmt.Errorf("list the starts of %s: %w", strings.Join(cfg.In, ","), err)
	}
	for _, end := range ends.Offsets().Sorted() {
		start, _ := starts.Lookup(end.Topic, end.Partition)
		if end.At <= start.Offset {
			continue
		}
		p := pipeline.Partition{Topic: end.Topic, Number: end.Partition}
		peek := newReader(cl, f.inputs[end.Topic].id, p, max(start.Offset, end.At-peekRecords))
		peek.skips = true // what is no use here is met again
		records, err := peek.read(ctx)
		if errors.Is(err, kerr.OffsetOutOfRange) {
			continue // retention was faster, and it is but a guess
		}
		if err != nil {
			return kgo.CompressionCodec{}, fmt.Errorf("peek at the input for its compression: %w", err)
		}
		for _, record := range records {
			if !record.Attrs.IsControl() {
				return codecs[codecNames[record.Attrs.CompressionType()]], nil
			}
		}
	}
	return codecs["lz4"], nil
}
