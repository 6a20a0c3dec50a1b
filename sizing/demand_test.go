package sizing

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

func TestDemand_Apply(t *testing.T) {
	t.Parallel()
	rate := Workload{Rate: 80_000, Window: 24 * time.Hour, FPR: 1e-4, Peak: DefaultPeak, Skew: 1, Partitions: 1}
	count := Workload{Elements: 1e9, Window: 24 * time.Hour, FPR: 0.01, Peak: 1, Skew: 1, Partitions: 1}
	f := func(name string, d Demand, w Workload, change func(*Workload)) {
		t.Helper()
		want := w
		change(&want)
		got, err := d.Apply(w)
		if err != nil || got != want {
			t.Errorf("%s: %+v and error %v, want %+v", name, got, err, want)
		}
	}
	f("nothing said", Demand{}, rate, func(*Workload) {})
	f("mean", Demand{Mean: 30_000}, rate, func(w *Workload) { w.Rate, w.Peak = 30_000, 2.67 })
	f("mean as high as the peak", Demand{Mean: 80_000}, rate, func(w *Workload) { w.Peak = 1 })
	f("unique", Demand{Unique: 0.5}, rate, func(w *Workload) { w.Rate = 40_000 })
	f("growth of a rate", Demand{Headroom: 0.25}, rate, func(w *Workload) { w.Rate = 100_000 })
	f("growth of a number", Demand{Headroom: 0.5}, count, func(w *Workload) { w.Elements = 1.5e9 })
	f("withheld of a number", Demand{WithheldPerDay: 1e6}, count, func(w *Workload) { w.FPR = 1e-3 })
	f("withheld of a rate", Demand{WithheldPerDay: 100, Unique: 0.5}, rate, func(w *Workload) { w.Rate, w.FPR = 40_000, 2.89e-8 })
}

func TestDemand_ApplyRefuses(t *testing.T) {
	t.Parallel()
	f := func(d Demand, w Workload, want string) {
		t.Helper()
		w.Window = 24 * time.Hour
		if _, err := d.Apply(w); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", d, err, want)
		}
	}
	f(Demand{Mean: 1}, Workload{Elements: 1000}, "none is given")
	f(Demand{Unique: 0.5}, Workload{Elements: 1000}, "none is given")
	f(Demand{Mean: 100}, Workload{Rate: 50}, "above the rate of the busiest hours")
	f(Demand{Headroom: 100}, Workload{Elements: 1 << 52}, "the limit is")
	f(Demand{WithheldPerDay: 10}, Workload{}, "depends on how many")
	f(Demand{WithheldPerDay: 1000}, Workload{Elements: 1000}, "all of the")
	f(Demand{WithheldPerDay: 1}, Workload{Elements: 1e12}, "the lowest is 1e-09: that is 1,000 a day")
}

// A plan for a number of withheld records keeps to it with every generation at its
// peak, and is not much better than it has to be.
func TestDemand_WithheldIsWhatAFullPlanWithholds(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	for range 50 {
		w := randomWorkload(r)
		w.Kind %= Single
		w.Elements += 1e6
		fresh := float64(w.Elements) / w.Window.Seconds() * secondsADay
		most := fresh * math.Exp(-1-r.Float64()*15)
		w, err := Demand{WithheldPerDay: most}.Apply(w)
		if err != nil {
			t.Fatal(err)
		}
		p := solve(t, w)
		var full [filter.Generations]uint64
		for i := range full {
			full[i] = p.GenerationCapacity
		}
		if withheld := p.FPRAt(full) * fresh; withheld > most || withheld < 0.9*most {
			t.Errorf("%+v withholds %g a day, asked for %g", w, withheld, most)
		}
	}
}

func TestParseHeadroom(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"25%": 0.25, "0.25": 0.25, "150%": 1.5, "0": 0, "1": 1} {
		if got, err := ParseHeadroom(text); err != nil || got != want {
			t.Errorf("%s: %g, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-5%", "much", "1e9", "%"} {
		if got, err := ParseHeadroom(text); err == nil {
			t.Errorf("%q is read as %g", text, got)
		}
	}
}

func TestParseRedelivery(t *testing.T) {
	t.Parallel()
	for _, one := range Schedules {
		r, err := ParseRedelivery(one.Name)
		if err != nil || r.Horizon != one.Horizon || r.Says != one.Says {
			t.Errorf("%s: %+v, %v", one.Name, r, err)
		}
		if r.Window < r.Horizon+r.Horizon/10 || r.Window > r.Horizon+r.Horizon/10+time.Hour {
			t.Errorf("%s: a window of %s for copies up to %s later", one.Name, r.Window, r.Horizon)
		}
		if _, err := ParseWindow(FormatDuration(r.Window)); err != nil {
			t.Errorf("%s: run does not take its window: %v", one.Name, err)
		}
	}
	if r, err := ParseRedelivery("svix"); err != nil || FormatDuration(r.Horizon) != "27h35m5s" {
		t.Errorf("svix: %+v, %v", r, err)
	}
	if r, err := ParseRedelivery("10ms"); err != nil || r.Window != time.Minute {
		t.Errorf("a copy at once: %+v, %v", r, err)
	}
	for _, text := range []string{"", "strype", "10s,", "rewind:", "rewind:7", "200y", "100000w,100000w", "rewind:100000d", "97050d"} {
		if r, err := ParseRedelivery(text); err == nil {
			t.Errorf("%q is read as %+v", text, r)
		}
	}
}
