package chart

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/go-analyze/charts/chartdraw"
)

// Series is a line of a figure: a name and its points, in order.
type Series struct {
	Name string
	X, Y []float64
}

// Lines is a figure of one or more lines over the same axes.
type Lines struct {
	// Title is what the figure shows; Note, below it, is what repeats it: machine, Go
	// version, command, seed. Its line breaks are kept.
	Title, Note    string
	XLabel, YLabel string
	// LogX and LogY make an axis logarithmic; its values must be above 0.
	LogX, LogY bool
	// XTicks and YTicks are values to label in words of the caller's, such as sizes in
	// powers of two; empty means round numbers of our choice.
	XTicks, YTicks []Tick
	Series         []Series
}

// Tick is a labelled value of an axis.
type Tick struct {
	At    float64
	Label string
}

const (
	linesHeight = 440               // of a figure, from title to axis label
	labelEnd    = titleEnd + margin // where the label of the y axis stands
	legendGap   = 24
	legendLine  = 20 // from one entry to the next
	legendDash  = 22 // how long the sample of a line is
)

// Validate reports what makes a figure impossible to draw.
func (l Lines) Validate() error {
	var errs []error
	points := 0
	for _, s := range l.Series {
		points += len(s.X)
		if len(s.X) != len(s.Y) {
			errs = append(errs, fmt.Errorf("series %q has %d values of x and %d of y", s.Name, len(s.X), len(s.Y)))
			continue
		}
		for i := range s.X {
			if !drawable(s.X[i], l.LogX) || !drawable(s.Y[i], l.LogY) {
				errs = append(errs, fmt.Errorf("series %q has a point at (%g, %g), which has no place on the axes", s.Name, s.X[i], s.Y[i]))
				break
			}
		}
	}
	if points == 0 {
		errs = append(errs, errors.New("there is no point to draw"))
	}
	return errors.Join(errs...)
}

func drawable(v float64, log bool) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!log || v > 0)
}

// WriteSVG draws the figure. Equal figures give equal bytes.
func (l Lines) WriteSVG(w io.Writer) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("draw %q: %w", l.Title, err)
	}
	var xs, ys [][]float64
	for _, s := range l.Series {
		xs, ys = append(xs, s.X), append(ys, s.Y)
	}
	xAxis, yAxis := newAxis(xs, l.LogX, l.XTicks), newAxis(ys, l.LogY, l.YTicks)
	note := noteLines(l.Note)
	c := chartdraw.Chart{
		Title: l.Title, TitleStyle: text(titleSize),
		Width: width, Height: linesHeight + len(note)*noteLine + margin,
		Background: chartdraw.Style{Padding: chartdraw.Box{
			Top: labelEnd + margin, Left: margin, Right: margin + l.legendWidth(), Bottom: len(note)*noteLine + margin, IsSet: true,
		}},
		XAxis: chartdraw.XAxis{
			Name: l.XLabel, NameStyle: text(textSize), Style: axisStyle(), Range: xAxis.scale(), Ticks: xAxis.ticks(),
			GridMajorStyle: line(faint, 1), GridMinorStyle: line(faint, 1),
		},
		// The library's first axis is the one on the right.
		YAxis: chartdraw.YAxis{Style: chartdraw.Hidden(), Range: yAxis.scale()},
		YAxisSecondary: chartdraw.YAxis{
			Style: axisStyle(), Range: yAxis.scale(), Ticks: yAxis.ticks(),
			GridMajorStyle: line(faint, 1), GridMinorStyle: line(faint, 1),
		},
	}
	for i, s := range l.Series {
		if len(s.X) == 0 {
			continue
		}
		style := line(color(i), 2)
		style.DotWidth, style.DotColor = 3, color(i)
		c.Series = append(c.Series, chartdraw.ContinuousSeries{
			Name: s.Name, Style: style, YAxis: chartdraw.YAxisSecondary, XValues: xAxis.places(s.X), YValues: yAxis.places(s.Y),
		})
	}
	c.Elements = []chartdraw.Renderable{l.legend, func(r chartdraw.Renderer, _ chartdraw.Box, _ chartdraw.Style) {
		// Above its axis a label is read without turning one's head.
		chartdraw.Draw.Text(r, l.YLabel, margin, labelEnd, text(textSize))
		writeNote(r, note, linesHeight)
	}}
	if err := c.Render(chartdraw.SVG, w); err != nil {
		return fmt.Errorf("draw %q: %w", l.Title, err)
	}
	return nil
}

func axisStyle() chartdraw.Style {
	s := text(textSize)
	s.StrokeColor, s.StrokeWidth = ink, 1
	return s
}

// legendWidth is what the names take to the right of the figure; one line alone
// needs none, the title says what it is.
func (l Lines) legendWidth() int {
	if len(l.Series) < 2 {
		return 0
	}
	r, widest := chartdraw.SVG(width, 1), 0
	for _, s := range l.Series {
		widest = max(widest, textWidth(r, s.Name))
	}
	return legendGap + legendDash + legendGap/2 + widest
}

func (l Lines) legend(r chartdraw.Renderer, figure chartdraw.Box, _ chartdraw.Style) {
	if len(l.Series) < 2 {
		return
	}
	x := width - margin - l.legendWidth() + legendGap
	for i, s := range l.Series {
		y := figure.Top + legendLine*(i+1)
		line(color(i), 2).WriteToRenderer(r)
		r.MoveTo(x, y-4)
		r.LineTo(x+legendDash, y-4)
		r.Stroke()
		chartdraw.Draw.Text(r, s.Name, x+legendDash+legendGap/2, y, text(textSize))
	}
}
