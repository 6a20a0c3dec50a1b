package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/sizing"
)

func newStateCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Look into what a group remembers, drop it, or carry it over",
	}
	group(cmd, newStateInspectCmd(a), newStateResetCmd(a), newStateExportCmd(a), newStateImportCmd(a))
	return cmd
}

// stateSettings say whose state it is.
type stateSettings struct {
	connection
	in, group string
}

func (s *stateSettings) bind(fs *pflag.FlagSet) {
	s.bindBrokers(fs)
	fs.StringVar(&s.group, "group", "", "consumer `GROUP` of the run")
	fs.StringVar(&s.in, "in", "", "input `TOPIC` of the run")
}

// check refuses what can be known to be wrong without a broker.
func (s *stateSettings) check(cmd *cobra.Command) error {
	for _, required := range []struct {
		flag  string
		given bool
	}{{"brokers", len(s.brokers) > 0}, {"group", s.group != ""}, {"in", s.in != ""}} {
		if !required.given {
			return withHint(usagef("--%s is required", required.flag), fmt.Sprintf("`%s --help` explains it", cmd.CommandPath()))
		}
	}
	return nil
}

// open looks the group up.
func (s *stateSettings) open(ctx context.Context, a *app) (*kafkaio.Group, error) {
	client, err := s.options()
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	g, err := kafkaio.OpenGroup(ctx, kafkaio.GroupConfig{
		Brokers: s.brokers, Client: client, Group: s.group, Input: s.in, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	if topic := g.Shared(); topic != "" {
		g.Close()
		return nil, withHint(fmt.Errorf("group %q was run with --scope topic: its state is under --in %s", s.group, topic),
			"inspect and export it there; it cannot be changed: to begin anew, take another --group")
	}
	return g, nil
}

// checkChangeable refuses to change the state of one stage of two: the other would
// go on as if nothing had happened.
func (s *stateSettings) checkChangeable() error {
	if in, ok := strings.CutPrefix(s.in, s.group+"-"); ok && s.in == kafkaio.RepartitionTopic(s.group, strings.TrimSuffix(in, "-repartition")) {
		return withHint(fmt.Errorf("group %q was run with --scope topic: its state can be inspected and exported, not changed", s.group),
			"to begin anew, take another --group")
	}
	return nil
}

// idle refuses to touch the state of a group that runs.
func (s *stateSettings) idle(ctx context.Context, g *kafkaio.Group) error {
	members, err := g.Members(ctx)
	if err != nil || len(members) == 0 {
		return err
	}
	return withHint(fmt.Errorf("group %q has %s: %s", s.group, plural(len(members), "member"), membersText(members)),
		"stop them first; the brokers count a process that was killed until its --session-timeout is over")
}

func membersText(members []kafkaio.Member) string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = fmt.Sprintf("%s (%s)", m.Instance, strings.TrimPrefix(m.Host, "/"))
	}
	return strings.Join(names, ", ")
}

// windowOf is the window whose generations are of that length: of those that it
// can be, which are less than 7 ms apart, one of whole seconds, else the longest.
func windowOf(slice int64) time.Duration {
	longest := slice * filter.Sealed
	if whole := longest - longest%1000; whole > (slice-1)*filter.Sealed {
		longest = whole
	}
	if longest > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(longest) * time.Millisecond
}

// stamp is stream time for people and programs.
func stamp(millis int64) string {
	return time.UnixMilli(millis).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// formatIDs is a count of IDs.
func formatIDs(n uint64) string { return sizing.FormatCount(n) }
