package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/streamdedup/streamdedup/sizing"
)

// Every run line that size prints is read by run's own flags and plans the same, to
// the byte.
func TestRunLinesOfSizeMakeThePlan(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"--elements 1e9 --fpr 0.01",
		"--elements 1e9 --fpr 0.01 --layout fast --partitions 7",
		"--rate 50k --partitions 12 --instances 5",
		"--rate 80k --rate-mean 30k --unique 0.93 --headroom 25% --withheld-per-day 777 --partitions 3",
		"--rate 0.2 --window 7ms",
		"--memory 300MiB --window 7d --partitions 12 --fpr 1e-6",
		"--memory 300MiB --filter classic --peak 1.37 --skew 3",
		"--rate 1234.5 --redelivery svix",
	} {
		var size struct {
			Elements, Bytes uint64
			Partitions      int
			RunDefaults     *struct{ Bytes uint64 } `json:"run_defaults"`
		}
		if err := json.Unmarshal([]byte(sized(t, append(strings.Fields(line), "-o", "json")...)), &size); err != nil {
			t.Fatalf("size %s: %v", line, err)
		}
		text := strings.ReplaceAll(sized(t, strings.Fields(line)...), "\\\n", "")
		found := 0
		for printed := range strings.Lines(text) {
			flags, ok := strings.CutPrefix(strings.TrimSpace(printed), "streamdedup run ")
			if !ok {
				continue
			}
			found++
			want := size.Bytes
			if found == 2 {
				want = size.RunDefaults.Bytes
			}
			if plan := planOfRun(t, flags, size.Partitions); plan.Bytes != want || plan.Elements != size.Elements {
				t.Errorf("size %s: run %s plans %d bytes for %d IDs, want %d for %d", line, flags, plan.Bytes, plan.Elements, want, size.Elements)
			}
		}
		if want := 1; found != want && size.RunDefaults == nil || found != 2 && size.RunDefaults != nil {
			t.Errorf("size %s prints %d lines of run:\n%s", line, found, text)
		}
	}
}

// planOfRun reads flags as run does, and refuses what it would.
func planOfRun(t *testing.T, flags string, partitions int) sizing.Plan {
	t.Helper()
	s, fs := defaultRun(), pflag.NewFlagSet("run", pflag.ContinueOnError)
	s.bind(fs)
	if err := fs.Parse(strings.Fields(flags)); err != nil {
		t.Fatalf("run %s: %v", flags, err)
	}
	if err := s.check(); err != nil {
		t.Fatalf("run %s: %v", flags, err)
	}
	plan, err := s.plan(partitions)
	if err != nil {
		t.Fatalf("run %s: %v", flags, err)
	}
	return plan
}

// sized runs size and returns what it prints.
func sized(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := exec("", append([]string{"size"}, args...)...)
	if code != exitOK {
		t.Fatalf("size %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// Of what programs read nothing is null but what was not asked for.
func TestSizeKnowsEveryFigure(t *testing.T) {
	t.Parallel()
	var members map[string]any
	if err := json.Unmarshal([]byte(sized(t, "--rate", "50k", "--partitions", "4", "--instances", "2", "--redelivery", "sqs", "--peak", "3", "-o", "json")), &members); err != nil {
		t.Fatal(err)
	}
	for name, value := range members {
		if value == nil {
			t.Errorf("%s is null", name)
		}
	}
}
