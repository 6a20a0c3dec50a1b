package admin

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamdedup/streamdedup/pipeline"
)

// Check is something that can look wrong.
type Check uint8

// The checks.
const (
	// CheckStopped: a partition goes no further until someone acts.
	CheckStopped Check = iota
	// CheckBlocked: one waits for a transaction of another producer.
	CheckBlocked
	// CheckStandstill: one does not move although nothing has failed.
	CheckStandstill
	// CheckMemory: there is no memory for the filter of one.
	CheckMemory
	// CheckCoverage: the memory does not know the whole window yet.
	CheckCoverage
	// CheckFull: the filling generation takes no more IDs.
	CheckFull
	// CheckRate: new IDs come faster than planned.
	CheckRate
	// CheckEstimate: the filter's rate is above the budget.
	CheckEstimate
	// CheckMeasured: the audit measures a rate above it.
	CheckMeasured
	// CheckClashes: the audit finds duplicates that differ from their first copies.
	CheckClashes
	// CheckHot: one ID has much of a partition.
	CheckHot
	// CheckNoID: most of the recent records have no ID.
	CheckNoID
	// CheckNoTime: most of them have no time.
	CheckNoTime
	// CheckAhead: most of them are ahead of the clock.
	CheckAhead
	checks
)

var checkNames = [checks]string{
	"stopped", "blocked", "standstill", "memory", "coverage", "filter_full", "rate", "fpr_estimate",
	"fpr_measured", "id_clashes", "hot_id", "no_id", "no_time", "ahead",
}

// String is the check's name in metrics.
func (c Check) String() string { return checkNames[c] }

// Warning is what a check found: of one partition, or of all when Partition is the
// zero one.
type Warning struct {
	Check     Check
	Partition pipeline.Partition
	Text      string
}

// Warnings are what looks wrong now, in the order of the checks.
func (m *Metrics) Warnings() []Warning {
	source, s := m.source.Load(), m.snapshot()
	if s == nil {
		return nil
	}
	standstills, recent := source.standstills(), m.recent.counts()
	var found []Warning
	for check := range checks {
		for i := range s.Partitions {
			if text := ofPartition(check, &s.Partitions[i], source); text != "" {
				found = append(found, Warning{check, s.Partitions[i].Partition, text})
			}
		}
		for _, at := range standstills {
			if check == CheckBlocked && at.OpenTransaction || check == CheckStandstill && !at.OpenTransaction {
				found = append(found, Warning{check, at.Partition, at.String()})
			}
		}
		if text := ofAll(check, &recent, &s.Counts, source); text != "" {
			found = append(found, Warning{check, pipeline.Partition{}, text})
		}
	}
	return found
}

// tooHigh is what the rate of a filter may be, by the budget. A plan's rate is at most
// the budget, and an estimate is a sample, which errs by a tenth: this is above that,
// and below the double of the budget.
const tooHigh = 1.5

// ofPartition is what a check finds in one partition, or "".
func ofPartition(check Check, p *pipeline.PartitionSnapshot, source *Source) string {
	switch {
	case check == CheckStopped && p.Stopped != nil:
		return p.Stopped.Error()
	case check == CheckMemory && p.Waits != nil:
		return fmt.Sprintf("partition %s waits for memory: %v", p.Partition, p.Waits)
	case !p.Restored:
		return ""
	case check == CheckCoverage && p.Window.Coverage < 1:
		return fmt.Sprintf("partition %s knows %.0f%% of the window: older duplicates pass", p.Partition, 100*p.Window.Coverage)
	case check == CheckFull && p.Window.Full:
		return fmt.Sprintf("partition %s has more new IDs than planned: the filter is full", p.Partition)
	case check == CheckRate:
		return tooFast(p, source)
	case check == CheckEstimate && p.Window.FPR > tooHigh*source.Budget && source.Budget > 0:
		return fmt.Sprintf("partition %s takes %.2g of the new records for seen, and --fpr allows %g: plan it larger, see `streamdedup size`",
			p.Partition, p.Window.FPR, source.Budget)
	case check == CheckHot:
		return hot(p)
	}
	return ""
}

// slotsToJudge: an eighth of a generation must have passed before its rate says
// something. Less is a burst, which the rest of the generation makes up for.
const slotsToJudge = 8

// tooFast says that the filling generation will be full before its time, if new IDs
// go on to come as they do, or that it is what it was planned for and grows, or "".
// It is the stream's time that counts: a backlog that is read fast is no rate.
func tooFast(p *pipeline.PartitionSnapshot, source *Source) string {
	slice := source.Slice.Milliseconds()
	if !p.Window.Believed || p.Window.Full || slice <= 0 || source.GenerationCapacity == 0 {
		return ""
	}
	passed := p.Window.StreamTime % slice
	load, planned := float64(p.Window.Loads[0]), float64(source.GenerationCapacity)
	if passed < slice/slotsToJudge {
		return ""
	}
	// Few IDs may be more than planned by chance: six standard deviations are not.
	if most := planned * float64(passed) / float64(slice); load <= most+6*math.Sqrt(most) {
		return ""
	}
	perSecond := func(ids, ms float64) string { return fmt.Sprintf("%.3g", ids/ms*1000) }
	return fmt.Sprintf("partition %s gets %s new IDs a second of its time, and is planned for %s at most: raise the plan, see `streamdedup size`",
		p.Partition, perSecond(load, float64(passed)), perSecond(planned, float64(slice)))
}

// ofAll is what a check finds in the records of all partitions, the recent ones and
// those since the start, or "".
func ofAll(check Check, c, all *pipeline.Counts, source *Source) string {
	switch check {
	case CheckMeasured:
		// A minute has few of the sample. Since the start there are more, and a rate that
		// has become too high long ago is among them.
		return cmp.Or(tooMany(&c.Audit, source.Budget), tooMany(&all.Audit, source.Budget))
	case CheckClashes:
		return clashing(&c.Audit)
	case CheckNoID:
		return WithoutID(c)
	case CheckNoTime:
		return WithoutTime(c, source.Info.Time)
	case CheckAhead:
		if n := c.Marked(pipeline.Ahead); most(n, c.In) {
			return fmt.Sprintf("%d of %d records are ahead of the clock: whose is wrong, the producers' or ours?", n, c.In)
		}
	}
	return ""
}

// WithoutID says that most records have no ID, which is rarely meant: then a key
// spec is likely wrong, or, where they are malformed, the format that it is for. It is
// "" when they do have one.
func WithoutID(c *pipeline.Counts) string {
	n, malformed := withoutID(c), c.Verdicts[pipeline.Invalid]
	switch {
	case !most(n, c.In):
		return ""
	case malformed == n:
		return fmt.Sprintf("%d of %d records are malformed before their ID: is --key right for their format?", n, c.In)
	case malformed > 0:
		return fmt.Sprintf("%d of %d records have no ID, %d of them because they are malformed before it: is --key right?", n, c.In, malformed)
	}
	return fmt.Sprintf("%d of %d records have no ID: is --key right?", n, c.In)
}

// WithoutTime says that most records have no time by that spec, which is as rarely
// meant. It is "" when they do have one.
func WithoutTime(c *pipeline.Counts, spec string) string {
	n := c.Marked(pipeline.NoTime)
	if !most(n, c.In) {
		return ""
	}
	return fmt.Sprintf("%d of %d records have no time, and are judged at the stream's time: is --time %s right?", n, c.In, spec)
}

func withoutID(c *pipeline.Counts) uint64 {
	return c.Verdicts[pipeline.Missing] + c.Verdicts[pipeline.Invalid]
}

// most is whether n are more than half of all records. Few records say that only
// when it is all of them.
func most(n, of uint64) bool { return of > 0 && n == of || of >= enough && n > of/2 }

// page is the one for people: what this is, how far it is, and what looks wrong.
func page(about string, m *Metrics) string {
	s, warnings := m.snapshot(), m.Warnings()
	lines := []string{alive(warnings), about}
	if missing := unready(s, m.restoring()); missing != "" {
		lines = append(lines, "not ready: "+missing)
	} else {
		lines = append(lines, "ready: "+partitions(len(s.Partitions)))
	}
	if covered, known := leastCoverage(s); known {
		lines = append(lines, fmt.Sprintf("memory: %.0f%% of the window is known, %s", 100*covered, m.unlearned(s)))
	}
	if c := m.recent.counts(); c.In > 0 {
		lines = append(lines, fmt.Sprintf("recently: %d records, %.1f%% without an ID, %.1f%% malformed before it, %.1f%% ahead of the clock",
			c.In, 100*share(c.Verdicts[pipeline.Missing], c.In), 100*share(c.Verdicts[pipeline.Invalid], c.In), 100*share(c.Marked(pipeline.Ahead), c.In)))
	}
	for _, w := range warnings {
		lines = append(lines, "warning: "+w.Text)
	}
	return strings.Join(lines, "\n")
}

// unlearned says how many IDs the memory lacks although it knows the window they came in.
// What is stored of a partition does not count them, so it is since the start, and for
// none, too: they may have been before.
func (m *Metrics) unlearned(s *pipeline.Snapshot) string {
	n := s.Counts.Marked(pipeline.Unlearned)
	text := fmt.Sprintf("%d new IDs not learned since the start at %s", n, m.start.UTC().Format(time.RFC3339))
	if n > 0 {
		text += ": the filter was full, and repeats of them pass"
	}
	return text
}

// alive is the first line: the process lives, but a partition that goes no further
// needs someone.
func alive(warnings []Warning) string {
	var n [checks]int
	for _, w := range warnings {
		n[w.Check]++
	}
	var degraded []string
	for _, what := range []struct {
		check Check
		what  string
	}{{CheckStopped, "stopped"}, {CheckBlocked, "waiting for a transaction of another producer"}, {CheckStandstill, "standing still"}, {CheckMemory, "waiting for memory"}} {
		if n[what.check] > 0 {
			degraded = append(degraded, partitions(n[what.check])+" "+what.what)
		}
	}
	if len(degraded) == 0 {
		return "alive"
	}
	return "degraded: " + strings.Join(degraded, ", ")
}

func partitions(n int) string {
	if n == 1 {
		return "1 partition"
	}
	return fmt.Sprintf("%d partitions", n)
}

// leastCoverage is that of the partition that knows least of its window.
func leastCoverage(s *pipeline.Snapshot) (least float64, known bool) {
	least = 1
	if s != nil {
		for i := range s.Partitions {
			if p := &s.Partitions[i]; p.Restored {
				least, known = min(least, p.Window.Coverage), true
			}
		}
	}
	return least, known
}

// share is n of all, 0 of none.
func share(n, of uint64) float64 { return float64(n) / float64(max(1, of)) }

var (
	descWarning = describe("health_warning", "1 while a check finds something that looks wrong; /healthz says what.", "check")
	descMissing = describe("missing_ratio", "Share of the records of the last minute that have no ID, or are malformed before it.")
	descAhead   = describe("ahead_ratio", "Share of the records of the last minute that are ahead of the clock.")
)

// collectHealth turns the checks into metrics.
func (m *Metrics) collectHealth(to chan<- prometheus.Metric) {
	var found [checks]bool
	for _, w := range m.Warnings() {
		found[w.Check] = true
	}
	for check := range checks {
		gauge(to, descWarning, oneIf(found[check]), check.String())
	}
	c := m.recent.counts()
	gauge(to, descMissing, share(withoutID(&c), c.In))
	gauge(to, descAhead, share(c.Marked(pipeline.Ahead), c.In))
}
