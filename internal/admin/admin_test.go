package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

const slice = 10 * time.Second

// watching are metrics of an engine that stands still at a snapshot.
func watching(s *pipeline.Snapshot) *Metrics {
	m := NewMetrics()
	m.Watch(Source{
		Snapshot: func() *pipeline.Snapshot { return s },
		Lag: func() map[pipeline.Partition]int64 {
			return map[pipeline.Partition]int64{{Topic: "clicks", Number: 1}: 42}
		},
		Restoring: func() map[pipeline.Partition]float64 {
			return map[pipeline.Partition]float64{{Topic: "clicks", Number: 0}: 0.4}
		},
		NotCopied: func() uint64 { return 5 },

		Budget:             1e-4,
		GenerationCapacity: 100,
		Slice:              slice,
		Info:               Info{Key: "json:id", Time: "record", Window: "1m10s", Scope: "partition", Delivery: "exactly-once", OnDuplicate: "drop"},
	})
	m.recent.add(time.Now(), &s.Counts)
	return m
}

// busy is a snapshot of one partition that works and one that is restored.
func busy() *pipeline.Snapshot {
	s := &pipeline.Snapshot{
		Settled: [3]uint64{7, 2, 1},
		Partitions: []pipeline.PartitionSnapshot{
			{Partition: pipeline.Partition{Topic: "clicks", Number: 0}},
			{
				Partition: pipeline.Partition{Topic: "clicks", Number: 1}, Restored: true,
				Window: window.Stats{
					Loads: [filter.Generations]uint64{50, 100}, StreamTime: 1_767_225_600_500,
					Coverage: 0.25, Full: true, Slabs: 2, Bytes: 4096, FPR: 5e-5,
				},
			},
		},
	}
	s.Counts.In = 10
	s.Counts.Verdicts = [4]uint64{4, 3, 2, 1}
	s.Counts.Fates = [3]uint64{6, 1, 3}
	s.Counts.Marks[0] = 5 // late
	s.Counts.Audit = pipeline.Audit{Sampled: 9, SampledNew: 3, FalsePositives: 1, Clashes: 2}
	s.Partitions[1].Hot = pipeline.Hot{Hash: 7, Share: 0.5}
	s.Counts.Unsupported, s.Counts.RepeatedHeaders = 2, 3
	s.Counts.Ages = [filter.Generations]uint64{1, 0, 2, 0} // one just now, two that are two generations old
	return s
}

func get(t *testing.T, h http.Handler, path, from string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.RemoteAddr = from
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

const here = "127.0.0.1:1"

// Dashboards depend on names, labels and values.
func TestMetricsHaveTheirNames(t *testing.T) {
	m := watching(busy())
	events := m.Events()
	events.Settled(pipeline.Committed, 30*time.Millisecond, &pipeline.Counts{}, time.Now().Add(-time.Second).UnixMilli())
	events.Settled(pipeline.Aborted, 30*time.Millisecond, &pipeline.Counts{}, time.Now().UnixMilli())
	events.Restored(pipeline.Partition{}, 2*time.Second)
	events.Checkpointed(pipeline.Partition{}, time.Second, 1<<20, nil)
	events.Checkpointed(pipeline.Partition{}, time.Second, 1<<20, errors.New("disk full"))
	code, body := get(t, handler("", m), "/metrics", here)
	if code != http.StatusOK {
		t.Fatalf("status %d", code)
	}
	for want := range strings.Lines(`
streamdedup_records_total{verdict="unique"} 4
streamdedup_records_total{verdict="duplicate"} 3
streamdedup_records_total{verdict="missing"} 2
streamdedup_records_total{verdict="invalid"} 1
streamdedup_fate_total{fate="out"} 6
streamdedup_fate_total{fate="diverted"} 1
streamdedup_fate_total{fate="dropped"} 3
streamdedup_marks_total{mark="late"} 5
streamdedup_marks_total{mark="ahead"} 0
streamdedup_marks_total{mark="no_time"} 0
streamdedup_marks_total{mark="jump"} 0
streamdedup_marks_total{mark="retimed"} 0
streamdedup_marks_total{mark="unlearned"} 0
streamdedup_unsupported_ids_total 2
streamdedup_repeated_headers_total 3
streamdedup_duplicate_age_seconds_bucket{le="10"} 1
streamdedup_duplicate_age_seconds_bucket{le="20"} 1
streamdedup_duplicate_age_seconds_bucket{le="30"} 3
streamdedup_duplicate_age_seconds_bucket{le="80"} 3
streamdedup_duplicate_age_seconds_sum 45
streamdedup_duplicate_age_seconds_count 3
streamdedup_filter_fill_ratio{generation="0",partition="1",topic="clicks"} 0.5
streamdedup_filter_fill_ratio{generation="1",partition="1",topic="clicks"} 1
streamdedup_filter_fill_ratio{generation="7",partition="1",topic="clicks"} 0
streamdedup_filter_fpr_estimate{partition="1",topic="clicks"} 5e-05
streamdedup_filter_bytes 4096
streamdedup_filter_slabs{partition="1",topic="clicks"} 2
streamdedup_stream_time_seconds{partition="1",topic="clicks"} 1.7672256005e+09
streamdedup_window_coverage_ratio{partition="1",topic="clicks"} 0.25
streamdedup_generation_full{partition="1",topic="clicks"} 1
streamdedup_restore_progress_ratio{partition="0",topic="clicks"} 0.4
streamdedup_partition_stopped{partition="0",topic="clicks"} 0
streamdedup_partition_stopped{partition="1",topic="clicks"} 0
streamdedup_lag_records{partition="1",topic="clicks"} 42
streamdedup_input_blocked_by_open_txn{partition="1",topic="clicks"} 0
streamdedup_transactions_total{outcome="committed"} 7
streamdedup_transactions_total{outcome="aborted"} 2
streamdedup_transactions_total{outcome="lost"} 1
streamdedup_latency_seconds_count 1
streamdedup_commit_seconds_count 1
streamdedup_restore_seconds_count 1
streamdedup_checkpoint_seconds_count 1
streamdedup_checkpoint_failures_total 1
streamdedup_config_info{delivery="exactly-once",key="json:id",on_duplicate="drop",scope="partition",time="record",window="1m10s"} 1
streamdedup_missing_ratio 0.3
streamdedup_fpr_measured 0.25
streamdedup_audited_records_total 9
streamdedup_audited_new_records_total 3
streamdedup_audited_false_positives_total 1
streamdedup_id_clashes_total 2
streamdedup_hot_id_share{partition="1",topic="clicks"} 0.5
streamdedup_duplicates_not_copied_total 5
streamdedup_ahead_ratio 0
`) {
		if want != "\n" && !strings.Contains(body, "\n"+want) {
			t.Errorf("no line %s", want)
		}
	}
	for _, name := range []string{"go_goroutines", "process_cpu_seconds_total"} {
		if !strings.Contains(body, "\n"+name+" ") {
			t.Errorf("no metric %s", name)
		}
	}
	for _, its := range []string{"partition_stopped", "restore_progress_ratio"} {
		body = strings.ReplaceAll(body, its+`{partition="0"`, "")
	}
	if strings.Contains(body, `partition="0"`) {
		t.Error("a partition without its memory has figures of one")
	}
}

// What promtool says of names, help texts and types.
func TestMetricsAreIdiomatic(t *testing.T) {
	for name, m := range map[string]*Metrics{"at the start": NewMetrics(), "of an engine": watching(busy())} {
		problems, err := testutil.GatherAndLint(m.registry)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s: %s", name, p.Metric, p.Text)
		}
	}
}

// Who comes without a path is shown which there are.
func TestIndexNamesThePages(t *testing.T) {
	h := handler("", NewMetrics())
	for path, want := range map[string]int{"/": http.StatusOK, "/metric": http.StatusNotFound} {
		code, body := get(t, h, path, here)
		if code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
		for _, page := range []string{"/metrics", "/healthz", "/readyz"} {
			if !strings.Contains(body, page+"\n") {
				t.Errorf("%s does not name %s:\n%s", path, page, body)
			}
		}
	}
}

// Before there is an engine every count is there, at zero, so that rates work
// from the first scrape.
func TestMetricsBeforeThereIsAnEngine(t *testing.T) {
	h := handler("", NewMetrics())
	if code, body := get(t, h, "/metrics", here); code != http.StatusOK || !strings.Contains(body, `streamdedup_records_total{verdict="unique"} 0`) {
		t.Errorf("status %d, want 200 and counts of zero:\n%s", code, body)
	}
	if code, body := get(t, h, "/readyz", here); code != http.StatusServiceUnavailable || body != "no partition is assigned to this process yet; a member that died keeps its own until its session is over (--session-timeout)\n" {
		t.Errorf("/readyz: %d %q", code, body)
	}
	if code, _ := get(t, h, "/healthz", here); code != http.StatusOK {
		t.Errorf("/healthz: %d, want 200", code)
	}
}

func TestReadyzNamesWhatIsMissing(t *testing.T) {
	s := busy()
	h := handler("", watching(s))
	if code, body := get(t, h, "/readyz", here); code != http.StatusServiceUnavailable || body != "1 of 2 partitions are being restored: clicks/0 (40%)\n" {
		t.Errorf("/readyz: %d %q", code, body)
	}
	if _, body := get(t, h, "/healthz", here); strings.Contains(body, "partition clicks/0") {
		t.Errorf("/healthz warns of a memory that is not there yet:\n%s", body)
	}
	s.Partitions[0].Restored = true
	s.Partitions[0].Window.StreamTime = window.NoTime
	if code, body := get(t, h, "/readyz", here); code != http.StatusOK || body != "ready\n" {
		t.Errorf("/readyz: %d %q, want 200 when all have their memory", code, body)
	}
	if _, body := get(t, h, "/metrics", here); strings.Contains(body, `stream_time_seconds{partition="0"`) {
		t.Error("a partition that has read nothing has a stream time")
	}
}

// What stopped needs someone, and shows in each place that is watched. The process
// lives on, and the others work.
func TestAStoppedPartitionShows(t *testing.T) {
	s := busy()
	s.Partitions[0].Restored = true
	h := handler("", watching(s))
	for i, want := range []string{"degraded: 1 partition stopped\n", "degraded: 2 partitions stopped\n"} {
		p := s.Partitions[i].Partition
		s.Partitions[i].Stopped = &pipeline.Stop{Partition: p, Offset: 5, Reason: pipeline.ReasonLate}
		if code, body := get(t, h, "/healthz", here); code != http.StatusOK || !strings.HasPrefix(body, want) ||
			!strings.Contains(body, "\nwarning: partition "+p.String()+" stopped before offset 5: late record") {
			t.Errorf("/healthz: %d, want 200 and %q:\n%s", code, want, body)
		}
		if _, body := get(t, h, "/metrics", here); !strings.Contains(body, "\nstreamdedup_partition_stopped{partition=\""+number(p)+"\",topic=\"clicks\"} 1\n") {
			t.Errorf("no metric says that %s has stopped", p)
		}
		if code, _ := get(t, h, "/readyz", here); code != http.StatusOK {
			t.Errorf("/readyz: %d, want 200: all have their memory", code)
		}
	}
}

// A partition that goes no further although nothing has failed needs someone, too:
// the page says which one and why, and the process is no less alive.
func TestAPartitionThatStandsStillShows(t *testing.T) {
	s := busy()
	clicks := func(n int32) pipeline.Partition { return pipeline.Partition{Topic: "clicks", Number: n} }
	still := []pipeline.Standstill{
		{Partition: clicks(1), Offset: 7, For: 12 * time.Second, OpenTransaction: true},
		{Partition: clicks(2), Offset: 9, Lag: 4, For: 2 * time.Minute},
	}
	m := watching(s)
	source := *m.source.Load()
	source.Standstills = func() []pipeline.Standstill { return still }
	m.Watch(source)
	h := handler("", m)
	code, body := get(t, h, "/healthz", here)
	want := "degraded: 1 partition waiting for a transaction of another producer, 1 partition standing still\n"
	if code != http.StatusOK || !strings.HasPrefix(body, want) {
		t.Errorf("/healthz: %d, want 200 and %q:\n%s", code, want, body)
	}
	for _, want := range []string{
		"\nwarning: partition clicks/1 waits at offset 7 for a transaction of another producer, for 12s",
		"\nwarning: partition clicks/2 stands at offset 9 with 4 offsets to read, for 2m0s: nothing was committed",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/healthz does not say %q:\n%s", want, body)
		}
	}
	if _, body := get(t, h, "/metrics", here); !strings.Contains(body, "\nstreamdedup_input_blocked_by_open_txn{partition=\"1\",topic=\"clicks\"} 1\n") {
		t.Errorf("no metric says that clicks/1 is blocked:\n%s", body)
	}
}

func TestHealthzCountsInWords(t *testing.T) {
	s := busy()
	s.Partitions = s.Partitions[1:]
	if got := page("", watching(s)); !strings.Contains(got, "\nready: 1 partition\n") {
		t.Errorf("one partition is:\n%s", got)
	}
}

func TestProfilesAreForThisMachineOnly(t *testing.T) {
	h := handler("", NewMetrics())
	for from, want := range map[string]int{
		"127.0.0.1:5": http.StatusOK, "[::1]:5": http.StatusOK, "[::ffff:127.0.0.1]:5": http.StatusOK,
		"10.0.0.1:5": http.StatusForbidden, "[2001:db8::1]:5": http.StatusForbidden, "": http.StatusForbidden,
	} {
		if code, _ := get(t, h, "/debug/pprof/cmdline", from); code != want {
			t.Errorf("a caller at %q gets %d, want %d", from, code, want)
		}
	}
}

func TestServeListensAndCloses(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	s, err := Serve("127.0.0.1:0", "", NewMetrics(), log)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Serve(s.Addr(), "", NewMetrics(), log); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), s.Addr()) {
		t.Errorf("a port that is taken: error %v, want %v with the address", err, syscall.EADDRINUSE)
	}
	resp, err := http.Get("http://" + s.Addr() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.HasPrefix(string(body), "alive\n") {
		t.Errorf("/healthz: %q, %v", body, err)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("close: %v", err)
	}
	if resp, err := http.Get("http://" + s.Addr() + "/healthz"); err == nil {
		defer resp.Body.Close()
		t.Error("it answers after it was closed")
	}
}

// With --scope topic the partitions of the input show beside those between the
// stages: whether they are read, held back, or stopped.
func TestBothStagesShow(t *testing.T) {
	s := busy()
	s.Partitions = s.Partitions[1:]
	in := pipeline.Partition{Topic: "raw", Number: 3}
	routes := &pipeline.RouteSnapshot{Partitions: []pipeline.RoutedPartition{{Partition: in}}}
	m := NewMetrics()
	m.Watch(Source{
		Snapshot: func() *pipeline.Snapshot { return s }, Routes: func() *pipeline.RouteSnapshot { return routes },
		GenerationCapacity: 100, Slice: slice,
	})
	h := handler("", m)
	if code, body := get(t, h, "/readyz", here); code != http.StatusServiceUnavailable || body != "1 of 2 partitions are being restored: raw/3\n" {
		t.Errorf("/readyz: %d %q", code, body)
	}
	routes.Partitions[0] = pipeline.RoutedPartition{Partition: in, Located: true, Held: true, Time: 1_767_225_600_500}
	if code, body := get(t, h, "/readyz", here); code != http.StatusOK {
		t.Errorf("/readyz: %d %q, want 200 when both stages are there", code, body)
	}
	_, body := get(t, h, "/metrics", here)
	for _, want := range []string{
		`streamdedup_partition_held{partition="3",topic="raw"} 1`, `streamdedup_partition_stopped{partition="3",topic="raw"} 0`,
		`streamdedup_stream_time_seconds{partition="3",topic="raw"} 1.7672256005e+09`,
	} {
		if !strings.Contains(body, "\n"+want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	routes.Partitions[0].Stopped = &pipeline.Stop{Partition: in, Offset: 7, Reason: pipeline.ReasonTooLarge}
	if _, body := get(t, h, "/healthz", here); !strings.HasPrefix(body, "degraded: 1 partition stopped\n") || !strings.Contains(body, "partition raw/3 stopped before offset 7") {
		t.Errorf("/healthz does not say what stopped:\n%s", body)
	}
}
