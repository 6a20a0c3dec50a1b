package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/audit"
	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
)

// defaultMaxRecords is what an audit of about 5 GB can hold.
const defaultMaxRecords = 50_000_000

// verifySettings is the configuration of verify.
type verifySettings struct {
	connection
	idSettings
	in, out    string
	time       string
	timeFormat string
	maxAhead   time.Duration
	window     time.Duration
	fpr        float64
	duplicates pipeline.DuplicatePolicy
	from, to   kafkaio.Start
	maxRecords uint64
	output     string
}

func newVerifyCmd(a *app) *cobra.Command {
	s := &verifySettings{
		time: "record", timeFormat: "auto", window: defaultWindow, fpr: defaultFPR, maxRecords: defaultMaxRecords,
	}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Audit an output topic against its input, exactly",
		Long: `Audit an output topic against its input, exactly.

Recomputes every verdict in input order with an exact map and compares it with
what a reader of committed records sees. It reports, with offsets, duplicates
that came out (missed), records that came out twice (extra), records that are not
in the input (foreign), records out of order, and first copies that are absent
(withheld). Exits 1 on any of them, except for withheld ones inside the budget of
--fpr.

Give the --key, --time and --window of the run. Between the window and one
generation more either verdict is right, and a time that may or may not have been
believed is judged both ways: only what is wrong in both is reported. Records
without an ID must come out. With --on-duplicate tag everything must, duplicates
with the tag and first copies without. It looks at no other topic: neither at that
for diverted records nor at that for duplicates.

What is written to the output when the audit begins counts: it waits for a
transaction that is still open there, and fails where that does not end. Of the
input it takes what can be read by then.

A partition is held in memory, at about 100 bytes a record. It audits partition by
partition: the output of --scope topic, where copies are looked for across them,
it cannot judge, nor that of --refresh.`,
		Example: `  streamdedup verify --brokers localhost:9092 --in clicks --out clicks-unique --key json:event_id`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(); err != nil {
				return err
			}
			return a.verify(cmd.Context(), s)
		},
	}
	s.to = latest()
	fs := cmd.Flags()
	fs.SortFlags = false
	s.bindBrokers(fs)
	fs.StringVar(&s.in, "in", "", "input `TOPIC` (required)")
	fs.StringVar(&s.out, "out", "", "output `TOPIC` (required)")
	s.idSettings.bind(fs)
	s.bindTable(fs, "format", tableUsage)
	fs.StringVar(&s.time, "time", s.time, "where a record's time comes from: record, arrival, or a `SPEC` such as json:ts")
	choiceFlag("FORMAT", "auto", "unix", "unix-ms", "unix-us", "unix-ns", "rfc3339").
		add(fs, &s.timeFormat, "time-format", "how a field's time is written")
	windowFlag.add(fs, &s.window, "window", "how long an ID was to be remembered")
	durationFlag.add(fs, &s.maxAhead, "max-ahead", "times further ahead of the clock were not believed (default one generation, at most 5m)")
	shareFlag.add(fs, &s.fpr, "fpr", "share of new records that may be withheld")
	duplicateFlag.add(fs, &s.duplicates, "on-duplicate", "what became of duplicates: drop, divert or tag")
	startFlag.add(fs, &s.from, "from", "where the audit begins in the input: earliest or a time")
	startFlag.add(fs, &s.to, "to", "where it ends: latest or a time")
	countFlag.add(fs, &s.maxRecords, "max-records", "most records of a partition that are held in memory")
	bindOutput(fs, &s.output)
	s.bindSecurity(fs)
	return cmd
}

// latest is the end of a topic.
func latest() kafkaio.Start {
	s, err := kafkaio.ParseStart("latest")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return s
}

// check refuses what can be known to be wrong without a broker.
func (s *verifySettings) check() error {
	for _, required := range []struct {
		flag  string
		given bool
	}{{"brokers", len(s.brokers) > 0}, {"in", s.in != ""}, {"out", s.out != ""}, {"key", len(s.keys) > 0}} {
		if !required.given {
			return withHint(usagef("--%s is required", required.flag), "`streamdedup verify --help` explains it")
		}
	}
	if s.in == s.out {
		return usagef("--in and --out are both %q: want two topics", s.in)
	}
	if _, err := s.extractor(); err != nil {
		return err
	}
	if s.time == pipeline.TimeNone {
		return usagef("--time none is for files: a topic has no end, its window needs a time")
	}
	if _, err := keys.ParseClock(s.time, s.timeFormat, s.ids.Table); err != nil {
		return usagef("--time: %w", err)
	}
	if s.maxRecords > audit.MaxRecords {
		return usagef("--max-records %d: at most %d can be held", s.maxRecords, audit.MaxRecords)
	}
	return nil
}

// tag is the header that marks duplicates in the output, none where they are not in it.
func (s *verifySettings) tag() string {
	if s.duplicates == pipeline.TagDuplicates {
		return kafkaio.HeaderDuplicate
	}
	return ""
}

// verify audits from topic to topic and prints what it found.
func (a *app) verify(ctx context.Context, s *verifySettings) error {
	connect, err := s.options()
	if err != nil {
		return err
	}
	connect = append(connect, kgo.SeedBrokers(s.brokers...))
	s.idSettings.print(a.stderr)
	status := a.status()
	defer status.clear()
	report, err := auditTopics(ctx, topicAudit{
		connect: connect, in: s.in, out: s.out, from: s.from, to: s.to,
		config: audit.Config{
			Keys: s.keys, IDs: s.ids, Time: s.time, TimeFormat: s.timeFormat, Window: s.window, MaxAhead: s.maxAhead,
			Tag: s.tag(), FPR: s.fpr, ReadTo: time.Now(), MaxRecords: int(s.maxRecords),
		},
		progress: func(partition int32, records int) {
			status.show("partition %d: %s records", partition, sizing.FormatCount(uint64(records)))
		},
		say: func(format string, args ...any) {
			status.clear()
			fmt.Fprintf(a.stderr, format+"\n", args...)
		},
	})
	if errors.Is(err, audit.ErrTooMany) {
		return withHint(err, "raise --max-records if the machine has the memory, or audit a range with --from and --to")
	}
	if err != nil {
		return err
	}
	status.clear()
	if err := a.report(auditText{&report}, s.output); err != nil {
		return err
	}
	if report.In == 0 {
		// A check that passes on nothing would stay green with a wrong range.
		return withHint(fmt.Errorf("nothing to audit: topic %q has no record from %s to %s", s.in, s.from, s.to),
			"--from and --to are a range of the input, --from the earlier")
	}
	if err := report.Err(); err != nil {
		return withHint(err, verifyHint(&report))
	}
	return nil
}

// verifyHint says what else than a fault of the processor makes an audit fail.
func verifyHint(r *audit.Report) string {
	hints := []string{"--key, --time, --time-format, --window, --max-ahead and --on-duplicate must be those of the run"}
	if r.Withheld.Count > r.Allowed || r.Lost.Count > 0 {
		hints = append(hints, "absent: has the run caught up (streamdedup_lag_records)? What a policy, an import or --scope topic takes out counts as absent, too",
			"to let a withheld ID through, send it again with its ID in run's --allow-id FILE: `kafka-console-consumer.sh --partition P --offset N --max-messages 1` shows the record")
	}
	if r.Missed.Count > 0 {
		hints = append(hints, "missed: the metrics say whether the filter was full (mark unlearned) or did not know its window (coverage)")
	}
	if r.Extra.Count > 0 || r.Reordered.Count > 0 {
		hints = append(hints, "extra, reordered: --delivery at-least-once, state reset and --replay write records again; --scope topic gives an ID a partition of its own, which cannot be audited here")
	}
	if r.Foreign.Count > 0 {
		hints = append(hints, "foreign: does someone else write to --out, or has the input lost records that the output still has (--from)?")
	}
	return strings.Join(hints, "\n")
}

// auditText prints an audit.
type auditText struct{ *audit.Report }

func (t auditText) WriteText(w io.Writer) error {
	_, err := io.WriteString(w, t.String())
	return err
}

// topicAudit is an audit of a topic against another.
type topicAudit struct {
	connect  []kgo.Opt
	in, out  string
	from, to kafkaio.Start
	config   audit.Config
	progress func(partition int32, records int)
	// say tells why the audit waits, or does not reach the end.
	say func(format string, args ...any)
}

// retimeMargin is how much nearer than a topic's limit the processor moves the
// times that are beyond it.
const retimeMargin = 5 * time.Minute

// auditTopics reads both topics, partition by partition.
func auditTopics(ctx context.Context, t topicAudit) (audit.Report, error) {
	in, err := kafkaio.OpenTopic(ctx, t.in, t.connect...)
	if err != nil {
		return audit.Report{}, err
	}
	defer in.Close()
	out, err := kafkaio.OpenTopic(ctx, t.out, t.connect...)
	if err != nil {
		return audit.Report{}, err
	}
	defer out.Close()
	if in.Partitions() != out.Partitions() {
		return audit.Report{}, fmt.Errorf("audit %q against %q: they have %d and %d partitions, a record keeps its partition",
			t.out, t.in, out.Partitions(), in.Partitions())
	}
	before, after := out.TimeLimits()
	if before > 0 {
		before = max(before-retimeMargin, time.Millisecond)
	}
	if after > 0 {
		after = max(after-retimeMargin, time.Millisecond)
	}
	t.config.OutputTimes = audit.OutputTimes{Stamped: out.Stamped(), Before: before, After: after}
	auditor, err := audit.New(t.config)
	if err != nil {
		return audit.Report{}, err
	}
	out.OnWait = func(w kafkaio.OpenTransaction) {
		t.say("waiting up to %v for the transaction that is open in partition %d of %q at offset %d",
			w.Patience, w.Partition.Number, t.out, w.Offset)
	}
	pieces, err := t.pieces(ctx, in, out)
	if err != nil {
		return audit.Report{}, err
	}
	for _, piece := range pieces {
		if err := t.partition(ctx, auditor, in, out, piece); err != nil {
			return audit.Report{}, err
		}
	}
	return auditor.Report(), nil
}

// piece is what is audited of a partition, from the first offset up to the second.
type piece struct {
	partition int32
	in, out   [2]int64
	partial   bool
}

// pieces settles at once what is audited, so that an audit that waits, or takes
// long, does not see one topic later than the other.
func (t topicAudit) pieces(ctx context.Context, in, out *kafkaio.Topic) ([]piece, error) {
	pieces := make([]piece, in.Partitions())
	// The output first: then all that it holds comes from the piece of the input.
	for i := range pieces {
		p := int32(i)
		begin, err := out.Begin(ctx, p)
		if err != nil {
			return nil, err
		}
		end, err := out.Written(ctx, p)
		if err != nil {
			return nil, err
		}
		pieces[i] = piece{partition: p, out: [2]int64{begin, end}}
	}
	for i := range pieces {
		if err := t.input(ctx, in, &pieces[i]); err != nil {
			return nil, err
		}
	}
	return pieces, nil
}

// input settles the piece of the input. What lies in and behind an open
// transaction nobody has read, so there is nothing to wait for.
func (t topicAudit) input(ctx context.Context, in *kafkaio.Topic, piece *piece) error {
	begin, err := in.Begin(ctx, piece.partition)
	if err != nil {
		return err
	}
	from, err := in.Find(ctx, piece.partition, t.from)
	if err != nil {
		return err
	}
	to, err := in.Find(ctx, piece.partition, t.to)
	if err != nil {
		return err
	}
	written, err := in.Written(ctx, piece.partition)
	if err != nil {
		return err
	}
	if t.to == latest() && to < written {
		t.say("the audit of partition %d ends at offset %d of %q: a transaction is open there, so nobody has read further",
			piece.partition, to, t.in)
	}
	piece.in = [2]int64{from, to}
	piece.partial = begin > 0 || t.from != kafkaio.Start{} || t.to != latest()
	return nil
}

func (t topicAudit) partition(ctx context.Context, auditor *audit.Auditor, in, out *kafkaio.Topic, piece piece) error {
	part := auditor.Partition(piece.partition, piece.partial)
	n := 0
	counted := func(take func(int64, *pipeline.Record) error) func(int64, *pipeline.Record) error {
		return func(offset int64, r *pipeline.Record) error {
			if n++; n%(1<<16) == 0 && t.progress != nil {
				t.progress(piece.partition, n)
			}
			return take(offset, r)
		}
	}
	if err := in.Read(ctx, piece.partition, piece.in[0], piece.in[1], counted(part.In)); err != nil {
		return err
	}
	if err := out.Read(ctx, piece.partition, piece.out[0], piece.out[1], counted(part.Out)); err != nil {
		return err
	}
	part.Finish()
	return nil
}
