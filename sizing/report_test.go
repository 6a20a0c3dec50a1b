package sizing

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

func report(t *testing.T, w Workload) Report {
	t.Helper()
	r, err := NewReport(solve(t, w), Deployment{})
	if err != nil {
		t.Fatalf("NewReport(%+v): %v", w, err)
	}
	return r
}

// Programs read these members; their names and their nulls stay.
func TestReport_JSON(t *testing.T) {
	text, err := json.Marshal(report(t, billion))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	near := func(name string, want, within float64) {
		t.Helper()
		if v, ok := got[name].(float64); !ok || math.Abs(v-want) > within {
			t.Errorf("%s is %v, want %g", name, got[name], want)
		}
	}
	is := func(name string, want any) {
		t.Helper()
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	is("elements", 1e9)
	is("fpr", 0.01)
	is("window", "24h")
	near("rate", 11574.07, 0.01)
	is("generations", 8.0)
	near("classic_bits_per_element", 9.585, 0.0005)
	near("classic_bytes", 1198132297, 2)
	is("classic_hashes", 7.0)
	near("bits_per_element", 16.9, 0.1)
	near("bytes", 16.9e9/8, 0.1e9/8)
	is("layout", "compact")
	is("lines_per_lookup", 3.0)
	near("expected_false_positives_per_day", 1e7, 10)
	near("changelog_bytes_per_day", 8e9+300*5*86400, 1)
	near("process_bytes", 2.75e9, 0.1e9)
	near("process_bytes", got["process"].(map[string]any)["filters"].(float64)+6e8, 1e8)
	is("process_bytes_one_instance_lost", nil)
	is("process_bytes_grown", nil) // there is no reserve to grow from
	is("run_flags", "--capacity 1000000000 --window 24h --fpr 0.01 --peak 1 --skew 1 --on-full pass")
	is("instances", 1.0)
	is("partitions", 1.0)
	is("bytes_per_partition", got["bytes"])
	is("peak", 1.0)
	is("skew", 1.0)
	is("filter", "sliced")
	is("generation_capacity", 142_857_143.0)
	if n := len(got["windowed"].([]any)); n != 3 {
		t.Errorf("%d windowed designs, want 3", n)
	}
	if got["run_defaults"] == nil {
		t.Error("the plan of run is missing")
	}
}

// The plan is among the designs it is compared with, to the byte.
func TestReport_ComparesThePlan(t *testing.T) {
	for _, kind := range []Kind{Sliced, Classic} {
		for _, layout := range []filter.Layout{filter.Compact, filter.Fast} {
			w := billion
			w.Kind, w.Layout, w.Partitions = kind, layout, 7
			r := report(t, w)
			found := 0
			for _, one := range r.Windowed {
				if r.isPlan(one) {
					found++
					if one.Bytes != r.Bytes || one.BitsPerElement != r.BitsPerElement || one.LinesPerLookup != r.LinesPerLookup {
						t.Errorf("%v %v: compared as %+v, planned as %+v", kind, layout, one, r)
					}
				}
			}
			if found != 1 {
				t.Errorf("%v %v: the plan is %d times in %+v", kind, layout, found, r.Windowed)
			}
		}
	}
}

// What a grown process takes is what its filters may take, and the rest.
func TestReport_Grown(t *testing.T) {
	w := billion
	w.Peak, w.Partitions = DefaultPeak, 4
	r := report(t, w)
	if r.ProcessBytesGrown == nil || *r.ProcessBytesGrown <= r.ProcessBytes || *r.ProcessBytesGrown-r.ProcessBytes > r.Bytes {
		t.Errorf("grown %v, planned %d, the limit is twice %d", r.ProcessBytesGrown, r.ProcessBytes, r.Bytes)
	}
	if strings.Contains(r.RunFlags, "on-full") {
		t.Errorf("a plan with reserve runs as it does by default, not with %s", r.RunFlags)
	}
	w.Kind = Classic
	if r = report(t, w); r.ProcessBytesGrown != nil {
		t.Error("a ring grows")
	}
}

func TestReport_RunDefaults(t *testing.T) {
	w := billion
	w.Partitions = 12
	r := report(t, w)
	d := r.RunDefaults
	if d == nil || d.Peak != DefaultPeak || d.Skew != DefaultSkew {
		t.Fatalf("defaults of run are %+v", d)
	}
	if ratio := float64(d.Bytes) / float64(r.Bytes); math.Abs(ratio-2.5) > 1e-3 {
		t.Errorf("run takes %g times as much", ratio)
	}
	w.Partitions = 1
	if r = report(t, w); math.Abs(float64(r.RunDefaults.Bytes)/float64(r.Bytes)-2) > 1e-3 {
		t.Errorf("with one partition run takes %d bytes, the bare plan %d", r.RunDefaults.Bytes, r.Bytes)
	}
	w.Peak, w.Skew = DefaultPeak, DefaultSkew
	if r = report(t, w); r.RunDefaults != nil {
		t.Errorf("the plan of run is compared with itself: %+v", r.RunDefaults)
	}
}

// workloadOf reads the flags of a run line as run does, for a topic of so many
// partitions.
func workloadOf(t *testing.T, flags string, partitions int) Workload {
	t.Helper()
	w := Workload{
		Window: 24 * time.Hour, FPR: 0.0001,
		Peak: DefaultPeak, Skew: DefaultSkew, Partitions: partitions,
	}
	words := strings.Fields(flags)
	for i := 0; i+1 < len(words); i += 2 {
		var err error
		switch value := words[i+1]; words[i] {
		case "--capacity":
			w.Elements, err = ParseCount(value)
		case "--window":
			w.Window, err = ParseWindow(value)
		case "--fpr":
			w.FPR, err = ParseRatio(value)
		case "--peak":
			w.Peak, err = strconv.ParseFloat(value, 64)
		case "--skew":
			w.Skew, err = strconv.ParseFloat(value, 64)
		case "--filter":
			w.Kind, err = ParseKind(value)
		case "--on-full": // it says nothing of the plan
		case "--layout":
			w.Layout, err = filter.ParseLayout(value)
		default:
			err = errors.New("unknown flag")
		}
		if err != nil {
			t.Fatalf("%s in %q: %v", words[i], flags, err)
		}
	}
	return w
}

// The run line makes exactly the plan it stands beside.
func TestRunFlags_MakeThePlan(t *testing.T) {
	r := newRand(t)
	for i := range 200 {
		w := randomWorkload(r)
		w.Kind %= Single
		if i%2 == 0 {
			w.Peak, w.Skew = 1, 1
		}
		if i%3 == 0 {
			w.Rate, w.Elements = float64(w.Elements)/w.Window.Seconds(), 0
		}
		p := solve(t, w)
		run := solve(t, workloadOf(t, p.RunFlags(), w.Partitions))
		p.Workload, run.Workload = Workload{}, Workload{}
		if run != p {
			t.Errorf("run %s plans %+v, want %+v", p.RunFlags(), run, p)
		}
	}
	if got, want := solve(t, billion).RunFlags(), "--capacity 1000000000 --window 24h --fpr 0.01 --peak 1 --skew 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// failing is a writer on a full disk.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestReport_WriteText(t *testing.T) {
	w := billion
	w.Partitions, w.FPR = 12, 1e-6
	r := report(t, w)
	r.ChangelogBytesADay, r.ProcessBytes = 3e9, 9e9
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"at most 1 in 1,000,000 of", "each of 12 partitions", "3.00 GB (2.79 GiB) a day", "9.00 GB (8.38 GiB)",
		"2.5 times as much", exampleRun + " \\\n    " + r.RunFlags + "\n", exampleRun + " \\\n    " + r.RunDefaults.RunFlags + "\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("text lacks %q:\n%s", want, b.String())
		}
	}
	for line := range strings.Lines(b.String()) {
		if trimmed := strings.TrimRight(line, " \n"); trimmed+"\n" != line {
			t.Errorf("line ends in spaces: %q", line)
		}
	}
	if err := r.WriteText(failing{}); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("write error is lost: %v", err)
	}
}

func TestSmallRatesAreOneInSoMany(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{percent(0), "0%"}, {percent(0.125), "12.5%"}, {percent(1e-4), "0.01%"}, {percent(9e-5), "1 in 11,110"}, {percent(3.41e-8), "1 in 29,330,000"},
		{daily(0), "0 a day"}, {daily(10_000_000), "10,000,000 a day"}, {daily(0.01), "0.01 a day"}, {daily(0.0002874), "1 in 3,479 days"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}
