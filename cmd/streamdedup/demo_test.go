package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/bench"
	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// object reads a report.
func object(t *testing.T, stdout string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(stdout), &o); err != nil {
		t.Fatalf("stdout is no JSON: %v\n%s", err, stdout)
	}
	return o
}

func TestDemo(t *testing.T) {
	f := func(want map[string]any, args ...string) {
		t.Helper()
		code, stdout, stderr := exec("", append([]string{"demo", "-o", "json", "--records", "20k", "--partitions", "3"}, args...)...)
		if code != exitOK || stderr != "" {
			t.Fatalf("%v: exit code %d, stderr:\n%s", args, code, stderr)
		}
		got := object(t, stdout)
		for name, v := range want {
			if got[name] != v {
				t.Errorf("%v: %s is %v, want %v", args, name, got[name], v)
			}
		}
		if got["events_per_second"].(float64) <= 0 || got["memory_bytes"].(float64) <= 0 {
			t.Errorf("%v: nothing was measured: %v", args, got)
		}
	}
	exact := map[string]any{
		"ok": true, "in": 20_000.0, "unique": 18_000.0, "duplicate": 2_000.0, "missed_duplicates": 0.0, "withheld": 0.0, "lost": 0.0,
	}
	f(exact, "--fpr", "1e-6")
	f(exact, "--fpr", "1e-6", "--workload", "telemetry", "--seed", "9", "--filter", "classic")
}

func TestDemoFailsWhereTheFilterIsTooSmall(t *testing.T) {
	code, stdout, stderr := exec("", "demo", "--records", "20k", "--capacity", "1k")
	if code != exitFailed || !strings.Contains(stdout, "audit: FAILED") || !strings.Contains(stdout, "missed") {
		t.Errorf("exit code %d, stdout:\n%s", code, stdout)
	}
	if !strings.Contains(stderr, "duplicates inside the window came out") || !strings.Contains(stderr, "hint: ") || !strings.Contains(stderr, "--capacity") {
		t.Errorf("stderr does not say what to do:\n%s", stderr)
	}
}

func TestDemoRefuses(t *testing.T) {
	for _, args := range [][]string{{"--records", "0"}, {"--window", "3ms"}, {"--fpr", "2"}, {"--workload", "orders"}, {"--partitions", "5000"}, {"extra"}} {
		if code, _, stderr := exec("", append([]string{"demo"}, args...)...); code != exitUsage {
			t.Errorf("%v: exit code %d, want 2; stderr:\n%s", args, code, stderr)
		}
	}
}

func TestVerify(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in, out := kafkatest.Topic(t, brokers, 2, nil), kafkatest.Topic(t, brokers, 2, nil)
	verify := func(more ...string) (int, string, string) {
		return exec("", append([]string{"verify", "--brokers", strings.Join(brokers, ","), "--in", in, "--out", out, "--key", "json:id"}, more...)...)
	}
	finding := func(o map[string]any, name string) float64 { return o[name].(map[string]any)["count"].(float64) }

	// Partition 0 has a a b, partition 1 has c d.
	a, b, c, d := `{"id":"a"}`, `{"id":"b"}`, `{"id":"c"}`, `{"id":"d"}`
	produce(t, brokers, in, 2, a, c, a, d, b)
	s := defaultRun()
	s.brokers, s.in, s.out, s.group, s.instance, s.keys, s.capacity = brokers, []string{in}, out, "g", "i", []string{"json:id"}, 1000
	broker, err := bench.ConnectBroker(brokers)
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	if _, err := processed(t.Context(), broker, s, in, nil); err != nil {
		t.Fatal(err)
	}

	code, stdout, stderr := verify("-o", "json")
	if o := object(t, stdout); code != exitOK || o["ok"] != true || o["in"] != 5.0 || o["unique"] != 4.0 || o["duplicate"] != 1.0 {
		t.Errorf("exit code %d, stderr %q, report:\n%s", code, stderr, stdout)
	}
	// A wrong --key makes other verdicts right.
	if code, stdout, _ = verify("--key", "key", "-o", "json"); code != exitFailed || finding(object(t, stdout), "lost") != 1 {
		t.Errorf("without IDs: exit code %d, report:\n%s", code, stdout)
	}
	// Too much for the memory.
	if code, _, stderr = verify("--max-records", "2"); code != exitFailed || !strings.Contains(stderr, "hint: raise --max-records") {
		t.Errorf("over the limit: exit code %d, stderr:\n%s", code, stderr)
	}

	produce(t, brokers, out, 2, `{"id":"x"}`)
	code, stdout, stderr = verify("-o", "json")
	if code != exitFailed || finding(object(t, stdout), "foreign") != 1 || !strings.Contains(stderr, "not in the input") {
		t.Errorf("with a foreign record: exit code %d, stderr %q, report:\n%s", code, stderr, stdout)
	}
	code, stdout, _ = verify()
	if code != exitFailed || !strings.Contains(stdout, "at partition 0 out ") {
		t.Errorf("the text names no place:\n%s", stdout)
	}
}

func TestVerifyRefuses(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		if code, _, stderr := exec("", append([]string{"verify"}, args...)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, stderr:\n%swant 2 and %q", args, code, stderr, want)
		}
	}
	f("--brokers is required")
	f("--key is required", "--brokers", "x:1", "--in", "a", "--out", "b")
	f("are both \"a\"", "--brokers", "x:1", "--in", "a", "--out", "a", "--key", "key")
	f("--time none", "--brokers", "x:1", "--in", "a", "--out", "b", "--key", "key", "--time", "none")
	f("--key:", "--brokers", "x:1", "--in", "a", "--out", "b", "--key", "nosuch:")
	f("--max-records", "--brokers", "x:1", "--in", "a", "--out", "b", "--key", "key", "--max-records", "1e12")
}

func TestBenchKafka(t *testing.T) {
	args := []string{"bench", "kafka", "--records", "5k", "--pairs", "1", "--capacity", "100k", "-o", "json"}
	bench := func(more ...string) map[string]any {
		t.Helper()
		code, stdout, stderr := exec("", append(args, more...)...)
		if code != exitOK {
			t.Fatalf("%v: exit code %d, stderr:\n%s", more, code, stderr)
		}
		return object(t, stdout)
	}
	o := bench("--partitions", "2")
	cases := o["cases"].([]any)
	if c := cases[0].(map[string]any); o["embedded_broker"] != true || len(cases) != 1 || c["cpu_ratio_to_plain_copy"].(float64) <= 0 || len(c["results"].([]any)) != 7 {
		t.Errorf("the report is: %v", o)
	}
	svg := filepath.Join(t.TempDir(), "latency.svg")
	o = bench("--partitions", "1", "--commit-interval", "20ms,100ms", "--latency", "300ms", "--rate", "2000", "--plot", svg)
	if cases = o["cases"].([]any); len(cases) != 2 {
		t.Fatalf("%d cases: %v", len(cases), o)
	}
	for _, c := range cases {
		for _, r := range c.(map[string]any)["results"].([]any) {
			r := r.(map[string]any)
			if l, ok := r["latency"].(map[string]any); !ok || l["p50_ms"].(float64) <= 0 || l["records"].(float64) < 100 {
				t.Errorf("the latency of %v is %v", r["name"], r["latency"])
			}
		}
	}
	if b, err := os.ReadFile(svg); err != nil || !strings.Contains(string(b), "ms between commits") {
		t.Errorf("the drawing is %q, error %v", b, err)
	}
}

func TestBenchEngine(t *testing.T) {
	args := []string{"bench", "engine", "--memory", "1MiB", "--fpr", "1%", "--layout", "fast", "--events", "20k"}
	code, stdout, stderr := exec("", append(args, "-o", "json")...)
	if code != exitOK {
		t.Fatalf("exit code %d, stderr:\n%s", code, stderr)
	}
	o := object(t, stdout)
	if len(o["results"].([]any)) != 3 || len(o["growing"].([]any)) != 1 || !strings.Contains(o["command"].(string), "streamdedup bench engine --memory 1MiB --fpr 0.01 --layout fast --events 20,000") {
		t.Errorf("the report is:\n%s", stdout)
	}
	if code, stdout, _ = exec("", append(args, "--filter", "sliced")...); code != exitOK || !strings.Contains(stdout, "sliced fast, growing, slabs added: ") || strings.Contains(stdout, "classic") {
		t.Errorf("exit code %d, the text is:\n%s", code, stdout)
	}
	if code, _, _ = exec("", "bench", "engine", "--memory", "1KiB"); code != exitUsage {
		t.Errorf("exit code %d for a filter of 1 KiB, want 2", code)
	}
}

// A range of the input is audited against the whole output: what may be a copy
// of something before it is excused, and output outside of it is not foreign.
func TestVerifyRange(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in, out := kafkatest.Topic(t, brokers, 1, nil), kafkatest.Topic(t, brokers, 1, nil)
	cl := client(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	begin := time.Now().Add(-10 * time.Hour).Truncate(time.Hour)
	write := func(topic string, hour float64, id string) {
		t.Helper()
		r := &kgo.Record{Topic: topic, Key: []byte(id), Timestamp: begin.Add(time.Duration(hour * float64(time.Hour)))}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []struct {
		hour float64
		id   string
		out  bool
	}{{0, "a", true}, {0.1, "b", true}, {1, "a", false}, {1.1, "c", true}, {1.2, "c", false}, {5, "d", true}, {6, "e", true}} {
		write(in, r.hour, r.id)
		if r.out {
			write(out, r.hour, r.id)
		}
	}
	at := func(hour float64) string {
		return begin.Add(time.Duration(hour * float64(time.Hour))).UTC().Format(time.RFC3339)
	}
	verify := func(more ...string) (int, map[string]any) {
		t.Helper()
		code, stdout, stderr := exec("", append([]string{"verify", "--brokers", strings.Join(brokers, ","), "--in", in, "--out", out,
			"--key", "key", "--window", "2h", "--fpr", "1e-9", "-o", "json"}, more...)...)
		if stdout == "" {
			t.Fatalf("no report, stderr:\n%s", stderr)
		}
		return code, object(t, stdout)
	}
	if code, o := verify(); code != exitOK || o["in"] != 7.0 || o["duplicate"] != 2.0 {
		t.Errorf("whole: exit code %d, report %v", code, o)
	}
	code, o := verify("--from", at(0.5), "--to", at(5.5))
	if code != exitOK || o["in"] != 4.0 || o["unique"] != 2.0 || o["duplicate"] != 1.0 || o["excused"] != 1.0 || o["outside"] != 3.0 {
		t.Errorf("range: exit code %d, report %v", code, o)
	}
}
