package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/files"
	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/internal/survey"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
)

// defaultSurveyed is how many records tell what a stream is like, in some seconds.
const defaultSurveyed = 10_000_000

// fromSettings say which data size measures, and how they are read.
type fromSettings struct {
	connection
	idSettings
	topic      string
	files      []string
	time       string
	timeFormat string
	format     string
	header     bool
	records    uint64

	flags *pflag.FlagSet // its own
}

func defaultFrom() fromSettings {
	return fromSettings{timeFormat: "auto", format: formatAuto, records: defaultSurveyed}
}

// bind defines the flags; the defaults are what s holds.
func (s *fromSettings) bind(fs *pflag.FlagSet) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	own.StringVar(&s.topic, "from-topic", "", "measure the records of a `TOPIC`, the newest --records of them, instead of being told")
	own.StringArrayVar(&s.files, "from-file", nil, "measure those of a `FILE`, the first --records of them (more files may follow; \"-\" is stdin)")
	numberFlag("records").add(own, &s.records, "records", "how many records are measured at most")
	s.idSettings.bind(own)
	own.StringVar(&s.time, "time", "", "where a record's time comes from: the key `SPEC` of a field, or record (the default with --from-topic)")
	choiceFlag("FORMAT", "auto", "unix", "unix-ms", "unix-us", "unix-ns", "rfc3339").
		add(own, &s.timeFormat, "time-format", "how a field is read as a time: unix, unix-ms, unix-us, unix-ns, rfc3339 or auto")
	choiceFlag("FORMAT", inputFormats...).
		add(own, &s.format, "format", "of a file: ndjson, lines, csv, tsv, or auto (by suffix, else by the key); of a topic's values: csv or tsv")
	own.BoolVar(&s.header, "header", false, "the first line of each file has the names of the columns (default false)")
	s.bindBrokers(own)
	s.bindSecurity(own)
	own.Lookup("brokers").Usage = "brokers to ask first for --from-topic, each `HOST:PORT`, with commas between"
	fs.AddFlagSet(own)
	s.flags = own
}

// checkUnused refuses flags that say how to measure where nothing is.
func (s *fromSettings) checkUnused(changed func(flag string) bool) (err error) {
	s.flags.VisitAll(func(f *pflag.Flag) {
		if err == nil && changed(f.Name) {
			err = withHint(usagef("--%s says how to measure: it goes with --from-topic or --from-file", f.Name),
				"`streamdedup size --from-file FILE --key json:id --time json:at` measures a file")
		}
	})
	return err
}

// measured are the flags whose values are measured instead.
var measured = []string{"capacity", "rate", "memory", "rate-mean", "unique", "redelivery", "record-bytes"}

// checkFrom refuses what can be known to be wrong before anything is read.
func (s *sizeSettings) checkFrom(changed func(flag string) bool) error {
	from := &s.from
	switch {
	case from.topic != "" && len(from.files) > 0:
		return usagef("--from-topic and --from-file are two streams: measure one of them")
	case len(from.keys) == 0:
		return withHint(usagef("--key is required"), "say what identifies an event, such as --key json:id: a copy has the same; `streamdedup size --help` explains it")
	}
	for _, flag := range measured {
		if changed(flag) {
			return withHint(usagef("--%s is measured: leave it out", flag), "--window, --fpr, --peak, --skew and --headroom may be given")
		}
	}
	if from.topic != "" {
		if changed("partitions") {
			return usagef("--partitions are those of the topic: leave it out")
		}
		return errors.Join(s.check(changed), from.checkTopic())
	}
	_, err := s.deployment(int(s.partitions))
	return errors.Join(s.check(changed), err, from.checkFiles(changed))
}

func (s *fromSettings) checkTopic() error {
	if s.time == "" {
		s.time = "record"
	}
	table := s.ids.Table.Kind // of a preset
	switch {
	case len(s.brokers) == 0:
		return withHint(usagef("--brokers is required with --from-topic"), "such as --brokers localhost:9092")
	case s.time == pipeline.TimeNone || s.time == "arrival":
		return usagef("--time %s says nothing of rates and ages: want record or the key spec of a field", s.time)
	case s.header:
		return usagef("--header is for files: the values of a topic have none")
	case s.format == formatCSV:
		table = keys.CSV
	case s.format == formatTSV:
		table = keys.TSV
	case s.format != formatAuto:
		return usagef("--format %s is for files: values of a topic are divided into columns by csv or tsv", s.format)
	}
	s.table, s.ids.Table.Kind = "format", table
	if _, err := s.extractor(); err != nil {
		return err
	}
	if _, err := keys.ParseClock(s.time, s.timeFormat, s.ids.Table); err != nil {
		return nearestSpec(usagef("--time: %w", err), s.time, timeForms)
	}
	return nil
}

// checkFiles decides on the format, and refuses what filter would.
func (s *fromSettings) checkFiles(changed func(flag string) bool) error {
	for _, flag := range []string{"brokers", "tls", "tls-ca", "tls-cert", "tls-key", "sasl-mechanism", "sasl-user", "sasl-password", "sasl-password-file"} {
		if changed(flag) {
			return usagef("--%s goes with --from-topic: a file has no brokers", flag)
		}
	}
	switch s.time {
	case "", "arrival", pipeline.TimeNone:
		return withHint(usagef("--time is required with --from-file: rates and ages are those of the lines' own times"),
			"json:NAME or column:NAME says where the time of a line is")
	}
	f := filterSettings{judging: defaultJudging(), format: s.format, header: s.header}
	f.idSettings, f.time, f.timeFormat = s.idSettings, s.time, s.timeFormat
	if err := f.check(s.files); err != nil {
		return err
	}
	s.format, s.header, s.ids = f.format, f.header, f.ids
	return nil
}

// sizeFrom measures a stream, and plans for it.
func (a *app) sizeFrom(ctx context.Context, s *sizeSettings, changed func(flag string) bool) error {
	if err := s.checkFrom(changed); err != nil {
		return err
	}
	s.from.idSettings.print(a.stderr)
	var m measurement
	var err error
	if s.from.topic != "" {
		m, err = a.measureTopic(ctx, s)
		s.partitions = uint64(m.partitions)
	} else {
		m, err = a.measureFiles(ctx, &s.from)
	}
	if err != nil {
		return err
	}
	report, err := m.survey.Report(m.partitions)
	if err != nil {
		return s.from.unusable(err, m)
	}
	given := time.Duration(0)
	if changed("window") {
		given = s.window
	}
	proposal := report.Propose(given, s.window)
	s.window, s.rate, s.recordBytes = proposal.Window, proposal.Rate, uint64(max(report.RecordBytes+0.5, 1))
	if changed("peak") {
		proposal.Peak = s.peak
	}
	if changed("skew") {
		proposal.Skew = s.skew
	}
	s.peak, s.skew = proposal.Peak, proposal.Skew
	plan, err := s.demanded()
	if err != nil {
		return err
	}
	sized, err := s.report(plan)
	if err != nil {
		return err
	}
	for _, err := range []error{tooFew(report), tooLate(proposal)} {
		if err != nil {
			a.warn(err)
		}
	}
	s.details.Command, s.details.FiltersOnly = s.from.command, s.from.topic == ""
	part := surveyPart{
		From: m.name, Partial: m.partial, Report: report,
		Proposal: proposalPart{sizing.FormatDuration(proposal.Window), proposal}, Command: s.from.command(sized.RunFlags),
	}
	return errors.Join(a.report(surveyed{sized, part, s.details}, s.output), s.draw(a, plan))
}

// From fewer records, or in less time, neither a rate nor how late copies come shows.
const (
	fewestSurveyed = 1000
	shortestSurvey = time.Minute
)

// tooFew says that a plan can come of what was measured, but not much of a plan.
func tooFew(r *survey.Report) error {
	if r.Records >= fewestSurveyed && time.Duration(r.Span) >= shortestSurvey {
		return nil
	}
	return withHint(fmt.Errorf("too few records to plan from: %s within %s show neither how fast IDs come nor how late their copies do",
		sizing.FormatCount(r.Records), roughTime(time.Duration(r.Span))), longSurvey)
}

// mostLate is the share of late records above which it is likely not the stream's.
const mostLate = 0.01

// tooLate says that what was measured does not come in the order of its times.
func tooLate(p survey.Proposal) error {
	if p.Late <= mostLate {
		return nil
	}
	return withHint(fmt.Errorf("%s of the records are more than %s behind the newest before them, and late: the rates are not the stream's",
		percentage(p.Late), sizing.FormatDuration(p.Window)), "several files are read as one stream, in the order given: name the oldest first; or is --time right?")
}

// longSurvey is what to measure instead.
const longSurvey = "measure a stream with some hours of records, best a day"

// unusable says why a plan cannot come of what was measured.
func (s *fromSettings) unusable(err error, m measurement) error {
	hint := map[error]string{
		survey.ErrNoRecords: longSurvey,
		survey.ErrNoIDs:     "is --key right, and --format? `streamdedup size --help` lists the forms of a key",
		survey.ErrNoTimes:   "is --time right, and --time-format? Times far ahead of this machine's clock are not believed",
		survey.ErrOneTime:   "is --time right? A rate needs times that differ",
	}
	for known, text := range hint {
		if errors.Is(err, known) {
			return withHint(fmt.Errorf("measure %s, %s records: %w", m.name, sizing.FormatCount(m.survey.Records()), err), text)
		}
	}
	return fmt.Errorf("measure %s: %w", m.name, err)
}

// surveyError adds what to do next, in the words of size: filter's speak of what it wrote,
// and of flags that size has not.
func surveyError(err error) error {
	compressed := (*files.CompressedError)(nil)
	switch {
	case errors.As(err, &compressed):
		return withHint(err, fmt.Sprintf("give it a name that ends in %s, or unpack it before: `%s -dc FILE | streamdedup size --from-file -`",
			compressed.Suffix, compressed.Format))
	case errors.Is(err, files.ErrLineTooLong):
		return withHint(err, "is it text with line ends?")
	case errors.Is(err, files.ErrDamaged):
		return withHint(err, "is the file whole? `gzip -t` or `zstd -t` checks it; nothing is measured of a part")
	case errors.Is(err, files.ErrHeader):
		return withHint(err, "files with other columns are another stream: measure them apart")
	}
	return filterError(err)
}

// measurement is what was read for a survey.
type measurement struct {
	survey     *survey.Survey
	name       string // of what was read
	partial    string // which part of it, if not all
	partitions int
}

// begin begins a survey.
func (s *fromSettings) begin() (*survey.Survey, error) {
	v, err := survey.New(survey.Config{
		Keys: s.keys, IDs: s.ids, Time: s.time, TimeFormat: s.timeFormat, Now: time.Now(), Sample: survey.DefaultSample,
	})
	if err != nil {
		return nil, &usageError{err}
	}
	return v, nil
}

// measureTopic reads the newest records of a topic, of each partition the same share of
// what it has.
func (a *app) measureTopic(ctx context.Context, size *sizeSettings) (measurement, error) {
	s := &size.from
	m := measurement{name: fmt.Sprintf("topic %q", s.topic)}
	connect, err := s.options()
	if err != nil {
		return m, err
	}
	if m.survey, err = s.begin(); err != nil {
		return m, err
	}
	topic, err := kafkaio.OpenTopic(ctx, s.topic, append(connect, kgo.SeedBrokers(s.brokers...))...)
	if err != nil {
		return m, err
	}
	defer topic.Close()
	m.partitions = int(topic.Partitions())
	if _, err := size.deployment(m.partitions); err != nil {
		return m, err // before all is read
	}
	ranges, total, err := newest(ctx, topic, s.records)
	if err != nil {
		return m, err
	}
	if total > s.records {
		m.partial = fmt.Sprintf("the newest of at most %s", sizing.FormatCount(total))
	}
	p := a.progress(true)
	defer p.clear()
	for i, r := range ranges {
		err := topic.Read(ctx, int32(i), r[0], r[1], func(_ int64, record *pipeline.Record) error {
			m.survey.Add(int32(i), record)
			if m.survey.Records()%(1<<14) == 0 {
				p.surveyed(m.survey.Records(), fmt.Sprintf("partition %d of %d", i, len(ranges)))
			}
			return nil
		})
		if err != nil {
			return m, err
		}
	}
	return m, nil
}

// newest are the offsets of each partition from and up to which a number of records are
// its newest, and how many there may be in all. A transaction that is open is not read.
func newest(ctx context.Context, topic *kafkaio.Topic, most uint64) (ranges [][2]int64, total uint64, err error) {
	for i := range topic.Partitions() {
		begin, err := topic.Begin(ctx, i)
		if err != nil {
			return nil, 0, err
		}
		end, err := topic.Find(ctx, i, latest())
		if err != nil {
			return nil, 0, err
		}
		ranges = append(ranges, [2]int64{begin, max(begin, end)})
		total += uint64(max(0, end-begin))
	}
	if total > most {
		share := float64(most) / float64(total)
		for i := range ranges {
			r := &ranges[i]
			r[0] = r[1] - int64(float64(r[1]-r[0])*share)
		}
	}
	return ranges, total, nil
}

// measureFiles reads the first records of files.
func (a *app) measureFiles(ctx context.Context, s *fromSettings) (measurement, error) {
	m := measurement{name: s.files[0], partitions: 1}
	if n := len(s.files); n > 1 {
		m.name = fmt.Sprintf("%s and %s more", s.files[0], plural(n-1, "file"))
	}
	// A read of a silent pipe cannot be ended from within: signals end the process.
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	door, err := files.Open(files.Config{
		Inputs: s.files, Stdin: a.stdin, Rows: s.ids.Table.Kind, Header: s.header, MaxLine: files.DefaultMaxLine,
	})
	if err != nil {
		return m, surveyError(err)
	}
	if s.header && !door.HasHeader() {
		return m, errors.Join(withHint(fmt.Errorf("measure %s: %w", m.name, survey.ErrNoRecords), "it is empty, without a header"), door.Close())
	}
	s.ids.Table.Header = door.Columns()
	if m.survey, err = s.begin(); err != nil {
		return m, errors.Join(err, door.Close())
	}
	p := a.progress(true)
	defer p.clear()
	err = door.Read(ctx, func(records []pipeline.Record, at files.Progress) bool {
		for i := range records {
			if m.survey.Records() == s.records {
				m.partial = "the first of more"
				return false
			}
			m.survey.Add(0, &records[i])
		}
		p.surveyed(m.survey.Records(), done(at))
		return true
	})
	if errors.Is(err, files.ErrUnclosed) {
		return m, withHint(err, "close or remove the quote; for text whose quotes mean nothing there is --format tsv or lines")
	}
	return m, surveyError(err)
}

// done is how far the reading of files is.
func done(at files.Progress) string {
	if at.Size > 0 {
		return fmt.Sprintf("%d%% of %s", min(100*at.Read/at.Size, 100), sizing.FormatBytes(uint64(at.Size)))
	}
	return sizing.FormatBytes(uint64(at.Read))
}

// surveyed replaces the line with how far a survey is, if it is time to.
func (p *progress) surveyed(records uint64, where string) {
	if p.to == nil || time.Since(p.shownAt) < progressEvery {
		return
	}
	p.shownAt = time.Now()
	p.show("%s: %s records, %s/s", where, sizing.FormatCount(records),
		sizing.FormatCount(uint64(float64(records)/time.Since(p.start).Seconds())))
}

// command is the line that deduplicates the stream which was measured, with the flags of
// its plan.
func (s *fromSettings) command(plan string) string {
	line, skip := "streamdedup filter", []string{"from-file", "from-topic", "records", "brokers", "sasl-password"}
	if s.topic != "" {
		line = "streamdedup run"
		for _, f := range [][2]string{
			{"brokers", joined(s.brokers)}, {"group", "dedup-" + s.topic}, {"in", s.topic}, {"out", s.topic + "-unique"},
		} {
			line += " --" + f[0] + " " + shellWord(f[1])
		}
		line += " --create-topics"
	}
	s.flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed && !slices.Contains(skip, f.Name) {
			line += flagText(f)
		}
	})
	line += " " + plan
	for _, name := range s.files {
		line += " " + shellWord(name)
	}
	return line
}
