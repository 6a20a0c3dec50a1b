package sizing_test

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/sizing"
)

// A topic of 12 partitions carries 50,000 new IDs a second. Remember a day of them.
func ExampleSolve() {
	plan, err := sizing.Solve(sizing.Workload{
		Rate:       50_000,
		Window:     24 * time.Hour,
		FPR:        1e-4,
		Peak:       sizing.DefaultPeak,
		Skew:       sizing.DefaultSkew,
		Partitions: 12,
		Kind:       sizing.Sliced,
		Layout:     filter.Compact,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sizing.FormatCount(plan.Elements), "IDs in", sizing.FormatBytes(plan.Bytes))
	fmt.Println(plan.Sliced.LinesPerKey, "cache lines per ID")
	// Output:
	// 4,320,000,000 IDs in 40.0 GB (37.3 GiB)
	// 4 cache lines per ID
}

// Two gigabytes are to spare. How many IDs is that?
func ExampleForMemory() {
	plan, err := sizing.ForMemory(sizing.Workload{
		Window: 24 * time.Hour, FPR: 0.01,
		Peak: 1, Skew: 1, Partitions: 1,
	}, 2<<30)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sizing.FormatCount(plan.Elements))
	// Output: 1,017,018,877
}

func ExampleReport_WriteText() {
	plan, err := sizing.Solve(sizing.Workload{
		Elements: 1e9, Window: 24 * time.Hour, FPR: 0.01,
		Peak: 1, Skew: 1, Partitions: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	report, err := sizing.NewReport(plan, sizing.Deployment{})
	if err != nil {
		log.Fatal(err)
	}
	// What was measured on a machine is another thing on the next one.
	report.MeasuredOn = "some machine"
	report.Speed = sizing.Speed{Engine: 6e6, Kafka: 6e5}
	report.Restore = sizing.Restore{Changelog: 101, Checkpoint: 5.9}
	if err := report.WriteText(os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Remembering 1,000,000,000 IDs for 24h (11,570 new IDs a second), at most 1% of new records taken for seen.
	//
	// filters                     2.11 GB (1.97 GiB)        2,111,547,520 bytes
	// whole process               2.74 GB (2.56 GiB)        at its peak: filters and 60.6 MB of journals, 194 MB of records, 69.5 MB for the rest, 309 MB of garbage
	// new records taken for seen  10,000,000 a day          at most, at the average load; 10,000,000 a day with all generations full
	// a generation is full at     142,857,143 IDs           in each partition
	// events a second             600,000 a core            from topic to topic; 6,000,000 in memory, 3 cache lines each (some machine)
	// changelog                   8.13 GB (7.57 GiB) a day  at the average load; 8.00 GB (7.45 GiB) are hashes, the rest is of commits every 200 ms
	// restore after a start       5.9s                      from a checkpoint; 1m41s from the changelog alone
	//
	// This plan: all generations get equal shares of the IDs; one partition
	//   streamdedup run --brokers 127.0.0.1:19092 --in clicks --out clicks-unique --create-topics --group dedup --key json:event_id \
	//     --capacity 1000000000 --window 24h --fpr 0.01 --peak 1 --skew 1 --on-full pass
	//
	// With the default peak and skew: a generation may get 2 times its share of the IDs; one partition
	//   4.22 GB (3.93 GiB), 2 times as much
	//   streamdedup run --brokers 127.0.0.1:19092 --in clicks --out clicks-unique --create-topics --group dedup --key json:event_id \
	//     --capacity 1000000000 --window 24h --fpr 0.01
	//
	// Brokers, topics, group and key are those of the README's first steps: put yours in their place.
	//
	//                                             bits per ID  filters             cache lines per new ID
	//   one classic filter, no window (7 hashes)  9.585        1.20 GB (1.12 GiB)  -
	//   window: ring of classic filters           15.897       1.99 GB (1.85 GiB)  26.4
	// * window: sliced filter, compact            16.892       2.11 GB (1.97 GiB)  3
	//   window: sliced filter, fast               18.215       2.28 GB (2.12 GiB)  2
	// * is this plan. The first line is the well-known m = -n ln p / (ln 2)^2, a filter that never forgets;
	//   a window has 8 generations, 7 of them full and one filling, which share p.
}

// A source delivers a webhook again for three days. Which window catches its copies?
func ExampleParseRedelivery() {
	for _, text := range []string{"stripe", "10s,1m,10m,1h", "rewind:7d"} {
		r, err := sizing.ParseRedelivery(text)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(text, sizing.FormatDuration(r.Horizon), sizing.FormatDuration(r.Window))
	}
	// Output:
	// stripe 3d 3d8h
	// 10s,1m,10m,1h 1h11m10s 1h19m
	// rewind:7d 7d 7d17h
}

func ExampleParseWindow() {
	for _, text := range []string{"1d12h", "90", "1mo"} {
		window, err := sizing.ParseWindow(text)
		fmt.Println(window, err)
	}
	// Output:
	// 36h0m0s <nil>
	// 0s parse duration "90": 90 has no unit, want one such as 24h, 7d or 1d12h
	// 0s parse duration "1mo": 1 has the unit "mo", whose length varies; say how many days, want one such as 24h, 7d or 1d12h
}
