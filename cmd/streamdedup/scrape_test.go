package main

import (
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// families are metrics by name, as Prometheus reads them.
type families map[string]*dto.MetricFamily

// scrape asks a running process as Prometheus does.
func scrape(t *testing.T, address string) families {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	f, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatalf("Prometheus cannot read what is served: %v", err)
	}
	return f
}

// sum adds up the metrics of a name that have all the labels, given as "name=value".
func (f families) sum(name string, labels ...string) (sum float64) {
	for _, m := range f[name].GetMetric() {
		has := map[string]bool{}
		for _, l := range m.GetLabel() {
			has[l.GetName()+"="+l.GetValue()] = true
		}
		if !slices.ContainsFunc(labels, func(l string) bool { return !has[l] }) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// values are those of a label, in order.
func (f families) values(name, label string) []string {
	found := map[string]bool{}
	for _, m := range f[name].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == label {
				found[l.GetValue()] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// shapes are the metrics of ours by name and labels, with their types.
func (f families) shapes() map[string]dto.MetricType {
	shapes := map[string]dto.MetricType{}
	for name, family := range f {
		if !strings.HasPrefix(name, "streamdedup_") {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
			shapes[shape(name, labels)] = family.GetType()
		}
	}
	return shapes
}

// shape is a name with the names of its labels, in order.
func shape(name string, labels []string) string {
	if len(labels) == 0 {
		return name
	}
	return name + "{" + strings.Join(slices.Sorted(slices.Values(labels)), ",") + "}"
}

// awaitCounted returns once so many records are committed and counted.
func awaitCounted(t *testing.T, address string, records float64) families {
	t.Helper()
	for {
		if f := scrape(t, address); f.sum("streamdedup_records_total") >= records {
			return f
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%v records are not counted", records)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// contract are the metrics that dashboards depend on: by name, labels and type none of
// them ever changes.
var contract = map[string]dto.MetricType{
	"streamdedup_records_total{verdict}":                        dto.MetricType_COUNTER,
	"streamdedup_fate_total{fate}":                              dto.MetricType_COUNTER,
	"streamdedup_marks_total{mark}":                             dto.MetricType_COUNTER,
	"streamdedup_duplicate_age_seconds":                         dto.MetricType_HISTOGRAM,
	"streamdedup_filter_fill_ratio{generation,partition,topic}": dto.MetricType_GAUGE,
	"streamdedup_filter_fpr_estimate{partition,topic}":          dto.MetricType_GAUGE,
	"streamdedup_filter_bytes":                                  dto.MetricType_GAUGE,
	"streamdedup_stream_time_seconds{partition,topic}":          dto.MetricType_GAUGE,
	"streamdedup_window_coverage_ratio{partition,topic}":        dto.MetricType_GAUGE,
	"streamdedup_lag_records{partition,topic}":                  dto.MetricType_GAUGE,
	"streamdedup_latency_seconds":                               dto.MetricType_HISTOGRAM,
	"streamdedup_transactions_total{outcome}":                   dto.MetricType_COUNTER,
	"streamdedup_commit_seconds":                                dto.MetricType_HISTOGRAM,
	"streamdedup_restore_seconds":                               dto.MetricType_HISTOGRAM,
	"streamdedup_generation_full{partition,topic}":              dto.MetricType_GAUGE,
	"streamdedup_filter_slabs{partition,topic}":                 dto.MetricType_GAUGE,
}

// tableFor is a table of docs/OPERATING.md, by its head.
func tableFor(t *testing.T, head string) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(doc), head+"\n")
	if !found {
		t.Fatalf("docs/OPERATING.md has no table %s", head)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	return table
}

// documented are the metrics that docs/OPERATING.md has, in the form of shape.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	shapes := map[string]bool{}
	metric := regexp.MustCompile("`(streamdedup_\\w+)(?:\\{([\\w,]+)\\})?`")
	for _, m := range metric.FindAllStringSubmatch(tableFor(t, "| metric | says |"), -1) {
		shapes[shape(m[1], strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' }))] = true
	}
	return shapes
}

// explained are the checks that it has.
func explained(t *testing.T) (checks []string) {
	t.Helper()
	for row := range strings.Lines(tableFor(t, "| check | finds |")) {
		names, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		for _, name := range strings.Split(names, ", ") {
			if bare := strings.Trim(name, "`"); bare != name {
				checks = append(checks, bare)
			}
		}
	}
	return checks
}

// A scrape has what docs/OPERATING.md says, no more and no less, and what dashboards
// depend on with the labels and the types that they know.
func TestAScrapeHasWhatTheDocsSay(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 2, nil)
	produce(t, brokers, in, 2, `{"id":1}`, `{"id":2}`, `{"id":1}`, `{"id":3}`)
	// Only while a restore is under way, which here is a moment.
	seen := map[string]dto.MetricType{"streamdedup_restore_progress_ratio{partition,topic}": dto.MetricType_GAUGE}
	for _, scope := range []string{"partition", "topic"} {
		p := start(t, runArgs(brokers, in, in+"-"+scope, "--scope", scope)...)
		address := p.line(t, `serving metrics.* address=(\S+)`)
		f := awaitCounted(t, address, 4)
		shapes := f.shapes()
		maps.Copy(seen, shapes)
		for want, kind := range contract {
			if got, ok := shapes[want]; !ok || got != kind {
				t.Errorf("scope %s: no %v %s", scope, kind, want)
			}
		}
		for name, values := range map[string][]string{
			"records_total verdict": {"duplicate", "invalid", "missing", "unique"}, "fate_total fate": {"diverted", "dropped", "out"},
			"marks_total mark":           {"ahead", "jump", "late", "no_time", "retimed", "unlearned"},
			"transactions_total outcome": {"aborted", "committed", "lost"},
			"health_warning check":       slices.Sorted(slices.Values(explained(t))),
		} {
			name, label, _ := strings.Cut(name, " ")
			if got := f.values("streamdedup_"+name, label); !slices.Equal(got, values) {
				t.Errorf("%s of %s are %v, want %v", label, name, got, values)
			}
		}
		if code := p.end(); code != exitOK {
			t.Fatalf("exit code %d after a stop, want 0", code)
		}
	}
	docs := documented(t)
	for name := range docs {
		if _, ok := seen[name]; !ok {
			t.Errorf("docs/OPERATING.md has %s, a scrape does not", name)
		}
	}
	for name := range seen {
		if !docs[name] {
			t.Errorf("a scrape has %s, docs/OPERATING.md does not", name)
		}
	}
}
