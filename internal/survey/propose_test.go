package survey

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/sizing"
)

// Each age goes to a count whose largest is not much larger, and counts are in order.
func TestHistogramSteps(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(seed(t), 0))
	ages := []int64{0, 1, 255, 256, 257, 258, 511, 512, math.MaxInt32, 1 << 60}
	for range 10_000 {
		ages = append(ages, random.Int64()>>(1+random.IntN(60)))
	}
	slices.Sort(ages)
	before := 0
	for _, age := range ages {
		i := step(age)
		if top := last(i); top < age || top > age+age>>stepBits || step(top) != i || step(top+1) != i+1 || i < before {
			t.Fatalf("age %d goes to count %d, whose last is %d", age, i, top)
		}
		before = i
	}
}

func TestSaid(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]time.Duration{
		0: time.Minute, 40 * time.Second: time.Minute, 48 * time.Second: time.Minute, 49 * time.Second: 2 * time.Minute,
		27 * time.Minute: time.Hour, 20 * time.Hour: 2 * day, 290 * day: 365 * day, 300 * day: 730 * day,
	} {
		if got := said(Seconds(age)); got != want {
			t.Errorf("a window for %v is %v, want %v", age, got, want)
		}
	}
}

// aged is a report of duplicates with ages, in a stream of a span with a first copy each
// minute and more in some.
func aged(span time.Duration, more map[int64]uint64, ages ...time.Duration) *Report {
	r := &Report{Span: Seconds(span), Partitions: 1, Skew: 1, firsts: map[int64]uint64{}}
	for m := range int64(span / time.Minute) {
		r.firsts[m] = 100 + more[m]
		r.IDs += r.firsts[m]
	}
	for _, age := range ages {
		r.ages.add(age.Milliseconds())
	}
	r.Oldest = millis(r.ages.oldest)
	for _, share := range quantiles {
		age := millis(r.ages.quantile(share))
		r.Ages = append(r.Ages, Quantile{share, age, age, age})
	}
	r.Records = r.IDs + r.ages.total
	r.DuplicateShare = float64(r.ages.total) / float64(r.Records)
	return r
}

func TestProposedWindow(t *testing.T) {
	t.Parallel()
	// times is n ages of the same length, and others.
	times := func(n int, age time.Duration, others ...time.Duration) []time.Duration {
		return append(slices.Repeat([]time.Duration{age}, n), others...)
	}
	for _, c := range []struct {
		name   string
		given  time.Duration
		ages   []time.Duration
		window time.Duration
		basis  Basis
		missed float64
	}{
		{"the oldest, a quarter longer", 0, times(10, time.Second, 25*time.Minute), time.Hour, ByOldest, 0},
		{"an old one among few counts", 0, times(10, time.Second, 9*time.Hour), 12 * time.Hour, ByOldest, 0},
		{"one in 2000 that is much older", 0, times(1999, time.Second, 9*time.Hour), time.Minute, ByMost, 1. / 2000},
		{"one in 2000 that is somewhat older", 0, times(1999, time.Minute, 2*time.Minute), 5 * time.Minute, ByOldest, 0},
		{"what the user wants", 10 * time.Minute, times(3, time.Second, time.Hour), 10 * time.Minute, ByUser, 1. / 4},
		{"no duplicates", 0, nil, 24 * time.Hour, ByDefault, 0},
	} {
		r := aged(10*time.Hour, nil, c.ages...)
		p := r.Propose(c.given, 24*time.Hour)
		if p.Window != c.window || p.Basis != c.basis || math.Abs(p.Missed-c.missed) > 1e-12 {
			t.Errorf("%s: %v by %s misses %g, want %v by %s, %g", c.name, p.Window, p.Basis, p.Missed, c.window, c.basis, c.missed)
		}
		if want := (float64(r.IDs) + c.missed*float64(len(c.ages))) / (10 * 3600); math.Abs(p.Rate-want) > 1e-9 {
			t.Errorf("%s: %g new IDs a second, want %g", c.name, p.Rate, want)
		}
	}
}

func TestProposedPeak(t *testing.T) {
	t.Parallel()
	hour := func(from int64, n uint64) map[int64]uint64 {
		more := map[int64]uint64{}
		for m := range int64(60) {
			more[from+m] = n
		}
		return more
	}
	for _, c := range []struct {
		name           string
		span, window   time.Duration
		more           map[int64]uint64
		measured, peak float64
		seen           bool
	}{
		{"even", 2 * day, 7 * time.Hour, nil, 1, leastPeak, true},
		// 160 x 60 of 48 x 60 x 100 and 3600 in one of 48 hours.
		{"a busy hour", 2 * day, 7 * time.Hour, hour(600, 60), 1.6 / (1 + 0.6/48), 1.6, true},
		{"a busy hour across two", 2 * day, 7 * time.Hour, hour(630, 60), 1.6 / (1 + 0.6/48), 1.6, true},
		{"a busy minute in short generations", 2 * day, time.Minute, map[int64]uint64{7: 288_000}, 2881. / 2, 1440.5, true},
		{"too short to show busy hours", 10 * time.Hour, 7 * time.Hour, nil, 1, sizing.DefaultPeak, false},
		{"shorter than a generation", time.Hour, 7 * day, hour(0, 5), 1, sizing.DefaultPeak, false},
		{"short, and busier than usual", 10 * time.Hour, 7 * time.Minute, map[int64]uint64{9: 59_900, 10: 100}, 600. / 2, 299.6, false},
	} {
		p := aged(c.span, c.more).Propose(c.window, 0)
		if math.Abs(p.MeasuredPeak/c.measured-1) > 0.002 || math.Abs(p.Peak/c.peak-1) > 0.002 || p.Seen != c.seen {
			t.Errorf("%s: peak %g of %g measured, seen %v, want %g of %g, %v", c.name, p.Peak, p.MeasuredPeak, p.Seen, c.peak, c.measured, c.seen)
		}
	}
}

func TestProposedSkew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		partitions int
		skew, want float64
	}{{1, 1, sizing.DefaultSkew}, {4, 1, leastSkew}, {4, 1.21, 1.3}, {4, 3.9, 3.95}} {
		r := aged(time.Hour, nil)
		r.Partitions, r.Skew = c.partitions, c.skew
		if p := r.Propose(time.Hour, 0); p.Skew != c.want {
			t.Errorf("%d partitions, skew %g: %g, want %g", c.partitions, c.skew, p.Skew, c.want)
		}
	}
}
