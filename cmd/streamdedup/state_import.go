package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
)

// importSettings is the configuration of state import.
type importSettings struct {
	stateSettings
	judging
	start       kafkaio.Start
	format      string
	timeFormat  string
	partitioner string
}

func newStateImportCmd(a *app) *cobra.Command {
	s := &importSettings{judging: defaultJudging(), format: formatAuto, timeFormat: "auto", partitioner: byLine}
	cmd := &cobra.Command{
		Use:   "import [FILE]",
		Short: "Teach a group IDs that were seen elsewhere: in Redis, another cluster, a mirror",
		Long: `Teach a group IDs that were seen elsewhere: in Redis, another cluster, a mirror.

Reads FILE, or stdin, and writes to the group's changelog; the next start knows
those IDs. A line of NDJSON is one of

  {"id":"e7","time":"2025-06-01T12:00:00Z","partition":0}
  {"hash":"0123456789abcdef","time":1748779200000,"partition":0}

The id is written as in the records: a string, a number, or an array for several
--key specs; types count. CSV has a line with the names of its columns, and its IDs
are strings. Hashes come from state export, with its first line, and only for the
fingerprint of these --key, --hash-seed and --filter. The time is when the ID was
first seen. An ID older than the window is left out; a time ahead of the clock is
an error.

Copies of an ID are looked for in its partition. A line names it, or --partitioner
says how it is found: kafka, from the ID as Kafka's default partitioner does (only
with --key key), or all, which puts each ID into every partition: as much memory
for each of them as for all IDs together.

Give the --key, --hash-seed, --window and --filter of the run, and its --capacity,
--rate or --memory to be warned when there is no room. A group that has not begun
begins at --start with what it was taught, as a stream that has come to the newest
ID: records that are older than it by more than the window will be late, and such a
backlog does not come out under --on-late drop or divert. One that has gets the IDs
into the generations of their times. All IDs are held in memory, at 16 bytes each.`,
		Example: `  streamdedup state import --brokers localhost:9092 --group dedup --in clicks --key key --partitioner kafka seen.ndjson`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.check(cmd, args); err != nil {
				return err
			}
			return a.importState(cmd.Context(), s, args)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	alias(fs, "elements", "capacity")
	s.stateSettings.bind(fs)
	s.idSettings.bind(fs)
	s.bindTable(fs, "value-format", "--format of the run, if it has one: csv or tsv")
	choiceFlag("FORMAT", formatAuto, formatNDJSON, formatCSV).
		add(fs, &s.format, "format", "of the input: ndjson, csv, or auto (by suffix, else ndjson)")
	choiceFlag("FORMAT", "auto", "unix", "unix-ms", "unix-us", "unix-ns", "rfc3339").
		add(fs, &s.timeFormat, "time-format", "how a time is written: unix, unix-ms, unix-us, unix-ns, rfc3339 or auto")
	choiceFlag("HOW", byLine, byKafka, toAll).
		add(fs, &s.partitioner, "partitioner", "an ID's partition: line (its member partition), kafka (from the ID, with --key key) or all")
	startFlag.add(fs, &s.start, "start", "where a group that has not begun begins: earliest, latest or a time")
	s.memorySettings.bind(fs)
	durationFlag.add(fs, &s.maxAhead, "max-ahead", "how far ahead of the clock a time may be (default a seventh of the window, at most 5m)")
	seedFlag.add(fs, &s.seed, "hash-seed", "64-bit seed of the hash (default from cluster ID and group)")
	fs.StringVar(&s.seedFile, "hash-seed-file", "", "`FILE` with the seed")
	s.bindSecurity(fs)
	return cmd
}

func (s *importSettings) check(cmd *cobra.Command, args []string) error {
	if err := errors.Join(s.stateSettings.check(cmd), s.checkChangeable()); err != nil {
		return err
	}
	if len(s.keys) == 0 {
		return withHint(usagef("--key is required"), "give those of the run: an ID's hash depends on them")
	}
	extractor, err := s.extractor()
	if err != nil {
		return err
	}
	if s.partitioner == byKafka && extractor.KeyText([]byte(`"k"`)) == nil {
		return withHint(usagef("--partitioner kafka needs --key key: Kafka's partitioner hashes the record's key"),
			"give each line its partition, or take --partitioner all")
	}
	if s.format == formatAuto {
		s.format = formatNDJSON
		if len(args) == 1 && filepath.Ext(args[0]) == ".csv" {
			s.format = formatCSV
		}
	}
	if s.planned() {
		if _, err := s.plan(1); err != nil {
			return err
		}
	}
	return nil
}

// planned is whether the flags say how many IDs a generation takes.
func (s *importSettings) planned() bool { return s.capacity != 0 || s.rate != 0 || s.memory != 0 }

// importState reads IDs and teaches them.
func (a *app) importState(ctx context.Context, s *importSettings, args []string) (err error) {
	s.idSettings.print(a.stderr)
	input := a.stdin
	name := "stdin"
	if len(args) == 1 && args[0] != "-" {
		name = args[0]
		file, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("read the import: %w", err)
		}
		defer file.Close()
		input = file
	}
	g, err := s.open(ctx, a)
	if err != nil {
		return err
	}
	defer g.Close()
	if err := errors.Join(g.Fits(), s.idle(ctx, g)); err != nil {
		return err
	}
	t := &teacher{group: g, settings: s, warn: func(format string, args ...any) { fmt.Fprintf(a.stderr, "warning: "+format+"\n", args...) }}
	if err := t.rules(); err != nil {
		return err
	}
	// Before the IDs are read: what cannot be taught is not worth the reading.
	if err := t.look(ctx); err != nil {
		return err
	}
	if err := t.read(input, name, a.status()); err != nil {
		return err
	}
	if err := s.idle(ctx, g); err != nil {
		return err
	}
	if err := t.teach(ctx); err != nil {
		return withHint(err, "partitions before this one know their IDs; import again to finish, an ID that is known already does no harm")
	}
	fmt.Fprintf(a.stderr, "%s IDs taught to %s, %s older than the window left out; fingerprint %s, seed %d\n",
		formatIDs(t.taught), plural(int(g.Partitions()), "partition"), formatIDs(t.old), t.print, t.seed)
	return nil
}

// teacher puts IDs into a group's changelog.
type teacher struct {
	group    *kafkaio.Group
	settings *importSettings
	warn     func(format string, args ...any)

	seed        uint64
	print       string
	slice, span int64
	// latest is the time that is believed at most.
	latest time.Time
	// room is how many IDs a generation takes, 0 where that is not known.
	room     uint64
	accounts []kafkaio.Account
	ids      importedIDs

	taught, old uint64
	// newest is the time of the newest ID that a stream begins at, in the partition
	// newestIn.
	newest   int64
	newestIn int32
	// ahead counts the IDs that are newer than their stream, of which the one that is
	// furthest behind has come to behind, in the partition behindIn.
	ahead    uint64
	behind   int64
	behindIn int32
}

// rules are what the IDs are hashed with.
func (t *teacher) rules() error {
	s := t.settings
	seed, err := s.givenSeed()
	if err != nil {
		return err
	}
	if !seed.given {
		seed.n = derivedSeed(t.group.Cluster(), s.group)
	}
	t.seed = seed.n
	plan := sizing.Plan{GenerationCapacity: 1} // nothing is remembered here
	if s.planned() {
		if plan, err = s.plan(int(t.group.Partitions())); err != nil {
			return err
		}
		t.room = plan.GenerationCapacity
	}
	s.judging.time = "record"
	rules, err := s.judging.rules(plan, t.seed, false)
	if err != nil {
		return err
	}
	if t.print, err = rules.Fingerprint(); err != nil {
		return err
	}
	t.slice, t.span = rules.Window.Slice(), rules.Window.Span.Milliseconds()
	ahead := s.maxAhead
	if ahead == 0 {
		ahead = min(time.Duration(t.slice)*time.Millisecond, 5*time.Minute)
	}
	t.latest = time.Now().Add(ahead)
	return nil
}

// look finds the state of each partition, and refuses what cannot be added to.
func (t *teacher) look(ctx context.Context) error {
	const settle = "start `streamdedup run` once and stop it, which settles the state; then import"
	for n := range t.group.Partitions() {
		a, err := t.group.Account(ctx, n)
		if err != nil {
			return err
		}
		if err := errors.Join(a.Settled(), a.Refused); err != nil {
			return withHint(fmt.Errorf("import into partition %d: %w", n, err), settle)
		}
		switch a.Course {
		case kafkaio.Begins, kafkaio.FromChangelog, kafkaio.FromInput, kafkaio.OffsetsExpired, kafkaio.NotCommitted:
		default:
			return withHint(fmt.Errorf("import into partition %d: a restart would restore %s", n, a.Course), settle)
		}
		if a.State != nil && a.State.Fingerprint != t.print {
			return withHint(fmt.Errorf("import into partition %d: the group has fingerprint %s, these settings have %s", n, a.State.Fingerprint, t.print),
				"give the --key, --hash-seed and --filter of the run")
		}
		t.accounts = append(t.accounts, a)
	}
	return nil
}

// read takes the IDs.
func (t *teacher) read(input io.Reader, name string, status *status) error {
	extractor, err := keys.Parse(t.settings.keys, t.seed, t.settings.ids)
	if err != nil {
		return usagef("--key: %w", err)
	}
	clock, err := keys.ParseClock("json:time", t.settings.timeFormat, keys.Table{})
	if err != nil {
		return usagef("--time-format: %w", err)
	}
	defer status.clear()
	r := &idReader{
		extractor: extractor, clock: clock, print: t.print, latest: t.latest.UnixMilli(),
		partitioner: t.settings.partitioner, partitions: t.group.Partitions(), status: status,
		ids: make(importedIDs, t.group.Partitions()),
	}
	read := r.ndjson
	if t.settings.format == formatCSV {
		read = r.csv
	}
	if err := read(input); err != nil {
		return fmt.Errorf("import %s: %w", name, err)
	}
	if r.digits > 0 && t.settings.format == formatCSV {
		t.warn("%s IDs are digits, and were taken for strings, as all of CSV; if the records have numbers, import NDJSON", formatIDs(r.digits))
	}
	t.ids = r.ids
	return nil
}

// teach writes what was read, partition by partition.
func (t *teacher) teach(ctx context.Context) error {
	if err := t.group.EnsureChangelog(ctx); err != nil {
		return err
	}
	defer t.tell() // also of what was taught before an error
	for i := range t.accounts {
		a := &t.accounts[i]
		next := a.Next
		if a.Course == kafkaio.Begins {
			var err error
			if next, err = t.group.Find(ctx, a.Partition, t.settings.start); err != nil {
				return err
			}
		}
		lesson := t.lesson(a, next)
		t.taught, t.old = t.taught+lesson.taught, t.old+lesson.old
		if lesson.change != nil {
			if err := t.group.Append(ctx, a.Partition, lesson.change); err != nil {
				return err
			}
		}
		// Only now: without an offset, a restart goes on where the changelog ends.
		if lesson.change == nil && a.Course != kafkaio.Begins {
			continue
		}
		place := kafkaio.Place{Next: next, State: lesson.state}
		if err := t.group.CommitOffsets(ctx, map[int32]kafkaio.Place{a.Partition: place}); err != nil {
			return err
		}
	}
	return nil
}

// lesson is what one partition is taught.
type lesson struct {
	state       pipeline.State
	change      *pipeline.Change // nil where there is nothing to teach
	taught, old uint64
}
