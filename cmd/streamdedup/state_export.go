package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

// exportVersion is the version of the format of an export.
const exportVersion = 1

// exportHead is the first line of an export of hashes.
type exportHead struct {
	Version     int    `json:"streamdedup_export"`
	Fingerprint string `json:"fingerprint"`
	Group       string `json:"group"`
	Input       string `json:"input"`
	WindowMS    int64  `json:"window_ms"`
}

// csvMark begins the first line of an export as CSV, a comment with the head as
// JSON.
const csvMark = "# "

// exportColumns are those of CSV, and the members of NDJSON.
var exportColumns = []string{"topic", "partition", "hash", "time", "until"}

// exportSettings is the configuration of state export.
type exportSettings struct {
	stateSettings
	format string
	file   string
}

func newStateExportCmd(a *app) *cobra.Command {
	s := &exportSettings{format: formatNDJSON}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write what a group remembers as hashes",
		Long: `Write what a group remembers as hashes.

Reads the group's changelog and nothing else, and writes each hash that is not
forgotten yet, with the stream time at which it was learned, at the latest, and
the one until which it is remembered. A hash can stand there more than once.

Hashes are not IDs. They belong to the key specs, the seed, the scope and the kind
of filter, which the fingerprint in the first line stands for: state import refuses
them under any other.`,
		Example: `  streamdedup state export --brokers localhost:9092 --group dedup --in clicks -o seen.ndjson`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(cmd); err != nil {
				return err
			}
			return a.export(cmd.Context(), s)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	s.stateSettings.bind(fs)
	choiceFlag("FORMAT", formatNDJSON, formatCSV).add(fs, &s.format, "format", "of the output: ndjson or csv")
	fs.StringVarP(&s.file, "output", "o", "", "`FILE` to write to (default stdout)")
	s.bindSecurity(fs)
	return cmd
}

func (a *app) export(ctx context.Context, s *exportSettings) (err error) {
	g, err := s.open(ctx, a)
	if err != nil {
		return err
	}
	defer g.Close()
	if err := g.Fits(); err != nil {
		a.warn(err)
	}
	accounts, head, err := s.accounts(ctx, g)
	if err != nil {
		return err
	}
	to := a.stdout
	if s.file != "" {
		file, err := os.Create(s.file)
		if err != nil {
			return fmt.Errorf("write the export: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		to = file
	}
	out := bufio.NewWriterSize(to, 1<<16)
	write, err := s.writer(out, head)
	if err != nil {
		return err
	}
	status := a.status()
	defer status.clear()
	var total uint64
	for i := range accounts {
		n, err := exportPartition(ctx, g, &accounts[i], s.in, write, func(n uint64) {
			status.show("partition %d: %s hashes", accounts[i].Partition, formatIDs(total+n))
		})
		if err != nil {
			return err
		}
		total += n
	}
	status.clear()
	if err := out.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "%s of hashes written, fingerprint %s\n", plural(int(total), "line"), head.Fingerprint)
	return nil
}

// accounts are the partitions that have a changelog, and the head of their export.
func (s *exportSettings) accounts(ctx context.Context, g *kafkaio.Group) (accounts []kafkaio.Account, head exportHead, err error) {
	for n := range g.Partitions() {
		account, err := g.Account(ctx, n)
		if err != nil {
			return nil, head, err
		}
		if account.Refused != nil {
			return nil, head, fmt.Errorf("partition %d: %w", n, account.Refused)
		}
		if account.Log == nil || account.Log.Last == nil {
			continue
		}
		last := &account.Log.Last.State
		h := exportHead{
			Version: exportVersion, Fingerprint: last.Fingerprint, Group: s.group, Input: s.in,
			WindowMS: windowOf(last.Window.Slice).Milliseconds(),
		}
		if head.Version != 0 && h.Fingerprint != head.Fingerprint {
			return nil, head, fmt.Errorf("partition %d has fingerprint %s, others have %s: one of them is not this group's", n, h.Fingerprint, head.Fingerprint)
		}
		accounts, head = append(accounts, account), h
	}
	if head.Version == 0 {
		return nil, head, withHint(fmt.Errorf("group %q has no changelog of %q: it has judged nothing yet", s.group, s.in), "check --group and --in")
	}
	return accounts, head, nil
}

// exportLine is a line of an export. Its times are stream time.
type exportLine struct {
	topic       string
	partition   int32
	hash        filter.Hash
	time, until int64
}

// exportPartition gives each live hash of a partition to write.
func exportPartition(ctx context.Context, g *kafkaio.Group, a *kafkaio.Account, topic string, write func(*exportLine) error, progress func(n uint64)) (n uint64, err error) {
	s := &a.Log.Last.State.Window
	err = g.Changes(ctx, a.Partition, a.Log.Start, a.Log.Stable, func(_ int64, c *pipeline.Change, _ bool) error {
		for _, run := range c.Learned {
			age := s.Age(window.Run{Rotation: run.Rotation, Until: run.Until})
			if age >= filter.Generations {
				continue
			}
			from, to := s.Stretch(age)
			line := exportLine{topic: topic, partition: a.Partition, time: min(to-1, s.StreamTime), until: to + filter.Sealed*s.Slice}
			if run.Until >= from && run.Until < to {
				line.time = run.Until
			}
			for _, line.hash = range run.Hashes {
				if err := write(&line); err != nil {
					return err
				}
			}
			n += uint64(len(run.Hashes))
		}
		progress(n)
		return nil
	})
	return n, err
}

// writer writes the head, and gives what writes lines.
func (s *exportSettings) writer(out *bufio.Writer, head exportHead) (func(*exportLine) error, error) {
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	topic, err := json.Marshal(s.in)
	if err != nil {
		return nil, err
	}
	if s.format == formatCSV {
		if _, err := fmt.Fprintf(out, "%s%s\n", csvMark, text); err != nil {
			return nil, err
		}
		rows := csv.NewWriter(out)
		if err := rows.Write(exportColumns); err != nil {
			return nil, err
		}
		rows.Flush()
		return func(l *exportLine) error {
			// None of the values needs quotes: a topic's name has none of the characters.
			return l.write(out, "", l.topic, ",", ",", ",", ",", "\n")
		}, rows.Error()
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return func(l *exportLine) error {
		return l.write(out, `{"topic":`, string(topic), `,"partition":`, `,"hash":"`, `","time":"`, `","until":"`, "\"}\n")
	}, err
}

// write writes a line with what stands between its values.
func (l *exportLine) write(w *bufio.Writer, begin, topic, partition, hash, time, until, end string) error {
	b := w.AvailableBuffer()
	b = append(append(append(b, begin...), topic...), partition...)
	b = strconv.AppendInt(b, int64(l.partition), 10)
	b = append(b, hash...)
	b = fmt.Appendf(b, "%016x", uint64(l.hash))
	b = append(append(b, time...), stamp(l.time)...)
	b = append(append(b, until...), stamp(l.until)...)
	b = append(b, end...)
	_, err := w.Write(b)
	return err
}
