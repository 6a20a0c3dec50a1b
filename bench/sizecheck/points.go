package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/sizing"
)

// point is one plan to be checked, with no room to spare: peak and skew are 1.
type point struct {
	name       string
	elements   uint64
	fpr        float64
	layout     filter.Layout
	partitions int
	// textbook is one filter without a window, from github.com/bits-and-blooms/bloom,
	// and no plan of ours.
	textbook bool
}

// points go through sizes, rates, layouts and partitions, and end with the textbook's
// billion at one percent beside the filter of the textbook.
var points = []point{
	{name: "1e6", elements: 1e6, fpr: 1e-2, partitions: 1},
	{name: "1e6x64", elements: 1e6, fpr: 1e-4, partitions: 64},
	{name: "1e7", elements: 1e7, fpr: 1e-3, layout: filter.Fast, partitions: 8},
	{name: "1e7x4", elements: 1e7, fpr: 1e-6, partitions: 4},
	{name: "5e7", elements: 5e7, fpr: 1e-5, partitions: 16},
	{name: "1e8", elements: 1e8, fpr: 1e-2, layout: filter.Fast, partitions: 4},
	{name: "1e8x32", elements: 1e8, fpr: 1e-4, partitions: 32},
	{name: "4e8", elements: 4e8, fpr: 1e-3, partitions: 12},
	{name: "1e9", elements: 1e9, fpr: 1e-2, partitions: 1},
	{name: "textbook", elements: 1e9, fpr: 1e-2, partitions: 1, textbook: true},
}

func names() []string {
	all := make([]string, len(points))
	for i, p := range points {
		all[i] = p.name
	}
	return all
}

// chosen are the points that a flag names.
func chosen(list string) ([]point, error) {
	if list == "all" {
		return points, nil
	}
	var some []point
	for _, name := range strings.Split(list, ",") {
		i := place(name)
		if i < 0 {
			return nil, fmt.Errorf("no point is called %q: want all, or some of %s", name, strings.Join(names(), ","))
		}
		some = append(some, points[i])
	}
	return some, nil
}

func (p point) String() string {
	text := fmt.Sprintf("%s IDs at %g", sizing.FormatCount(p.elements), p.fpr)
	if p.textbook {
		return text + ", one filter without a window"
	}
	return text + fmt.Sprintf(", %v, %d partitions", p.layout, p.partitions)
}

// window is long enough that the workload's times do not decide anything.
const window = 24 * time.Hour

func (p point) plan() (sizing.Plan, error) {
	return sizing.Solve(sizing.Workload{
		Elements: p.elements, Window: window, FPR: p.fpr, Peak: 1, Skew: 1,
		Partitions: p.partitions, Kind: sizing.Sliced, Layout: p.layout,
	})
}

// said is the result of p before anything is measured: what the calculator says of it.
func (p point) said() (result, error) {
	x := result{Name: p.name, Elements: p.elements, FPR: p.fpr, Layout: p.layout.String(), Partitions: p.partitions}
	if p.textbook {
		x.Layout = "textbook, no window"
		return x, nil
	}
	plan, err := p.plan()
	if err != nil {
		return x, err
	}
	process := plan.Process(sizing.IO{})
	x.Bytes, x.Process, x.ProcessBytes = plan.Bytes, &process, process.Bytes()
	return x, nil
}
