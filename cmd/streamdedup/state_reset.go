package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/state"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

// resetSettings is the configuration of state reset.
type resetSettings struct {
	stateSettings
	partitions []int
	dir        string
	replay     []string
	yes        bool
}

func newStateResetCmd(a *app) *cobra.Command {
	s := &resetSettings{}
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Forget what a group remembers, or emit a range again on purpose",
		Long: `Forget what a group remembers, or emit a range again on purpose.

Deletes the group's offsets of the input, the records of its changelog, and the
checkpoints under --state-dir. The next start begins at its --start, as a new group
does: what it reads comes out again.

With --replay the group goes on at a point instead, with nothing remembered:
earliest, a time, or an offset for each partition, N:OFFSET; in all partitions or
those of --partition, and the others keep what they know. What lies behind the
point comes out again, once. A point ahead of where the group is, is refused: what
lies between was judged by nobody.

It refuses while the group has members, shows what it will delete, and asks.
Without a terminal it needs --yes. Checkpoints go first, then offsets, then the
changelog: stopped in between, the state is still the old one and whole, and the
next start says what is missing of it. Reset again to finish. Checkpoints on other
machines are refused by themselves afterwards.`,
		Example: `  streamdedup state reset --brokers localhost:9092 --group dedup --in clicks --replay 2025-06-01T00:00:00Z`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(s.check(cmd), s.checkChangeable(), s.checkPartitions()); err != nil {
				return err
			}
			points, err := parsePoints(s.replay)
			if err != nil {
				return err
			}
			return a.reset(cmd.Context(), s, points)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	s.stateSettings.bind(fs)
	fs.IntSliceVar(&s.partitions, "partition", nil, "number `N` of a partition that --replay is about (repeatable; default all)")
	fs.StringVar(&s.dir, "state-dir", "", "`FOLDER` whose checkpoints of the group are deleted, too; for run it is "+defaultStateDir+" (default none)")
	fs.StringSliceVar(&s.replay, "replay", nil, "go on at a `POINT` with nothing remembered: earliest, a time such as 2025-06-01T00:00:00Z, or N:OFFSET (repeatable)")
	fs.BoolVar(&s.yes, "yes", false, "do not ask (default false)")
	s.bindSecurity(fs)
	return cmd
}

// checkPartitions refuses to drop the offset of some partitions: beside the others
// the next start would take them for new ones, and read them from their beginning
// whatever its --start is.
func (s *resetSettings) checkPartitions() error {
	if len(s.partitions) == 0 || len(s.replay) > 0 {
		return nil
	}
	return withHint(usagef("--partition needs --replay: a group forgets a part of its partitions only to go on at a point of them"),
		fmt.Sprintf("add --replay earliest, a time or %d:OFFSET; or leave out --partition, which resets all", s.partitions[0]))
}

// points say where a replay begins: at one point in all partitions, or at an
// offset in each of some.
type points struct {
	given   bool
	all     kafkaio.Start
	offsets map[int32]int64 // nil where all counts
}

var pointOf = regexp.MustCompile(`^([0-9]+):([0-9]+)$`)

func parsePoints(texts []string) (points, error) {
	p := points{given: len(texts) > 0}
	for _, text := range texts {
		m := pointOf.FindStringSubmatch(text)
		if m == nil {
			if len(texts) > 1 {
				return p, usagef("--replay %s: one point for all partitions stands alone, offsets are N:OFFSET each", text)
			}
			var err error
			if p.all, err = kafkaio.ParseStart(text); err != nil {
				return p, usagef("--replay %s: want earliest, a time, or N:OFFSET", text)
			}
			if p.all == latest() {
				return p, withHint(usagef("--replay latest: nothing would come out again"), "leave out --replay, and start with --start latest")
			}
			continue
		}
		number, err1 := strconv.ParseInt(m[1], 10, 32)
		offset, err2 := strconv.ParseInt(m[2], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return p, usagef("--replay %s: %w", text, err)
		}
		if p.offsets == nil {
			p.offsets = map[int32]int64{}
		}
		if _, twice := p.offsets[int32(number)]; twice {
			return p, usagef("--replay names partition %d twice", number)
		}
		p.offsets[int32(number)] = offset
	}
	return p, nil
}

// resetting is what is about to be done.
type resetting struct {
	settings    *resetSettings
	group       *kafkaio.Group
	partitions  []int32
	accounts    []kafkaio.Account
	places      map[int32]kafkaio.Place // of a replay
	checkpoints []state.Found
}

func (a *app) reset(ctx context.Context, s *resetSettings, points points) error {
	if !s.yes && !a.canAsk() {
		return withHint(usagef("state reset asks before it deletes, and there is no terminal"), "add --yes")
	}
	g, err := s.open(ctx, a)
	if err != nil {
		return err
	}
	defer g.Close()
	if err := g.Fits(); err != nil {
		a.warn(err)
	}
	if err := s.idle(ctx, g); err != nil {
		return err
	}
	r := &resetting{settings: s, group: g}
	if r.partitions, err = s.chosen(g.Partitions(), points); err != nil {
		return err
	}
	if err := r.look(ctx, points); err != nil {
		return err
	}
	if r.empty() {
		return withHint(fmt.Errorf("group %q remembers nothing of %q: there is nothing to reset", s.group, s.in),
			"are --group and --in those of the run?")
	}
	r.tell(a.stderr)
	if !s.yes {
		if err := a.confirmed(); err != nil {
			return err
		}
	}
	if err := s.idle(ctx, g); err != nil {
		return err // somebody was faster than the answer
	}
	for _, step := range r.steps() {
		if err := step.do(ctx); err != nil {
			return withHint(err, "nothing of the state is lost so far that the next start would not say; reset again to finish")
		}
		fmt.Fprintln(a.stderr, step.done)
	}
	return nil
}

// chosen are the partitions to reset.
func (s *resetSettings) chosen(n int32, points points) ([]int32, error) {
	var chosen []int32
	for _, number := range s.partitions {
		chosen = append(chosen, int32(number))
	}
	if points.offsets != nil {
		named := slices.Sorted(maps.Keys(points.offsets))
		if slices.Sort(chosen); len(chosen) > 0 && !slices.Equal(chosen, named) {
			return nil, usagef("--partition names %v, --replay %v: they must be the same", chosen, named)
		}
		chosen = named
	}
	if len(chosen) == 0 {
		for number := range n {
			chosen = append(chosen, number)
		}
	}
	for _, number := range chosen {
		if number < 0 || number >= n {
			return nil, usagef("topic %q has no partition %d, it has %d", s.in, number, n)
		}
	}
	slices.Sort(chosen)
	return slices.Compact(chosen), nil
}

// look finds what there is to delete, and where a replay begins.
func (r *resetting) look(ctx context.Context, points points) error {
	for _, number := range r.partitions {
		account, err := r.group.Account(ctx, number)
		if err != nil {
			return err
		}
		r.accounts = append(r.accounts, account)
	}
	if points.given {
		r.places = map[int32]kafkaio.Place{}
		for i := range r.accounts {
			place, err := r.place(ctx, &r.accounts[i], points)
			if err != nil {
				return err
			}
			r.places[r.accounts[i].Partition] = place
		}
	}
	if r.settings.dir == "" {
		return nil
	}
	found, err := state.Look(r.settings.dir)
	if err != nil {
		return err
	}
	for i := range found {
		if f := &found[i]; f.Group == r.settings.group && r.concerns(f) {
			r.checkpoints = append(r.checkpoints, *f)
		}
	}
	return nil
}

// concerns is whether a checkpoint is of a partition that is reset. One that cannot
// be read is of none, and of no use to anybody.
func (r *resetting) concerns(f *state.Found) bool {
	if f.File == nil {
		return true
	}
	p := f.File.Head().Partition
	return p.Topic == r.settings.in && slices.Contains(r.partitions, p.Number)
}

// place is where a replay begins: with the state of a shard that has seen nothing,
// and, where there are earlier records, knows that it has not.
func (r *resetting) place(ctx context.Context, a *kafkaio.Account, points points) (kafkaio.Place, error) {
	if a.State == nil {
		why := a.Course.String()
		if a.Refused != nil {
			why = a.Refused.Error()
		}
		return kafkaio.Place{}, withHint(fmt.Errorf("partition %d has no state (%s): there is nothing to emit again", a.Partition, why),
			"leave out --replay and --partition, and say with run's --start where to begin")
	}
	next, ok := points.offsets[a.Partition]
	if !ok {
		var err error
		if next, err = r.group.Find(ctx, a.Partition, points.all); err != nil {
			return kafkaio.Place{}, err
		}
	}
	if next < a.Start || next > a.End {
		return kafkaio.Place{}, fmt.Errorf("partition %d has offsets %d to %d, not %d", a.Partition, a.Start, a.End, next)
	}
	if next > a.Next {
		return kafkaio.Place{}, withHint(fmt.Errorf("partition %d is at offset %d, and --replay wants it at %d: a replay goes back, never forward, past records that nobody judged", a.Partition, a.Next, next),
			"give each partition an offset, N:OFFSET; kafka-consumer-groups --reset-offsets moves a group forward on purpose")
	}
	fresh := window.State{Slice: a.State.Window.Slice}
	if next > a.Start {
		fresh.KnownFrom = window.NoTime
	}
	return kafkaio.Place{Next: next, State: pipeline.State{Fingerprint: a.State.Fingerprint, Window: fresh}}, nil
}

// empty is whether there is nothing to delete and nowhere to go back to.
func (r *resetting) empty() bool {
	for i := range r.accounts {
		if a := &r.accounts[i]; a.Committed >= 0 || a.Log != nil && a.Log.End > a.Log.Start {
			return false
		}
	}
	return len(r.places) == 0 && len(r.checkpoints) == 0
}

// tell says what will be done.
func (r *resetting) tell(w io.Writer) {
	s := r.settings
	fmt.Fprintf(w, "group %s, input %s:\n", s.group, s.in)
	for i := range r.accounts {
		a := &r.accounts[i]
		committed, log := "no offset", "no changelog records"
		if a.Committed >= 0 {
			committed = fmt.Sprintf("offset %d", a.Committed)
		}
		if a.Log != nil && a.Log.End > a.Log.Start {
			log = fmt.Sprintf("changelog records %d to %d", a.Log.Start, a.Log.End-1)
		}
		if place, ok := r.places[a.Partition]; ok {
			fmt.Fprintf(w, "  partition %d: goes from offset %d back to offset %d, deletes %s\n", a.Partition, a.Next, place.Next, log)
		} else {
			fmt.Fprintf(w, "  partition %d: deletes %s, %s\n", a.Partition, committed, log)
		}
	}
	for _, f := range r.checkpoints {
		fmt.Fprintf(w, "  deletes checkpoint %s\n", f.Path)
	}
}

// step is one of a reset.
type step struct {
	do   func(context.Context) error
	done string
}

// steps are in an order in which each may be the last one. A checkpoint is a
// cache. Without offsets, a restart goes on at the changelog's end and warns; with
// those of a replay, too. Without the changelog and with the old offsets it would
// take the state from the input, and say nothing.
func (r *resetting) steps() []step {
	offsets := step{func(ctx context.Context) error { return r.group.DeleteOffsets(ctx, r.partitions) }, "offsets deleted"}
	if r.places != nil {
		offsets = step{func(ctx context.Context) error { return r.group.CommitOffsets(ctx, r.places) }, "offsets moved"}
	}
	return []step{
		{func(context.Context) error { return removeCheckpoints(r.checkpoints) }, "checkpoints deleted: " + strconv.Itoa(len(r.checkpoints))},
		offsets,
		{func(ctx context.Context) error { return r.group.ClearChangelog(ctx, r.partitions) }, "changelog emptied"},
	}
}

func removeCheckpoints(found []state.Found) error {
	for _, f := range found {
		if err := os.Remove(f.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("delete checkpoint: %w", err)
		}
	}
	return nil
}

// canAsk is whether there is somebody to ask.
func (a *app) canAsk() bool {
	f, ok := a.stdin.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

var errNotConfirmed = errors.New("not confirmed: nothing was deleted")

// confirmed asks for a yes.
func (a *app) confirmed() error {
	fmt.Fprint(a.stderr, `delete this? type "yes": `)
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	switch {
	case strings.TrimSpace(line) == "yes":
		return nil
	case errors.Is(err, io.EOF) && line == "":
		return withHint(usagef("state reset asks before it deletes, and nobody answers"), "add --yes")
	}
	return errNotConfirmed
}
