package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/state"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

// inspectSettings is the configuration of state inspect.
type inspectSettings struct {
	stateSettings
	dir    string
	count  bool
	whole  bool
	fpr    float64
	output string
}

func newStateInspectCmd(a *app) *cobra.Command {
	s := &inspectSettings{fpr: defaultFPR}
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Show what a group remembers, and which way a restart would take",
		Long: `Show what a group remembers, and which way a restart would take.

From the brokers: for each partition the committed offset and the state beside it,
the changelog and its last change. From --state-dir: the checkpoints of this
machine, with their age, or why one would be refused, as far as its head and the
brokers tell: its body a restart reads. Either will do. It changes nothing and may
be used while instances run. Of a checkpoint only the header is
read; --check reads all of it and compares the checksums.

How many IDs each generation was given is not in the offsets: --count reads the
whole changelog for it, 8 bytes an ID; a checkpoint knows. How full that is, and
the rate of false positives now, follow from the filter in a checkpoint of the
partition; without one they are unknown (null).`,
		Example: `  streamdedup state inspect --brokers localhost:9092 --group dedup --in clicks --state-dir ./streamdedup-state`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.dir == "" || len(s.brokers) > 0 || s.in != "" {
				if err := s.check(cmd); err != nil {
					return err
				}
			}
			return a.inspect(cmd.Context(), s)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	s.stateSettings.bind(fs)
	fs.Lookup("brokers").Usage = strings.Replace(fs.Lookup("brokers").Usage, "(required)", "(required without --state-dir)", 1)
	fs.StringVar(&s.dir, "state-dir", "", "`FOLDER` with the checkpoints of this machine, which for run is "+defaultStateDir+" (default none)")
	fs.BoolVar(&s.whole, "check", false, "read the checkpoints to their end, and compare the checksums (default false)")
	fs.BoolVar(&s.count, "count", false, "count the IDs of each generation, by reading the whole changelog (default false)")
	shareFlag.add(fs, &s.fpr, "fpr", "what run was given, for how full a generation is")
	bindOutput(fs, &s.output)
	s.bindSecurity(fs)
	return cmd
}

// inspect looks and prints.
func (a *app) inspect(ctx context.Context, s *inspectSettings) error {
	report := inspection{
		Group: s.group, Input: s.in, counted: s.count,
		Formats: formats{Metadata: pipeline.MetadataVersion, Changelog: pipeline.ChangeVersion, Checkpoint: state.FormatVersion},
	}
	if s.dir != "" {
		found, err := state.Look(s.dir)
		if err != nil {
			return err
		}
		for i := range found {
			if s.group == "" || found[i].Group == s.group {
				report.Checkpoints = append(report.Checkpoints, s.checkpoint(&found[i]))
			}
		}
	}
	if len(s.brokers) > 0 {
		if err := a.inspectGroup(ctx, s, &report); err != nil {
			return err
		}
	}
	return a.report(&report, s.output)
}

// inspectGroup asks the brokers.
func (a *app) inspectGroup(ctx context.Context, s *inspectSettings, report *inspection) error {
	g, err := s.open(ctx, a)
	if err != nil {
		return err
	}
	defer g.Close()
	if err := g.Fits(); err != nil {
		a.warn(err)
	}
	if report.Members, err = g.Members(ctx); err != nil {
		return err
	}
	report.Changelog = g.Changelog()
	status := a.status()
	defer status.clear()
	for n := range g.Partitions() {
		account, err := g.Account(ctx, n)
		if err != nil {
			return err
		}
		report.refuse(s, g, &account)
		p := partitionOf(&account)
		report.begin(s.in, &p)
		if s.count && p.State != nil && account.Log != nil {
			added, err := countChangelog(ctx, g, &account, status)
			switch {
			case kafkaio.IsRefusal(err):
				p.refuse(err)
			case err != nil:
				return err
			default:
				p.State.load(added, report.model(s.in, n), s.fpr)
			}
		}
		report.Partitions = append(report.Partitions, p)
	}
	status.clear()
	return nil
}

// refuse finds the checkpoints of a partition that a restore would not take for
// what the brokers have.
func (r *inspection) refuse(s *inspectSettings, g *kafkaio.Group, a *kafkaio.Account) {
	var topics state.Identity
	topics.Input, topics.Changelog = g.TopicIDs()
	for i := range r.Checkpoints {
		c := &r.Checkpoints[i]
		switch {
		case c.Refused != "" || c.Topic != s.in || *c.Partition != a.Partition:
		case c.topics != topics:
			c.Refused = "it is of topics that were deleted; these have only their names"
		case a.Log != nil && a.Log.Start > 0 && c.LogEnd <= a.Log.Start:
			c.Refused = fmt.Sprintf("the changelog begins at %d: what it holds is forgotten, or was reset", a.Log.Start)
		case a.Log != nil && c.LogEnd > a.Log.Stable:
			c.Refused = fmt.Sprintf("the changelog ends at %d: it is newer", a.Log.Stable)
		}
	}
}

// begin finds the checkpoint that a restore would begin with, which is the newest
// that fits. Without a changelog nothing could say what came after it.
func (r *inspection) begin(in string, p *partitionReport) {
	if p.Changelog == nil || p.Changelog.Offset == nil || p.State == nil {
		return
	}
	for i := range r.Checkpoints {
		c := &r.Checkpoints[i]
		if c.Refused == "" && c.Topic == in && *c.Partition == p.Partition && c.State.Fingerprint == p.State.Fingerprint &&
			(p.Checkpoint == nil || c.Next > *p.Checkpoint) {
			p.Checkpoint = &c.Next
		}
	}
}

// countChangelog counts the IDs that each generation was given, by age.
func countChangelog(ctx context.Context, g *kafkaio.Group, account *kafkaio.Account, status *status) (added [filter.Generations]uint64, err error) {
	total := uint64(0)
	err = g.Changes(ctx, account.Partition, account.Log.Start, account.Log.Stable, func(offset int64, c *pipeline.Change, _ bool) error {
		for _, run := range c.Learned {
			total += uint64(len(run.Hashes))
			if age := account.State.Window.Age(window.Run{Rotation: run.Rotation, Until: run.Until}); age < filter.Generations {
				added[age] += uint64(len(run.Hashes))
			}
		}
		status.show("partition %d: %s IDs, offset %d of %d", account.Partition, formatIDs(total), offset, account.Log.Stable)
		return nil
	})
	return added, err
}

// checkpoint reports a file.
func (s *inspectSettings) checkpoint(f *state.Found) checkpointReport {
	c := checkpointReport{
		Group: f.Group, Instance: f.Instance, File: f.Path, Bytes: f.Bytes,
		Written: f.Written.UTC().Format(time.RFC3339), AgeSeconds: time.Since(f.Written).Round(time.Second).Seconds(),
	}
	if f.Refused != nil {
		c.Refused = f.Refused.Error()
		return c
	}
	h := f.File.Head()
	c.Topic, c.Partition = h.Partition.Topic, &h.Partition.Number
	c.Begin, c.Next, c.LogBegin, c.LogEnd = h.Begin, h.Next, h.LogBegin, h.LogEnd
	c.Geometry, c.BodyBytes, c.topics = h.Geometry, h.BodyBytes, f.File.Topics()
	c.State = stateOf(&h.State)
	var err error
	if c.model, err = filter.ParseGeometry(h.Geometry); err != nil {
		c.Refused = err.Error()
		return c
	}
	if grown, ok := c.model.(interface{ Slabs() int }); ok {
		c.Slabs = grown.Slabs()
	}
	c.State.load(h.Added, c.model, s.fpr)
	if s.whole {
		if err := readWhole(f.File); err != nil {
			c.Refused = err.Error()
		}
	}
	return c
}

// readWhole reads a checkpoint's body, which fails where a section has not the
// checksum that it was written with.
func readWhole(f *state.File) error {
	body, err := f.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, body)
	return errors.Join(err, body.Close())
}
