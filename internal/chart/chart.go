// Package chart draws figures as SVG: lines over an axis, and bars beside each
// other. It is for reports that somebody else is to check, so a drawing carries a
// note of what repeats it, and equal input gives equal bytes.
//
// The drawing itself is the work of github.com/go-analyze/charts/chartdraw. What
// it lacks is here: logarithmic axes of any range, with round ticks, and the
// notes.
package chart

import (
	"strings"

	"github.com/go-analyze/charts/chartdraw"
	"github.com/go-analyze/charts/chartdraw/drawing"
)

const (
	width    = 900 // of a drawing; the height depends on what is in it
	margin   = 16
	titleEnd = 44 // where the title ends and the figure begins

	textSize  = 9.0
	titleSize = 13.0
	noteSize  = 7.5
	noteLine  = 14 // from one line of the note to the next
)

var (
	ink   = drawing.Color{R: 34, G: 34, B: 34, A: 255}
	faint = drawing.Color{R: 221, G: 221, B: 221, A: 255}

	// palette is Okabe and Ito's, whose colours can be told apart by almost everybody.
	palette = []drawing.Color{
		{R: 0, G: 114, B: 178, A: 255}, {R: 213, G: 94, B: 0, A: 255}, {R: 0, G: 158, B: 115, A: 255},
		{R: 204, G: 121, B: 167, A: 255}, {R: 230, G: 159, B: 0, A: 255}, {R: 86, G: 180, B: 233, A: 255},
		{R: 0, G: 0, B: 0, A: 255},
	}
)

func color(series int) drawing.Color { return palette[series%len(palette)] }

func text(size float64) chartdraw.Style {
	return chartdraw.Style{FontStyle: chartdraw.FontStyle{Font: chartdraw.GetDefaultFont(), FontSize: size, FontColor: ink}}
}

func line(c drawing.Color, strokeWidth float64) chartdraw.Style {
	return chartdraw.Style{StrokeColor: c, StrokeWidth: strokeWidth}
}

// textWidth is the room to leave for a text. The reader's font may be a wider one
// than the library measures with.
func textWidth(r chartdraw.Renderer, s string) int {
	return chartdraw.Draw.MeasureText(r, s, text(textSize)).Width() * 6 / 5
}

// noteLines breaks a note where it says so and where it is too wide.
func noteLines(note string) []string {
	r := chartdraw.SVG(width, 1)
	var lines []string
	for _, l := range strings.Split(strings.TrimSpace(note), "\n") {
		lines = append(lines, chartdraw.Text.WrapFitWord(r, l, width-2*margin, text(noteSize))...)
	}
	return lines
}

// writeNote writes the lines below a figure that ends at y.
func writeNote(r chartdraw.Renderer, lines []string, y int) {
	for i, l := range lines {
		chartdraw.Draw.Text(r, l, margin, y+(i+1)*noteLine, text(noteSize))
	}
}
