package kafkaio

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Config says what to read, where to write and as whom.
type Config struct {
	// Brokers are host:port of brokers to ask first.
	Brokers []string
	// Client are options of every connection: TLS, SASL.
	Client []kgo.Opt

	// In are the input topics. A partition of the output takes what the partition
	// of the same number of each input lets through.
	In []string
	// Out is the output topic.
	Out string
	// Divert is the topic for diverted records, empty when there is none.
	Divert string
	// Duplicates is the topic for copies of duplicates that are dropped or tagged, empty
	// when there is none.
	Duplicates string
	// Tags says that duplicates may come out, with a header that marks them.
	Tags bool
	// Changelog keeps what is learned in a topic of our own for each input, so that
	// a restore need not read the input again. FixTopics corrects such topics where
	// they are not as they must be.
	Changelog, FixTopics bool
	// WarmUp reads the input again where nothing else says what it has taught.
	WarmUp bool
	// CreateTopics creates Out, Divert and Duplicates, with as many partitions as
	// the input, where they are missing.
	CreateTopics bool

	// Group is the consumer group and Instance the static member in it. Together
	// they are who we are to the brokers, so no two processes may share both.
	Group, Instance string
	// GroupProtocol is how the group shares out its partitions.
	GroupProtocol GroupProtocol
	// Delivery is what is promised of the output.
	Delivery Delivery
	// Start is where a group without offsets begins.
	Start Start
	// AllowColdStart lets a partition go on whose state is gone.
	AllowColdStart bool

	// CommitInterval is how long the engine's cycles last; it bounds the rest.
	CommitInterval time.Duration
	// SessionTimeout is how long a silent member keeps its partitions, where the
	// protocol leaves that to the member, and how long it may hold up the others.
	SessionTimeout time.Duration
	// TxnTimeout is how long a transaction of a silent process holds up the
	// readers of the output.
	TxnTimeout time.Duration

	// Compression of the output: "auto" (as the input), "none", "lz4", "zstd",
	// "snappy" or "gzip".
	Compression string
	// Headers says that batches need views of the headers. They reach the output
	// in any case.
	Headers bool
	// Logger gets what an operator must know. It is required.
	Logger *slog.Logger

	// routes makes the session the first stage of a scope of the topic, and source
	// the second, behind the input of that name. The first knows the group of the
	// second as judge. See OpenStages.
	routes        bool
	judge, source string
}

// The defaults, for whoever binds flags.
const (
	// DefaultSessionTimeout is Kafka's own.
	DefaultSessionTimeout = 45 * time.Second
	// DefaultTxnTimeout is Kafka's own. It is also how long a crash can hold up
	// readers of the output when nobody restarts the process.
	DefaultTxnTimeout = time.Minute
	// DefaultCompression follows the input.
	DefaultCompression = "auto"
)

// codecs are the compressions by name. Each but none falls back to no
// compression where a broker is too old for it.
var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

// Validate reports every fault at once, each with the name of its field.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("kafkaio.Config."+format, args...))
	}
	for _, required := range []struct{ name, value string }{
		{"Out", c.Out}, {"Group", c.Group}, {"Instance", c.Instance},
		{"Brokers", strings.Join(c.Brokers, "")}, {"In", strings.Join(c.In, "")},
	} {
		if required.value == "" {
			fault("%s is empty", required.name)
		}
	}
	if slices.Contains(c.In, c.Out) && c.Out != "" {
		fault("Out is %q, which is an input: the output would be read again", c.Out)
	}
	if c.Divert != "" && (slices.Contains(c.In, c.Divert) || c.Divert == c.Out) {
		fault("Divert is %q, which is an input or the output", c.Divert)
	}
	if d := c.Duplicates; d != "" && (slices.Contains(c.In, d) || d == c.Out || d == c.Divert) {
		fault("Duplicates is %q, which is an input or another output", d)
	}
	seen := map[string]bool{}
	for _, topic := range c.In {
		if seen[topic] {
			fault("In names %q twice", topic)
		}
		seen[topic] = true
	}
	if c.SessionTimeout <= 0 {
		fault("SessionTimeout is %v: want a positive duration", c.SessionTimeout)
	}
	if c.CommitInterval <= 0 {
		fault("CommitInterval is %v: want a positive duration", c.CommitInterval)
	}
	if c.TxnTimeout < minTxnTimeout || c.TxnTimeout < 4*c.CommitInterval {
		fault("TxnTimeout is %v: want at least %v and four times the commit interval of %v",
			c.TxnTimeout, minTxnTimeout, c.CommitInterval)
	}
	if _, ok := codecs[c.Compression]; !ok && c.Compression != DefaultCompression {
		fault("Compression is %q: want auto, none, lz4, zstd, snappy or gzip", c.Compression)
	}
	if c.Logger == nil {
		fault("Logger is nil")
	}
	return errors.Join(faults...)
}

// minTxnTimeout leaves a record half of it, and kgo wants a second for that.
const minTxnTimeout = 2 * time.Second

// transactionalID is who the process is to the transaction coordinator.
func (c Config) transactionalID() string { return c.Group + "-" + c.Instance }

// identity is what of us another process can take over, in words.
func (c Config) identity() string {
	if c.Delivery == AtLeastOnce {
		return fmt.Sprintf("instance %q of group %q", c.Instance, c.Group)
	}
	return fmt.Sprintf("transactional ID %q (group %q, instance %q)", c.transactionalID(), c.Group, c.Instance)
}

// Start is where reading begins in a partition that the group has no offset for.
// The zero value is the beginning.
type Start struct {
	latest bool
	millis int64 // since the epoch, 0 when it is no time
}

// ParseStart reads "earliest", "latest", a time in RFC 3339, or one in
// milliseconds since the epoch.
func ParseStart(s string) (Start, error) {
	switch s {
	case "earliest":
		return Start{}, nil
	case "latest":
		return Start{latest: true}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil && t.UnixMilli() > 0 {
		return Start{millis: t.UnixMilli()}, nil
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil && ms > 0 {
		return Start{millis: ms}, nil
	}
	return Start{}, fmt.Errorf("parse start %q: want earliest, latest, or a time such as 2025-06-01T00:00:00Z", s)
}

// String is what [ParseStart] reads.
func (s Start) String() string {
	switch {
	case s.latest:
		return "latest"
	case s.millis > 0:
		return time.UnixMilli(s.millis).UTC().Format(time.RFC3339)
	}
	return "earliest"
}

// Options are the settings of the group's client, each with its reason. The
// limits and the codec come from what the broker says of the output.
func (c Config) options(out outputs, codec kgo.CompressionCodec) []kgo.Opt {
	opts := append(c.connection(),
		kgo.ConsumerGroup(c.Group),
		kgo.DisableAutoCommit(),

		// A static member that restarts within the session gets its partitions back
		// without a rebalance.
		kgo.InstanceID(c.Instance),
		kgo.SessionTimeout(c.SessionTimeout),
		// Members answer a rebalance between two cycles; one that cannot for that
		// long is stuck, and should cost the others no more than one that is dead.
		kgo.RebalanceTimeout(c.SessionTimeout),
		kgo.HeartbeatInterval(heartbeat(c.SessionTimeout)),
		// Partitions change hands between cycles only: a cycle that is under way
		// commits first.
		kgo.BlockRebalanceOnPoll(),

		kgo.ConsumeTopics(c.In...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// Markers take up offsets: without them each transaction of an upstream
		// producer would look like a hole.
		kgo.KeepControlRecords(),
		// Where reading begins is decided by the restore. An offset that is gone is
		// an error with a name, never a jump.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		// No RecordDeliveryTimeout: it counts from a record's own time, and ours keep
		// the times that they came with.
	)
	return append(opts, moving(out, codec)...)
}

// moving are the settings that decide what it costs to move a record.
func moving(out outputs, codec kgo.CompressionCodec) []kgo.Opt {
	return []kgo.Opt{
		// A resumed partition waits for the fetch that is in flight to end.
		kgo.FetchMaxWait(fetchWait),

		// A record keeps the partition that it had in the input.
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codec, kgo.NoCompression()),
		kgo.ProducerBatchMaxBytesFn(out.batchLimit),
		kgo.BrokerMaxWriteBytes(out.requestLimit()),
		// kgo's 10,000 records are a fiftieth of a second of a fast stream.
		kgo.MaxBufferedRecords(maxBufferedRecords),
		kgo.MaxBufferedBytes(maxBufferedBytes),
	}
}

// Moving are the settings of our client that decide what it costs to move a
// record, for a plain copy that is to be compared with it. Topics have Kafka's
// own limits; the codec is by name, as in [Config.Compression], and not auto.
func Moving(codec string) ([]kgo.Opt, error) {
	c, ok := codecs[codec]
	if !ok {
		return nil, fmt.Errorf("unknown compression %q: want none, lz4, zstd, snappy or gzip", codec)
	}
	return moving(outputs{out: &output{maxBytes: defaultMaxBytes}}, c), nil
}

const (
	metadataMinAge     = 250 * time.Millisecond
	fetchWait          = 500 * time.Millisecond
	maxBufferedRecords = 1 << 19
	maxBufferedBytes   = 128 << 20
)

// heartbeat is a fifteenth of the session, Kafka's own proportion, but at most
// its default of three seconds.
func heartbeat(session time.Duration) time.Duration { return min(session/15, 3*time.Second) }

// connection are the options of every client.
func (c Config) connection() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID("streamdedup"),
		kgo.WithLogger(clientLog{newWarner(c.Logger)}),
		// After a leader has moved nothing goes on before the next look at the
		// metadata; kgo would wait five seconds with it.
		kgo.MetadataMinAge(metadataMinAge),
	}
	return append(opts, c.Client...)
}
