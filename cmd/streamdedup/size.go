package main

import (
	"math"

	"github.com/spf13/cobra"

	"github.com/streamdedup/streamdedup/sizing"
)

func newSizeCmd(a *app) *cobra.Command {
	m, partitions, output := defaultMemory(), uint64(1), ""
	cmd := &cobra.Command{
		Use:   "size",
		Short: "Calculate the memory for a window of IDs, or the IDs for some memory",
		Long: `Calculate the memory for a window of IDs, or the IDs for some memory.

What it prints as memory is allocated exactly so by run with the flags it shows.
With --elements peak and skew are 1: the number as it stands. With --rate and
--memory they are those of run.`,
		Example: `  streamdedup size --elements 1e9 --fpr 0.01
  streamdedup size --rate 50k --window 24h --partitions 12
  streamdedup size --memory 2GiB --window 7d`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if m.capacity != 0 {
				for name, factor := range map[string]*float64{"peak": &m.peak, "skew": &m.skew} {
					if !cmd.Flags().Changed(name) {
						*factor = 1
					}
				}
			}
			if partitions > math.MaxInt32 {
				return usagef("--partitions %d: a topic has at most %d", partitions, math.MaxInt32)
			}
			plan, err := m.plan(int(partitions))
			if err != nil {
				return err
			}
			report, err := sizing.NewReport(plan)
			if err != nil {
				return err
			}
			return a.report(report, output)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	m.bind(fs)
	alias(fs, "elements", "capacity")
	numberFlag("partitions").add(fs, &partitions, "partitions", "partitions of the topic, each with a filter of its own")
	bindOutput(fs, &output)
	return cmd
}
