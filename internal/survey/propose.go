package survey

import (
	"math"
	"slices"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/sizing"
)

// Proposal is what a plan needs to know of the stream.
type Proposal struct {
	Window time.Duration `json:"-"`
	Basis  Basis         `json:"window_from"`
	// Missed is the share of the duplicates that are older than the window.
	Missed float64 `json:"missed_share"`
	// Late is the share of the records that are further behind the stream than the window.
	Late float64 `json:"late_share"`
	// Rate is how many new IDs come a second; a duplicate that is missed is one again.
	Rate float64 `json:"ids_per_second"`
	// Peak is how many times its share of the new IDs a generation gets, as proposed, and
	// MeasuredPeak as measured: in the busiest seventh of the window, or minute where that
	// is longer. Seen says that the stream is long enough to show busy hours.
	Peak         float64 `json:"peak"`
	MeasuredPeak float64 `json:"peak_measured"`
	Seen         bool    `json:"peak_seen"`
	Skew         float64 `json:"skew"`
}

// Basis is what a window was chosen by.
type Basis string

// What a window can be chosen by.
const (
	ByUser   Basis = "given"
	ByOldest Basis = "oldest duplicate"
	// ByMost leaves out the few duplicates that come much later than all others.
	ByMost    Basis = "p99.9 of the duplicates"
	ByDefault Basis = "default, there are no duplicates"
)

const (
	aQuarter   = 1.25 // how much longer than an age a window is
	muchLonger = 4    // windows apart, from which the oldest duplicate costs too much
	// leastPeak lets filters that grow leave a load as planned alone, with some room.
	leastPeak = 1.2
	leastSkew = 1.1
)

// windows are what people say, up from the shortest that is proposed.
var windows = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	day, 2 * day, 3 * day, 7 * day, 14 * day, 30 * day, 60 * day, 90 * day, 180 * day, 365 * day,
}

const day = 24 * time.Hour

// Propose chooses a window by the ages of the duplicates, unless one is given, and says
// what comes in it.
func (r *Report) Propose(given, fallback time.Duration) Proposal {
	p := Proposal{Window: given, Basis: ByUser}
	if given == 0 {
		p.Window, p.Basis = r.window(fallback)
	}
	if r.ages.total > 0 {
		p.Missed = float64(r.ages.above(p.Window.Milliseconds())) / float64(r.ages.total)
	}
	p.Late = float64(r.behind.above(p.Window.Milliseconds())) / float64(r.Records)
	again := p.Missed * r.DuplicateShare * float64(r.WithID())
	p.Rate = (float64(r.IDs) + again) / r.seconds()

	p.MeasuredPeak = r.peak(p.Window)
	p.Peak = max(leastPeak, math.Ceil(p.MeasuredPeak*10-1e-9)/10)
	// What is shorter than a day has not shown its busiest hours.
	if p.Seen = time.Duration(r.Span) >= day && p.Window/filter.Sealed <= time.Duration(r.Span)/2; !p.Seen {
		p.Peak = max(p.Peak, sizing.DefaultPeak)
	}
	p.Skew = sizing.DefaultSkew
	if r.Partitions > 1 {
		// A twentieth more, which an estimate may be wrong by and hashing of keys varies.
		p.Skew = max(leastSkew, math.Ceil(r.Skew*20)/20+0.05)
		p.Skew = math.Round(p.Skew*100) / 100
	}
	return p
}

// window is one that catches the oldest duplicate, or all but one in a thousand where the
// oldest are much older than the others.
func (r *Report) window(fallback time.Duration) (time.Duration, Basis) {
	if r.ages.total == 0 {
		return fallback, ByDefault
	}
	oldest := said(r.Oldest)
	most := said(r.Ages[len(r.Ages)-1].High)
	if oldest >= muchLonger*most {
		return most, ByMost
	}
	return oldest, ByOldest
}

// said is a window for an age, a quarter longer and then rounded up to what people say.
func said(age Seconds) time.Duration {
	need := time.Duration(float64(age) * aQuarter)
	if i, _ := slices.BinarySearch(windows, need); i < len(windows) {
		return windows[i]
	}
	return (need + 365*day - 1) / (365 * day) * (365 * day)
}

// peak is how many times the average of new IDs came in the busiest generation of a
// window, in whole minutes.
func (r *Report) peak(window time.Duration) float64 {
	width := max(1, int64(window/filter.Sealed/time.Minute))
	span := r.seconds() / 60
	if float64(width) >= span {
		return 1
	}
	var all, busiest, sum uint64
	minutes := make([]int64, 0, len(r.firsts))
	for m, n := range r.firsts {
		minutes = append(minutes, m)
		all += n
	}
	slices.Sort(minutes)
	oldest := 0
	for _, m := range minutes {
		for sum += r.firsts[m]; minutes[oldest] <= m-width; oldest++ {
			sum -= r.firsts[minutes[oldest]]
		}
		busiest = max(busiest, sum)
	}
	if all == 0 {
		return 1
	}
	return max(1, float64(busiest)/(float64(all)/span*float64(width)))
}
