package main

import (
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/pipeline"
)

// The summary for people has what the audit measured, if it did; that for programs has
// the members that they know.
func TestSummaryShowsWhatWasMeasured(t *testing.T) {
	f := func(a pipeline.Audit, want ...string) {
		t.Helper()
		c := pipeline.Counts{In: 9000, Verdicts: [4]uint64{8000, 1000}, Fates: [3]uint64{8000, 0, 1000}, Audit: a}
		sum := newSummary(&c, 1e-5, 1<<20, time.Second)
		var text, object strings.Builder
		if err := sum.write(&text, summaryText); err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"  measured ", "  clashes "} {
			wanted := ""
			for _, w := range want {
				if strings.HasPrefix(w, line) {
					wanted = w
				}
			}
			_, after, found := strings.Cut(text.String(), "\n"+line)
			got, _, _ := strings.Cut(line+after, "\n")
			if found != (wanted != "") || found && strings.Join(strings.Fields(got), " ") != strings.TrimSpace(wanted) {
				t.Errorf("audit %+v: line %q, want %q", a, got, wanted)
			}
		}
		if err := sum.write(&object, summaryJSON); err != nil {
			t.Fatal(err)
		}
		if o := object.String(); !strings.HasSuffix(o, `"unlearned":0,"fpr_estimate":0.00001,"memory_bytes":1048576,"seconds":1,"events_per_second":9000}`+"\n") {
			t.Errorf("the object is %s", o)
		}
	}
	f(pipeline.Audit{})
	f(pipeline.Audit{Sampled: 9, SampledNew: 8}, "  measured 0 0 of 8 audited new records")
	f(pipeline.Audit{Sampled: 2000, SampledNew: 1800, FalsePositives: 3, Clashes: 5},
		"  measured 0.0017 3 of 1,803 audited new records", "  clashes 5 audited duplicates with another value than the first copy")
}
