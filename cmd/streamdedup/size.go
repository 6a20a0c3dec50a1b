package main

import (
	"errors"
	"io"
	"math"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/streamdedup/streamdedup/sizing"
)

// sizeSettings is the configuration of size.
type sizeSettings struct {
	memorySettings
	demand      sizing.Demand
	withheld    uint64
	partitions  uint64
	instances   uint64
	recordBytes uint64
	redelivery  sizing.Redelivery
	details     sizing.Details
	from        fromSettings
	plot        string
	output      string
}

func newSizeCmd(a *app) *cobra.Command {
	s := &sizeSettings{memorySettings: defaultMemory(), partitions: 1, instances: 1, recordBytes: sizing.DefaultRecordBytes}
	cmd := &cobra.Command{
		Use:   "size",
		Short: "Calculate the memory for a window of IDs, or the IDs for some memory",
		Long: `Calculate the memory for a window of IDs, or the IDs for some memory.

What it prints as memory of the filters is allocated exactly so by run with the
flags it shows. With --elements peak and skew are 1: the number as it stands.
With --rate and --memory they are those of run.

A rate of records, with duplicates, becomes one of IDs by --unique. Where --rate
is that of the busiest hours and --rate-mean the average, their ratio is the peak.

--redelivery knows how long some sources deliver again: ` + scheduleWords() + `.
Others are given by their delays, and a consumer that may be reset by the
retention of its topic.

--from-topic and --from-file measure instead of asking: how fast IDs come, how many
records are duplicates, and how much later than the first copy they come. From that
follow the window, unless --window is given, and all the rest of the plan. A topic is
read to its present end, in no group. Figures are exact while the IDs fit into a
sample of two million, and say how far they may be off where they do not. What did
not happen in the data that was read, no figure shows.`,
		Example: `  streamdedup size --elements 1e9 --fpr 0.01
  streamdedup size --rate 50k --window 24h --partitions 12 --instances 3
  streamdedup size --rate 80k --rate-mean 30k --unique 0.9 --headroom 25% --withheld-per-day 100
  streamdedup size --rate 50k --redelivery stripe
  streamdedup size --rate 50k --redelivery 10s,1m,10m,1h,6h
  streamdedup size --rate 50k --redelivery rewind:7d
  streamdedup size --memory 2GiB --window 7d
  streamdedup size --rate 50k --sensitivity --compare
  streamdedup size --rate 50k --plot memory.svg
  streamdedup size --from-topic clicks --brokers localhost:9092 --key json:event_id
  streamdedup size --from-file monday.ndjson.gz tuesday.ndjson.gz --key json:id --time json:at`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(s.from.files) > 0 {
				return nil // more files
			}
			return noArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s.from.files = append(s.from.files, args...)
			if s.from.topic != "" || len(s.from.files) > 0 {
				return a.sizeFrom(cmd.Context(), s, cmd.Flags().Changed)
			}
			plan, err := s.planned(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			s.details.AnyPartitions = !cmd.Flags().Changed("partitions")
			report, err := s.report(plan)
			if err != nil {
				return err
			}
			return errors.Join(a.report(detailed{report, s.details}, s.output), s.draw(a, plan))
		},
	}
	s.from = defaultFrom()
	fs := cmd.Flags()
	fs.SortFlags = false
	s.bind(fs)
	return cmd
}

// bind defines the flags; the defaults are what s holds.
func (s *sizeSettings) bind(fs *pflag.FlagSet) {
	s.memorySettings.bind(fs)
	alias(fs, "elements", "capacity")
	rateFlag.add(fs, &s.demand.Mean, "rate-mean", "average new IDs a second, where --rate is that of the busiest hours")
	shareFlag.add(fs, &s.demand.Unique, "unique", "share of the records that are first copies, where rates are of records")
	headroomFlag.add(fs, &s.demand.Headroom, "headroom", "room for growth, such as 25%")
	numberFlag("records").add(fs, &s.withheld, "withheld-per-day", "instead of --fpr: how many first copies a day may be taken for seen")
	numberFlag("partitions").add(fs, &s.partitions, "partitions", "partitions of the topic, each with a filter of its own")
	numberFlag("instances").add(fs, &s.instances, "instances", "processes that share the partitions")
	sizeFlag.add(fs, &s.recordBytes, "record-bytes", "key, value and headers of an average record")
	redeliveryFlag.add(fs, &s.redelivery, "redelivery", "window for how long a source delivers again: its name, its delays, or rewind:DUR of a consumer")
	fs.BoolVar(&s.details.Overloads, "sensitivity", false, "show what happens at 1.5, 2 and 3 times the rate (default false)")
	fs.BoolVar(&s.details.Elsewhere, "compare", false, "show what the same IDs take elsewhere (default false)")
	plotFlag.add(fs, &s.plot, "plot", "draw memory against --fpr into this file, for shorter and longer windows too")
	bindOutput(fs, &s.output)
	s.from.bind(fs)
}

// draw draws the plan where that is wanted.
func (s *sizeSettings) draw(a *app, plan sizing.Plan) error {
	if s.plot == "" {
		return nil
	}
	figure, err := memoryFigure(plan)
	if err != nil {
		return err
	}
	return a.plot(s.plot, figure)
}

var (
	headroomFlag   = kindOf[float64]{"P", sizing.ParseHeadroom, formatFloat}
	redeliveryFlag = kindOf[sizing.Redelivery]{"SOURCE", sizing.ParseRedelivery, func(r sizing.Redelivery) string { return r.Source }}
)

// report works out what to say about a plan.
func (s *sizeSettings) report(plan sizing.Plan) (sizing.Report, error) {
	d, err := s.deployment(plan.Workload.Partitions)
	if err != nil {
		return sizing.Report{}, err
	}
	return sizing.NewReport(plan, d)
}

// deployment is how a plan for so many partitions is to run.
func (s *sizeSettings) deployment(partitions int) (sizing.Deployment, error) {
	if s.recordBytes > math.MaxInt32 {
		return sizing.Deployment{}, usagef("--record-bytes is %s, want at most 2 GiB, which is the most that Kafka takes", sizing.FormatBytes(s.recordBytes))
	}
	d := sizing.Deployment{Instances: int(min(s.instances, math.MaxInt32)), RecordBytes: int(s.recordBytes)}
	if s.redelivery != (sizing.Redelivery{}) {
		d.Redelivery = &s.redelivery
	}
	if err := d.Validate(partitions); err != nil {
		if s.from.topic != "" { // its partitions are as many as they are
			return d, &usageError{err}
		}
		return d, withHint(&usageError{err}, "--partitions is how many the topic has, 1 where it is left out: at least one for each instance")
	}
	return d, nil
}

// planned is the plan of what the flags say. changed tells which were given.
func (s *sizeSettings) planned(changed func(flag string) bool) (sizing.Plan, error) {
	if err := s.check(changed); err != nil {
		return sizing.Plan{}, err
	}
	if err := s.from.checkUnused(changed); err != nil {
		return sizing.Plan{}, err
	}
	if err := s.checkAmount(); err != nil {
		return sizing.Plan{}, err
	}
	if s.capacity != 0 {
		for name, factor := range map[string]*float64{"peak": &s.peak, "skew": &s.skew} {
			if !changed(name) {
				*factor = 1
			}
		}
	}
	if s.redelivery.Window != 0 && !changed("window") {
		s.window = s.redelivery.Window
	}
	return s.demanded()
}

// demanded is the plan of what is known now.
func (s *sizeSettings) demanded() (sizing.Plan, error) {
	s.demand.WithheldPerDay = float64(s.withheld)
	w, err := s.demand.Apply(s.workload(int(s.partitions)))
	if err != nil {
		return sizing.Plan{}, &usageError{err}
	}
	return s.solve(w)
}

// check refuses flags that do not go together.
func (s *sizeSettings) check(changed func(flag string) bool) error {
	switch {
	case s.partitions > math.MaxInt32:
		return usagef("--partitions %d: a topic has at most %d", s.partitions, math.MaxInt32)
	case changed("peak") && changed("rate-mean"):
		return usagef("--peak and --rate-mean both say how much fuller the busiest hours are: give one of them")
	case changed("fpr") && changed("withheld-per-day"):
		return usagef("--fpr and --withheld-per-day say the same in two ways: give one of them")
	case s.memory != 0 && changed("headroom"):
		return usagef("--headroom is of --elements or --rate; --memory is what there is")
	}
	return nil
}

// scheduleWords are the sources that --redelivery knows, in lines of help.
func scheduleWords() string {
	text, width := "", 60
	for i, one := range sizing.Schedules {
		if i > 0 {
			text += ","
			if width += 2 + len(one.Name); width > 78 {
				text, width = text+"\n", len(one.Name)
			} else {
				text += " "
			}
		}
		text += one.Name
	}
	return text
}

// detailed is a report and what its text goes into.
type detailed struct {
	sizing.Report
	details sizing.Details
}

// WriteText implements textReport.
func (d detailed) WriteText(w io.Writer) error { return d.WriteDetails(w, d.details) }
