package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/admin"
	"github.com/streamdedup/streamdedup/internal/files"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
	"github.com/streamdedup/streamdedup/window"
)

// filterSettings is the configuration of filter.
type filterSettings struct {
	judging
	format     string
	guessed    bool // the format is that of the key, nothing else said it
	header     bool
	output     string
	divert     string
	duplicates string
	maxLine    uint64
}

func newFilterCmd(a *app) *cobra.Command {
	s := &filterSettings{judging: defaultJudging(), format: formatAuto, output: files.Stdin, maxLine: files.DefaultMaxLine}
	s.keys = []string{"value"}
	s.time = pipeline.TimeNone
	cmd := &cobra.Command{
		Use:   "filter [FILE...]",
		Short: "Remove duplicate lines from files or stdin",
		Long: `Remove duplicate lines, or rows of CSV, from files or stdin; the survivors go to
stdout or to -o FILE, in the order of the input.

A line is an event. What survives keeps its own bytes and its own line end. Empty
lines are left out and not counted. "-" is stdin, and so is no FILE at all;
several files are one stream, in order. A name that ends in .gz or .zst is
compressed, of an input as of an output.

Without --time the whole input is one window and nothing is forgotten; with
--time json:FIELD an ID is forgotten when the stream has moved on by --window.

Formats: ndjson and lines have an event a line. A row of csv (RFC 4180) may have
line ends between quotes; a quote that is never closed is an error, and what follows
it passes as one record; tsv has no quotes. With --header, or a key that names a
column, the first line of each file has the names of the columns; it must be the
same in all files, is written once and not counted.

Policies, and what they do with such lines; each has an example:
  --on-missing    no ID: pass, drop, divert (to --divert FILE), fail
  --on-invalid    malformed before their ID: the same
  --on-late       more than the window of --time behind: the same
  --on-duplicate  seen before: drop, divert, or tag: pass, to see what would go
  --on-full       new, and the filter has what it was planned for: grow, pass, fail
  --refresh       seen before: remembered for a window from now, not from the first`,
		Example: `  streamdedup filter --key json:id events.ndjson > unique.ndjson
  streamdedup filter --key column:click_id monday.csv.gz tuesday.csv.gz -o clicks.csv.gz
  tail -F access.log | streamdedup filter | grep 404
  streamdedup filter --key json:id --on-missing drop events.ndjson
  streamdedup filter --key json:id --on-invalid divert --divert broken.ndjson events.ndjson
  streamdedup filter --key json:id --time json:at --window 1h --on-late drop events.ndjson
  streamdedup filter --key json:id --on-duplicate tag --duplicates seen.ndjson events.ndjson
  streamdedup filter --key json:id --capacity 1000 --on-full fail events.ndjson
  streamdedup filter --key json:id --time json:at --window 1h --refresh events.ndjson`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.oneWindow(cmd.Flags().Changed("peak"))
			if s.capacity == 0 && s.rate == 0 && s.memory == 0 {
				s.capacity = defaultCapacity
			}
			// A read of a silent pipe cannot be ended from within: signals end the
			// process, as they do any filter's.
			signal.Reset(os.Interrupt, syscall.SIGTERM)
			return a.filter(cmd.Context(), s, args)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	alias(fs, "elements", "capacity")
	choiceFlag("FORMAT", inputFormats...).
		add(fs, &s.format, "format", "of the input: ndjson, lines, csv, tsv, or auto (by suffix, else by the key)")
	fs.BoolVar(&s.header, "header", false, "the first line of each file has the names of the columns")
	fs.StringVarP(&s.output, "output", "o", s.output, "`FILE` for the survivors instead of stdout; until it is complete it is FILE.partial, and overwrites one")
	fs.StringVar(&s.divert, "divert", "", "`FILE` for lines that a policy diverts")
	fs.StringVar(&s.duplicates, "duplicates", "", "`FILE` for a copy of each duplicate that is dropped or tagged")
	s.judging.bind(fs, choices{times: "none, arrival", policies: "pass, drop, divert or fail", seed: "0"})
	sizeFlag.add(fs, &s.maxLine, "max-line", "longest line in bytes; a longer one is an error")
	fs.Lookup("capacity").Usage += " (default 10,000,000)"
	fs.Lookup("peak").Usage += " (with --time none: all of it, in one generation)"
	return cmd
}

// oneWindow plans for an input that is one window as a whole, if it is: all IDs
// are in one generation and none is forgotten.
func (s *filterSettings) oneWindow(peakGiven bool) {
	switch {
	case s.time != pipeline.TimeNone:
	case s.kind == sizing.Sliced:
		s.kind = sizing.Single
	case !peakGiven:
		s.peak = filter.Sealed // a ring fills the first of its generations
	}
}

// timeForms are the time specs that there are.
var timeForms = []string{"record", "arrival", "none", "json:NAME", "column:NAME"}

// check refuses key and time specs that do not parse, and a list of IDs that has
// others.
func (j *judging) check() error {
	if _, err := j.extractor(); err != nil {
		return err
	}
	if err := j.checkGrowing(); err != nil {
		return err
	}
	if j.allowFile != "" {
		// Now, and not only when the seed is known: a bad line should not cost a start.
		if _, err := readAllowed(j.allowFile, j.keys, 0, j.ids); err != nil {
			return err
		}
	}
	if j.time == pipeline.TimeNone {
		return nil
	}
	if _, err := keys.ParseClock(j.time, j.timeFormat, j.ids.Table); err != nil {
		return nearestSpec(usagef("--time: %w", err), j.time, timeForms)
	}
	return nil
}

// filter runs the file door.
func (a *app) filter(ctx context.Context, s *filterSettings, inputs []string) error {
	start := time.Now()
	if err := s.check(inputs); err != nil {
		return err
	}
	if s.summary != summaryNone {
		s.idSettings.print(a.stderr)
	}
	plan, err := s.plan(1)
	if err != nil {
		return err
	}
	if memory, known := machineMemory(); known {
		if too := filterNeed(plan).fits(memory); too != nil {
			return too
		}
	}
	p := a.progress(s.output != files.Stdin)
	cfg := files.Config{
		Inputs: inputs, Stdin: a.stdin, Rows: s.ids.Table.Kind, Header: s.header,
		MaxLine: int(min(s.maxLine, 1<<40)), Wall: time.Now, Progress: p.filtered,
	}
	counts, stats, err := a.filtered(ctx, s, plan, cfg)
	p.clear()
	if errors.Is(err, errReaderGone) || err != nil && counts.In == 0 {
		return err
	}
	sum := newSummary(&counts, stats.FPR, stats.Bytes, time.Since(start))
	if sum.Unlearned > 0 && s.summary != summaryNone {
		fmt.Fprintf(a.stderr, "warning: the filter was full for %s new IDs, repeats of them passed: raise %s\n",
			sizing.FormatCount(sum.Unlearned), s.more())
	}
	sum.warn(s.withoutID(&counts))
	sum.warn(admin.WithoutTime(&counts, s.time))
	if s.summary == summaryJSON {
		for _, text := range sum.warnings {
			fmt.Fprintf(a.stderr, "warning: %s\n", text) // the text has them
		}
	}
	return errors.Join(err, sum.write(a.stderr, s.summary))
}

// withoutID says that most lines have no ID. A table whose format nobody told may be
// of the other one.
func (s *filterSettings) withoutID(c *pipeline.Counts) string {
	text := admin.WithoutID(c)
	if text != "" && s.guessed && s.ids.Table.Kind == keys.CSV {
		text += " (read as csv: --format tsv?)"
	}
	return text
}

// filtered filters with a memory of its own.
func (a *app) filtered(ctx context.Context, s *filterSettings, plan sizing.Plan, cfg files.Config) (counts pipeline.Counts, stats window.Stats, err error) {
	door, err := files.Open(cfg)
	if err != nil {
		return counts, stats, filterError(err)
	}
	rules, shard, err := s.shard(plan, door)
	if err != nil {
		return counts, stats, errors.Join(err, door.Close())
	}
	out, to, err := a.openOutputs(s, cfg.Inputs)
	if err != nil {
		return counts, stats, errors.Join(err, door.Close(), shard.Close())
	}
	counts, err = door.Filter(ctx, to, rules, shard)
	stats = shard.Stats()
	err = errors.Join(filterError(err), counts.Check(), shard.Close())
	return counts, stats, out.end(err)
}

// shard makes the one shard of the file door, and the rules that it judges by.
func (s *filterSettings) shard(plan sizing.Plan, door *files.Door) (pipeline.Config, *pipeline.Shard, error) {
	j := s.judging
	if s.header && !door.HasHeader() {
		// The inputs are empty: no column has a name, and none is looked for.
		j.keys, j.time = []string{"value"}, pipeline.TimeNone
	}
	j.ids.Table.Header = door.Columns()
	seed, err := s.givenSeed()
	if err != nil {
		return pipeline.Config{}, nil, err
	}
	rules, err := j.rules(plan, seed.n, s.divert != "")
	if err != nil {
		return pipeline.Config{}, nil, err
	}
	shard, err := pipeline.NewShard(rules, pipeline.Partition{Topic: "files"}, false)
	return rules, shard, err
}

// filterError adds what to do next.
func filterError(err error) error {
	stopped := (*files.StoppedError)(nil)
	unclosed := (*files.UnclosedError)(nil)
	compressed := (*files.CompressedError)(nil)
	switch {
	case errors.As(err, &compressed):
		name := compressed.Input
		if name == "stdin" {
			name = "FILE"
		}
		return withHint(err, fmt.Sprintf("give it a name that ends in %s, or unpack it before: `%s -dc %s | streamdedup filter`",
			compressed.Suffix, compressed.Format, name))
	case errors.Is(err, files.ErrLineTooLong):
		return withHint(err, "is it text with line ends? --max-line SIZE allows longer lines")
	case errors.Is(err, files.ErrDamaged):
		return withHint(err, "is the file whole? `gzip -t` or `zstd -t` checks it; the records that are whole before that place were filtered, the one that it cuts was left out")
	case errors.Is(err, files.ErrHeader):
		return withHint(err, "files with other columns are another stream: filter them apart")
	case errors.As(err, &unclosed):
		return withHint(err, "no duplicates were looked for in what follows: close or remove the quote and filter again; for text whose quotes mean nothing there is --format tsv or lines")
	case errors.As(err, &stopped):
		return withHint(err, stopHint(stopped.Reason))
	}
	return err
}
