package sizing

import (
	"fmt"
	"time"
)

// Curve is the memory of a workload over the false-positive rate, for one window.
type Curve struct {
	Window time.Duration
	FPR    []float64
	Bytes  []float64
}

// curveRates are the rates of a curve.
var curveRates = []float64{1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7}

// Curves plans the workload of p at its rate for other false-positive rates and for
// windows from a quarter of its own to four times as long.
func (p Plan) Curves() ([]Curve, error) {
	w := p.Workload
	w.Elements, w.Rate = 0, p.RatePerSecond()
	var all []Curve
	for _, quarters := range []time.Duration{1, 2, 4, 8, 16} {
		if w.Window = p.Workload.Window / 4 * quarters; w.Window < MinWindow {
			continue
		}
		c := Curve{Window: w.Window}
		for _, w.FPR = range curveRates {
			plan, err := Solve(w)
			if err != nil {
				return nil, fmt.Errorf("plan a window of %s at %g: %w", FormatDuration(w.Window), w.FPR, err)
			}
			c.FPR, c.Bytes = append(c.FPR, w.FPR), append(c.Bytes, float64(plan.Bytes))
		}
		all = append(all, c)
	}
	return all, nil
}
