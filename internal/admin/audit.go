package admin

import (
	"fmt"
	"math"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamdedup/streamdedup/pipeline"
)

// What an exact record of one in 1,024 hashes says of the filter's answers, and which
// IDs are unlike the others.

const (
	// hotShare is from which share of a partition's records on one ID is talked about.
	// Retries make no ID a tenth of all; one that stands for none does, such as a
	// default of the producer's, and then a tenth of all events are dropped as its
	// duplicates.
	hotShare = 0.1
	// surely is how unlikely it must be that a rate within the budget shows as many
	// false positives. The question is asked anew each minute, for years.
	surely = 1e-8
)

var (
	descMeasured       = describe("fpr_measured", "Share of the audited new records that were taken for seen.")
	descAudited        = describe("audited_records_total", "Committed records whose ID is in the audited sample, one in 1,024, and could be judged.")
	descAuditedNew     = describe("audited_new_records_total", "Audited records that were new and were taken for new.")
	descFalsePositives = describe("audited_false_positives_total", "Audited records that were new and were taken for seen.")
	descClashes        = describe("id_clashes_total", "Audited duplicates whose value differs from that of the first copy.")
	descHot            = describe("hot_id_share", "Share of the partition's records that have its most frequent ID; 0 where none stands out.", "topic", "partition")
)

// collectAudit turns what was audited into metrics.
func collectAudit(to chan<- prometheus.Metric, a *pipeline.Audit) {
	gauge(to, descMeasured, a.FPR())
	counter(to, descAudited, a.Sampled)
	counter(to, descAuditedNew, a.SampledNew)
	counter(to, descFalsePositives, a.FalsePositives)
	counter(to, descClashes, a.Clashes)
}

// tooMany says that the audit found more false positives than the budget explains, or
// "".
func tooMany(a *pipeline.Audit, budget float64) string {
	judged := a.FalsePositives + a.SampledNew
	if budget <= 0 || a.FPR() <= 2*budget || chance(a.FalsePositives, float64(judged)*budget) > surely {
		return ""
	}
	return fmt.Sprintf("%d of %d audited new records were taken for seen, %.2g of them, and --fpr allows %g: plan it larger, see `streamdedup size`",
		a.FalsePositives, judged, a.FPR(), budget)
}

// chance is an upper bound of how likely n or more of something are of which expected
// are to be expected, n being more: Chernoff's for the Poisson distribution.
func chance(n uint64, expected float64) float64 {
	k := float64(n)
	if k <= expected {
		return 1
	}
	return math.Exp(k - expected - k*math.Log(k/expected))
}

// clashing says that the audit found duplicates with other values, or "".
func clashing(a *pipeline.Audit) string {
	if a.Clashes == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d audited records have the ID of an earlier one and another value: "+
		"either copies are not alike, or --key is the same for several events, which are lost as duplicates", a.Clashes, a.Sampled)
}

// hot says that one ID has much of a partition, or "".
func hot(p *pipeline.PartitionSnapshot) string {
	h := &p.Hot
	if h.Share < hotShare {
		return ""
	}
	id := fmt.Sprintf("with hash %016x (--show-ids shows it)", uint64(h.Hash))
	if h.Text != "" {
		// It is quoted where it can be anything, and may be cut in the middle of a letter.
		id = fmt.Sprintf("%s, with hash %016x,", strings.ToValidUTF8(h.Text, "?"), uint64(h.Hash))
	}
	return fmt.Sprintf("partition %s: the ID %s is that of %.0f%% of the records: if it means none, --ignore-id says so; or is --key too coarse?", p.Partition, id, 100*h.Share)
}
