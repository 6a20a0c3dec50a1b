//go:build unix

package e2e

import (
	"strconv"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/internal/workload"
)

// clicks is a day of clicks, a tenth of them duplicates.
func clicks(t *testing.T, records int, skew bool) workload.Config {
	t.Helper()
	const day = 24 * time.Hour
	return workload.Config{
		Kind: workload.Clicks, Seed: seed(t), Events: records - records/10, Copies: records / 10, Partitions: 4,
		KeyByID: true, Start: time.Now().Add(-day), Span: day, Window: day, Skew: skew,
	}
}

// TestExactness: on a real Kafka not one duplicate inside the window passes, no
// first copy is lost but for false positives inside their budget, and what comes
// out is what came in, byte for byte and in order. 2,000,000 records in the long
// run.
func TestExactness(t *testing.T) {
	records := 200_000
	if long() {
		records = 2_000_000
	}
	const fpr = 1e-4
	s := newStream(t, clicks(t, records, true))
	s.feed(t, records)
	// As full as it may get: only so are there false positives to budget.
	p := s.run(t, "a", "--fpr", "1e-4", "--peak", "1.2", "--skew", "1.05", "--capacity", strconv.Itoa(s.workload.Events))
	s.awaitLag(t, 0)
	p.stop(t)

	sum := readSummary(t, p.stderr.String())
	if sum.In != uint64(records) {
		t.Errorf("in is %d, want %d", sum.In, records)
	}
	if sum.Unlearned != 0 {
		t.Errorf("%d IDs did not fit into the filter: the test is too tight", sum.Unlearned)
	}
	if sum.Ahead == 0 {
		t.Error("no record was ahead of the clock: the test has lost its wrong clocks")
	}
	r := s.verify(t, fpr)
	if r.Out != sum.Out || r.Unique != sum.Unique {
		t.Errorf("the audit found %d out and %d unique, the summary says %d and %d", r.Out, r.Unique, sum.Out, sum.Unique)
	}
	t.Logf("%d records, %d unique, %d withheld of a budget of %.0f", r.In, r.Unique, r.Withheld.Count, r.Budget)
	s.checkOnce(t, r.Withheld.Count)
}
