package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamdedup/streamdedup/internal/files"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
)

// The formats of an input.
const (
	formatAuto   = "auto"
	formatNDJSON = "ndjson"
	formatLines  = "lines"
	formatCSV    = "csv"
)

// filterSettings is the configuration of filter.
type filterSettings struct {
	judging
	format  string
	maxLine uint64
}

func newFilterCmd(a *app) *cobra.Command {
	s := &filterSettings{judging: defaultJudging(), format: formatAuto, maxLine: files.DefaultMaxLine}
	s.keys = []string{"value"}
	s.time = pipeline.TimeNone
	cmd := &cobra.Command{
		Use:   "filter [FILE...]",
		Short: "Remove duplicate lines from files or stdin",
		Long: `Remove duplicate lines from files or stdin; the survivors go to stdout.

A line is an event. What survives keeps its own bytes and its own line end. Empty
lines are left out and not counted. "-" is stdin, and so is no FILE at all;
several files are one stream, in order. A line that has no ID, or is malformed
before it, passes and is counted.

Without --time the whole input is one window and nothing is forgotten; with
--time json:FIELD an ID is forgotten when the stream has moved on by --window.`,
		Example: `  streamdedup filter --key json:id events.ndjson > unique.ndjson
  zcat access.log.gz | streamdedup filter | sort`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("peak") && s.time == pipeline.TimeNone {
				s.peak = 1 // what fills the generations is the load itself
			}
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
	choiceFlag("FORMAT", formatAuto, formatNDJSON, formatLines, formatCSV, "tsv").
		add(fs, &s.format, "format", "of the input: ndjson, lines, or auto (by suffix, else by the key)")
	s.judging.bind(fs, choices{times: "none, arrival", policies: "pass, drop or fail", seed: "0"})
	sizeFlag.add(fs, &s.maxLine, "max-line", "longest line in bytes; a longer one is an error")
	fs.Lookup("capacity").Usage += " (default 10,000,000)"
	fs.Lookup("peak").Usage += " (with --time none: 1)"
	return cmd
}

// check refuses what filter cannot do, before anything is read.
func (s *filterSettings) check(inputs []string) error {
	for _, name := range inputs {
		switch suffix := filepath.Ext(name); suffix {
		case ".gz", ".zst":
			return withHint(usagef("open %s: compressed input is not built yet", name),
				fmt.Sprintf("decompress it into stdin: `%s %s | streamdedup filter`",
					map[string]string{".gz": "zcat", ".zst": "zstdcat"}[suffix], name))
		case ".csv", ".tsv":
			if s.format == formatAuto {
				return withHint(usagef("open %s: %s input is not built yet", name, suffix[1:]),
					"--format lines takes each line as it stands, a header too")
			}
		}
	}
	if s.format == formatCSV || s.format == "tsv" {
		return usagef("--format %s is not built yet", s.format)
	}
	for _, spec := range s.keys {
		switch kind, _, _ := strings.Cut(spec, ":"); {
		case kind == "key" || kind == "header":
			return withHint(usagef("--key %s: a line has a value only", spec), "use value, or json:NAME for a field of it")
		case kind == "column":
			return usagef("--key %s: column: is not built yet", spec)
		case kind == "json" && s.format == formatLines:
			return usagef("--key %s: with --format lines the ID is the whole line: leave one of the two out", spec)
		}
	}
	if s.time == "record" {
		return withHint(usagef("--time record: a line has no time of its own"),
			"use json:NAME for a field of it, arrival, or none")
	}
	for _, p := range []struct {
		flag   string
		policy pipeline.Policy
	}{{"missing", s.onMissing}, {"late", s.onLate}, {"invalid", s.onInvalid}} {
		if p.policy == pipeline.Divert {
			return usagef("--on-%s divert is not built yet for files", p.flag)
		}
	}
	return s.judging.check()
}

// check refuses key and time specs that do not parse, and a list of IDs that has
// others.
func (j *judging) check() error {
	if _, err := keys.Parse(j.keys, 0, j.ids); err != nil {
		return usagef("--key: %w", err)
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
		return usagef("--time: %w", err)
	}
	return nil
}

// filter runs the file door.
func (a *app) filter(ctx context.Context, s *filterSettings, inputs []string) error {
	start := time.Now()
	if err := s.check(inputs); err != nil {
		return err
	}
	plan, err := s.plan(1)
	if err != nil {
		return err
	}
	if memory, known := machineMemory(); known {
		if too := fits(plan, memory); too != nil {
			return too
		}
	}
	shard, clock, err := s.shard(plan)
	if err != nil {
		return err
	}
	p := a.progress()
	counts, err := files.Filter(ctx, files.Config{
		Inputs: inputs, Stdin: a.stdin, Output: a.stdout,
		MaxLine: int(min(s.maxLine, 1<<40)), Clock: clock, Wall: time.Now,
		Progress: p.show,
	}, shard)
	p.clear()
	stats := shard.Stats()
	sum := newSummary(&counts, plan.FPRAt(stats.Loads), stats.Bytes, time.Since(start))
	err = errors.Join(filterError(err), counts.Check(), shard.Close())
	if errors.Is(err, errReaderGone) || err != nil && sum.In == 0 {
		return err
	}
	if sum.Unlearned > 0 && s.summary != summaryNone {
		fmt.Fprintf(a.stderr, "warning: the filter was full for %s new IDs, repeats of them passed: raise %s\n",
			sizing.FormatCount(sum.Unlearned), s.amount())
	}
	if sum.warning != "" && s.summary == summaryJSON {
		fmt.Fprintf(a.stderr, "warning: %s\n", sum.warning) // the text has it
	}
	return errors.Join(err, sum.write(a.stderr, s.summary))
}

// shard makes the one shard of the file door, and its clock where all is one
// window.
func (s *filterSettings) shard(plan sizing.Plan) (*pipeline.Shard, *files.FillClock, error) {
	seed, err := s.givenSeed()
	if err != nil {
		return nil, nil, err
	}
	var clock *files.FillClock
	j := s.judging
	if j.time == pipeline.TimeNone {
		j.time = "arrival" // which the clock gives
	}
	rules, err := j.rules(plan, seed.n, false)
	if err != nil {
		return nil, nil, err
	}
	if s.time == pipeline.TimeNone {
		clock = &files.FillClock{Slice: rules.Window.Slice(), Capacity: plan.GenerationCapacity}
	}
	shard, err := pipeline.NewShard(rules, pipeline.Partition{Topic: "files"}, false)
	return shard, clock, err
}

// filterError adds what to do next.
func filterError(err error) error {
	stopped := (*files.StoppedError)(nil)
	switch {
	case errors.Is(err, files.ErrLineTooLong):
		return withHint(err, "is it text with line ends? --max-line SIZE allows longer lines")
	case errors.As(err, &stopped):
		return withHint(err, stopHint(stopped.Reason))
	}
	return err
}
