package chart

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-analyze/charts/chartdraw"
)

// Bars is a figure of one bar for each name. The bars lie, so that names of any
// length can be read.
type Bars struct {
	Title, Note string
	// YLabel says what the values are.
	YLabel string
	Names  []string
	Values []float64
}

const (
	barStep  = 30 // from one bar to the next
	barWidth = 18
	barGap   = 8 // between a bar and its text
)

// Validate reports what makes a figure impossible to draw.
func (b Bars) Validate() error {
	if len(b.Names) != len(b.Values) {
		return fmt.Errorf("there are %d names and %d values", len(b.Names), len(b.Values))
	}
	if len(b.Names) == 0 {
		return errors.New("there is no bar to draw")
	}
	for i, v := range b.Values {
		if !drawable(v, false) || v < 0 {
			return fmt.Errorf("%q is %g, which is no length of a bar", b.Names[i], v)
		}
	}
	return nil
}

// WriteSVG draws the figure. Equal figures give equal bytes.
func (b Bars) WriteSVG(w io.Writer) error {
	if err := b.Validate(); err != nil {
		return fmt.Errorf("draw %q: %w", b.Title, err)
	}
	note := noteLines(b.Note)
	end := titleEnd + barStep*(len(b.Names)+1)
	r := chartdraw.SVG(width, end+len(note)*noteLine+margin)
	r.SetDPI(chartdraw.Chart{}.GetDPI())
	background := chartdraw.Style{FillColor: chartdraw.ColorWhite}
	chartdraw.Draw.Box(r, chartdraw.Box{Right: width, Bottom: end + len(note)*noteLine + margin, IsSet: true}, background)

	title := chartdraw.Draw.MeasureText(r, b.Title, text(titleSize))
	chartdraw.Draw.Text(r, b.Title, (width-title.Width())/2, titleEnd-margin, text(titleSize))
	b.writeBars(r)
	chartdraw.Draw.Text(r, b.YLabel, margin, end-barGap, text(textSize))
	writeNote(r, note, end)
	if err := r.Save(w); err != nil {
		return fmt.Errorf("draw %q: %w", b.Title, err)
	}
	return nil
}

// writeBars gives the names and the values the room that they need, and the bars
// what is left.
func (b Bars) writeBars(r chartdraw.Renderer) {
	names, values, most := 0, 0, 0.0
	for i, v := range b.Values {
		names = max(names, textWidth(r, b.Names[i]))
		values = max(values, textWidth(r, number(v)))
		most = max(most, v)
	}
	left := margin + names + barGap
	room := float64(width - margin - values - barGap - left)
	for i, v := range b.Values {
		top := titleEnd + i*barStep
		base := top + barWidth - 4
		chartdraw.Draw.Text(r, b.Names[i], margin, base, text(textSize))
		length := 0
		if most > 0 {
			length = int(room * v / most)
		}
		chartdraw.Draw.Box(r, chartdraw.Box{Left: left, Top: top, Right: left + length, Bottom: top + barWidth, IsSet: true},
			chartdraw.Style{FillColor: color(0), StrokeColor: color(0)})
		chartdraw.Draw.Text(r, number(v), left+length+barGap, base, text(textSize))
	}
}
