package sizing

import (
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// The curves go through the plan, and fall with the rate and rise with the window.
func TestCurves(t *testing.T) {
	t.Parallel()
	w := billion
	w.Elements, w.Partitions, w.Layout = 7e6, 3, filter.Fast
	p := solve(t, w)
	curves, err := p.Curves()
	if err != nil {
		t.Fatal(err)
	}
	met := false
	for i, c := range curves {
		for k, bytes := range c.Bytes {
			met = met || c.Window == w.Window && c.FPR[k] == w.FPR && uint64(bytes) == p.Bytes
			if k > 0 && bytes <= c.Bytes[k-1] {
				t.Errorf("window %s: %g takes %g bytes, %g takes %g", c.Window, c.FPR[k], bytes, c.FPR[k-1], c.Bytes[k-1])
			}
			if i > 0 && bytes <= curves[i-1].Bytes[k] {
				t.Errorf("%g: a window of %s takes %g bytes, one of %s %g", c.FPR[k], c.Window, bytes, curves[i-1].Window, curves[i-1].Bytes[k])
			}
		}
	}
	if len(curves) != 5 || !met {
		t.Errorf("the plan of %d bytes is not on the curves %+v", p.Bytes, curves)
	}
	w.Window = 2 * MinWindow
	if curves, err = solve(t, w).Curves(); err != nil || curves[0].Window < MinWindow || curves[0].Window > 2*time.Second {
		t.Errorf("a short window: %+v, %v", curves, err)
	}
}
