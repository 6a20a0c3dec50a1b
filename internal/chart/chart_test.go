package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// A drawing is XML that a reader can parse, says all its words, and is the same
// the next time.
func TestDrawing(t *testing.T) {
	t.Parallel()
	f := func(d interface{ WriteSVG(io.Writer) error }, words ...string) {
		t.Helper()
		first, second := draw(t, d), draw(t, d)
		if first != second {
			t.Error("the same figure is drawn in two ways")
		}
		said := texts(t, first)
		for _, w := range words {
			if !strings.Contains(said, w) {
				t.Errorf("the drawing does not say %q: %s", w, said)
			}
		}
	}
	lines := Lines{
		Title: "Time per event", Note: "EPYC <2 CPUs> & go1.26\nstreamdedup bench engine --plot a.svg",
		XLabel: "bytes of the filter", YLabel: "ns per event", LogX: true,
		Series: []Series{
			{Name: "compact", X: []float64{1 << 20, 1 << 30, 8 << 30}, Y: []float64{20, 110.5, 140}},
			{Name: "fast", X: []float64{1 << 20, 1 << 30}, Y: []float64{15, 70}},
			{Name: "not measured"},
		},
	}
	f(lines, "Time per event", "bytes of the filter", "ns per event", "compact", "fast", "1M", "10G", "EPYC", "<2", "--plot", "100")
	lines.XTicks = []Tick{{1 << 20, "1 MiB"}, {8 << 30, "8 GiB"}}
	f(lines, "1 MiB", "8 GiB")
	f(Lines{Title: "one point", Series: []Series{{Name: "a", X: []float64{3}, Y: []float64{0}}}}, "one point")
	f(Bars{
		Title: "Throughput", Note: "seed 1", YLabel: "of a plain copy",
		Names: []string{"exactly-once dedup", "nothing"}, Values: []float64{0.931, 0},
	}, "Throughput", "seed 1", "of a plain copy", "exactly-once dedup", "0.931", "nothing")
	f(Bars{Title: "all zero", Names: []string{"a"}, Values: []float64{0}}, "all zero")
}

// The lines are where the values are: what is higher is drawn higher, and equal
// ratios are equal steps of a logarithmic axis.
func TestPlaces(t *testing.T) {
	t.Parallel()
	a := newAxis([][]float64{{1e-6, 1e-2}}, true, nil)
	got := a.places([]float64{1e-6, 1e-4, 1e-2})
	if down, up := got[1]-got[0], got[2]-got[1]; math.Abs(down-up) > 1e-9 || down <= 0 {
		t.Errorf("equal ratios are steps of %g and %g", down, up)
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	f := func(log bool, low, high float64, want string) {
		t.Helper()
		var labels []string
		a := newAxis([][]float64{{low}, {high}}, log, nil)
		for i, tick := range a.marked {
			labels = append(labels, tick.Label)
			if i > 0 && tick.At <= a.marked[i-1].At {
				t.Errorf("tick %s is not after %s", tick.Label, a.marked[i-1].Label)
			}
		}
		if got := strings.Join(labels, " "); got != want {
			t.Errorf("from %g to %g: got %s, want %s", low, high, got, want)
		}
		if s := a.scale(); s.Min > a.place(low) || s.Max < a.place(high) {
			t.Errorf("%g to %g does not fit between %s", low, high, labels)
		}
	}
	f(false, 0, 1, "0 0.2 0.4 0.6 0.8 1")
	f(false, 20, 140.5, "0 20 40 60 80 100 120 140 160")
	f(false, 0, 0, "0 0.2 0.4 0.6 0.8 1")
	f(false, -3, 2, "-3 -2 -1 0 1 2")
	f(false, 0, 2.6e6, "0 500k 1M 1.5M 2M 2.5M 3M")
	f(true, 1e-6, 1e-2, "1e-06 1e-05 0.0001 0.001 0.01")
	f(true, 1<<20, 8<<30, "1M 10M 100M 1G 10G")
	f(true, 25, 180, "20 50 100 200")
	f(true, 1, 1, "1 2")
	f(true, 10, 1000, "10 20 50 100 200 500 1k")
}

func TestRefusesWhatHasNoPlace(t *testing.T) {
	t.Parallel()
	f := func(d interface{ WriteSVG(io.Writer) error }, want string) {
		t.Helper()
		var b bytes.Buffer
		err := d.WriteSVG(&b)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
		if b.Len() > 0 {
			t.Errorf("%d bytes were written all the same", b.Len())
		}
	}
	series := func(x, y []float64) []Series { return []Series{{Name: "s", X: x, Y: y}} }
	f(Lines{}, "no point")
	f(Lines{Series: series([]float64{1}, nil)}, `series "s" has 1 values of x and 0 of y`)
	f(Lines{LogX: true, Series: series([]float64{0}, []float64{1})}, "(0, 1)")
	f(Lines{LogY: true, Series: series([]float64{0}, []float64{-1})}, "(0, -1)")
	f(Lines{Series: series([]float64{1}, []float64{math.NaN()})}, "NaN")
	f(Bars{}, "no bar")
	f(Bars{Names: []string{"a"}}, "1 names and 0 values")
	f(Bars{Names: []string{"a"}, Values: []float64{-1}}, `"a" is -1`)
	f(Bars{Names: []string{"a"}, Values: []float64{math.Inf(1)}}, `"a" is +Inf`)
}

// What cannot be written is told.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	for _, d := range []interface{ WriteSVG(io.Writer) error }{
		Bars{Title: "b", Names: []string{"a"}, Values: []float64{1}},
		Lines{Title: "l", Series: []Series{{Name: "s", X: []float64{1}, Y: []float64{1}}}},
	} {
		if err := d.WriteSVG(failing{full}); !errors.Is(err, full) {
			t.Errorf("%T: got %v, want %v", d, err, full)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func draw(t *testing.T, d interface{ WriteSVG(io.Writer) error }) string {
	t.Helper()
	var b bytes.Buffer
	if err := d.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// texts is all that a drawing says in words.
func texts(t *testing.T, svg string) string {
	t.Helper()
	var said []string
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return strings.Join(said, " | ")
		}
		if err != nil {
			t.Fatalf("the drawing is not XML: %v\n%s", err, svg)
		}
		if words, ok := token.(xml.CharData); ok {
			said = append(said, strings.TrimSpace(string(words)))
		}
	}
}
