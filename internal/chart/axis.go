package chart

import (
	"math"
	"strconv"

	"github.com/go-analyze/charts/chartdraw"
)

// axis turns values into places. A logarithmic one has the values' decimal
// logarithms for places, so that the drawing library need not know.
type axis struct {
	log    bool
	marked []Tick // in order, from below the least value to above the greatest
}

// fewTicks is how many round numbers an axis has at least, about.
const fewTicks = 5

// newAxis has room for all values; its ticks are the given ones or round numbers.
func newAxis(values [][]float64, log bool, ticks []Tick) axis {
	a := axis{log: log, marked: ticks}
	if len(ticks) > 1 {
		return a
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, vs := range values {
		for _, v := range vs {
			low, high = min(low, v), max(high, v)
		}
	}
	if log {
		a.marked = logTicks(low, high)
		return a
	}
	a.marked = linearTicks(min(low, 0), high)
	return a
}

// linearTicks are multiples of 1, 2 or 5 times a power of ten.
func linearTicks(low, high float64) []Tick {
	if high == low {
		high = low + 1
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/fewTicks)))
	for _, times := range []float64{5, 2} {
		if (high-low)/(step*times) >= fewTicks {
			step *= times
			break
		}
	}
	var ticks []Tick
	for n := math.Floor(low / step); ; n++ {
		ticks = append(ticks, Tick{n * step, number(n * step)})
		if n*step >= high {
			return ticks
		}
	}
}

// logTicks are powers of ten, with 2 and 5 times those where they are few.
func logTicks(low, high float64) []Tick {
	if high == low {
		high = 2 * low
	}
	first, last := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	times := []float64{1, 2, 5}
	if last-first >= fewTicks-1 {
		times = times[:1]
	}
	var ticks []Tick
	for e := first; e <= last; e++ {
		for _, t := range times {
			v := t * math.Pow(10, e)
			if len(ticks) > 0 && ticks[len(ticks)-1].At >= high {
				return ticks
			}
			if v <= low {
				ticks = ticks[:0] // the greatest that is not above the least value
			}
			ticks = append(ticks, Tick{v, number(v)})
		}
	}
	return ticks
}

// number has three digits at most: 2.5M, 40k, 0.02, 1e-06.
func number(v float64) string {
	const digits = 3
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= unit.size && math.Abs(v) < 1e15 {
			return strconv.FormatFloat(v/unit.size, 'g', -1, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func (a axis) place(v float64) float64 {
	if a.log {
		return math.Log10(v)
	}
	return v
}

func (a axis) places(values []float64) []float64 {
	places := make([]float64, len(values))
	for i, v := range values {
		places[i] = a.place(v)
	}
	return places
}

func (a axis) ticks() []chartdraw.Tick {
	ticks := make([]chartdraw.Tick, len(a.marked))
	for i, t := range a.marked {
		ticks[i] = chartdraw.Tick{Value: a.place(t.At), Label: t.Label}
	}
	return ticks
}

// scale reaches from the first tick to the last.
func (a axis) scale() *chartdraw.ContinuousRange {
	return &chartdraw.ContinuousRange{Min: a.place(a.marked[0].At), Max: a.place(a.marked[len(a.marked)-1].At)}
}
