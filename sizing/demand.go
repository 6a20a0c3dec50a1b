package sizing

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/streamdedup/streamdedup/filter"
)

// Demand is what people know of a stream before they know a [Workload]. A zero field
// was not said.
type Demand struct {
	// Mean is the average of the rate over the window, where the workload's Rate is that
	// of its busiest hours.
	Mean float64
	// Unique is the share of records that are first copies, where rates are of records.
	Unique float64
	// Headroom is for growth: 0.25 plans for a quarter more IDs.
	Headroom float64
	// WithheldPerDay is how many first copies a day may be taken for seen, instead of
	// the workload's FPR: of the average number of new IDs, even with all generations at
	// their peak.
	WithheldPerDay float64
}

// Apply makes of w, whose Rate and Elements are as people said them, what is to be
// planned for.
func (d Demand) Apply(w Workload) (Workload, error) {
	if w.Rate == 0 && (d.Mean != 0 || d.Unique != 0) {
		return w, errors.New("a mean rate and a share of unique records say something of a rate, and none is given")
	}
	if d.Mean != 0 {
		if d.Mean > w.Rate {
			return w, fmt.Errorf("the mean rate of %g a second is above the rate of the busiest hours, %g", d.Mean, w.Rate)
		}
		// Rounded up to what people would write in a flag.
		w.Peak, w.Rate = math.Ceil(w.Rate/d.Mean*100)/100, d.Mean
	}
	if d.Unique != 0 {
		w.Rate *= d.Unique
	}
	var err error
	if w.Elements != 0 {
		if w.Elements, err = ceil(float64(w.Elements)*(1+d.Headroom), "new IDs in a window"); err != nil {
			return w, err
		}
	}
	w.Rate *= 1 + d.Headroom
	if d.WithheldPerDay != 0 {
		return d.withheld(w)
	}
	return w, nil
}

// withheld sets the rate of false positives by their number.
func (d Demand) withheld(w Workload) (Workload, error) {
	fresh := w.Rate
	if w.Elements != 0 {
		fresh = float64(w.Elements) / w.Window.Seconds()
	}
	fresh *= secondsADay
	if fresh == 0 {
		return w, errors.New("how many first copies are withheld a day depends on how many there are: give their number or rate, or a false-positive rate")
	}
	w.FPR = roundedDown(d.WithheldPerDay / fresh)
	switch {
	case w.FPR >= 1:
		return w, fmt.Errorf("%s withheld a day are all of the %s new IDs a day", rounded(d.WithheldPerDay), rounded(fresh))
	case w.FPR < filter.MinFPR:
		return w, fmt.Errorf("%s withheld a day of %s new IDs is a rate of %.2g, the lowest is %g: that is %s a day",
			rounded(d.WithheldPerDay), rounded(fresh), w.FPR, filter.MinFPR, rounded(math.Ceil(fresh*filter.MinFPR*100)/100))
	}
	return w, nil
}

const secondsADay = 24 * 60 * 60

// roundedDown is f in three digits and not above it, for a flag that people read.
func roundedDown(f float64) float64 {
	n := significant(f, 3)
	if n > f*(1+1e-9) { // a division loses some of the last digits
		n = significant(f*0.995, 3)
	}
	return n
}

// ParseHeadroom reads how much more than now is planned for: "25%", "0.25", "150%".
func ParseHeadroom(s string) (float64, error) {
	text, percent := strings.CutSuffix(s, "%")
	n, err := exactNumber(text)
	if err != nil {
		return 0, fmt.Errorf("parse headroom %q: %w, want how much more, such as 25%% or 0.25", s, err)
	}
	f, _ := n.Float64()
	if percent {
		f /= 100
	}
	if f > 100 {
		return 0, fmt.Errorf("parse headroom %q: it is %s times as much, want how much more, such as 25%% or 0.25", s, strconv.FormatFloat(1+f, 'g', 4, 64))
	}
	return f, nil
}
