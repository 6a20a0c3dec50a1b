package main

import (
	"fmt"
	"runtime"

	"github.com/streamdedup/streamdedup/internal/chart"
	"github.com/streamdedup/streamdedup/sizing"
)

// memoryFigure draws the memory of a plan's filters against the false-positive rate,
// for its window, shorter and longer ones.
func memoryFigure(p sizing.Plan) (chart.Lines, error) {
	curves, err := p.Curves()
	if err != nil {
		return chart.Lines{}, err
	}
	figure := chart.Lines{
		Title: fmt.Sprintf("Memory of the filters, planned around a window of %s IDs", sizing.FormatCount(p.Elements)),
		Note: fmt.Sprintf("%s new IDs a second, peak %s, skew %s, %s; calculated, %s\nrun %s",
			sizing.FormatCount(uint64(p.RatePerSecond()+0.5)), formatFloat(p.Workload.Peak), formatFloat(p.Workload.Skew),
			plural(p.Workload.Partitions, "partition"), runtime.Version(), p.RunFlags()),
		XLabel: "new records taken for seen, at most", YLabel: "bytes of memory",
		LogX: true, LogY: true,
	}
	for _, c := range curves {
		figure.Series = append(figure.Series, chart.Series{
			Name: "window " + sizing.FormatDuration(c.Window), X: c.FPR, Y: c.Bytes,
		})
	}
	if len(curves) > 0 {
		for _, rate := range curves[0].FPR {
			figure.XTicks = append(figure.XTicks, chart.Tick{At: rate, Label: "1 in " + sizing.FormatCount(uint64(1/rate+0.5))})
		}
	}
	return figure, nil
}
