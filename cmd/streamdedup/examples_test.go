package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// policyExample is what becomes of the events of a policy's example.
type policyExample struct {
	events string
	// out are the events that survive; stopped says that it ends before the next.
	out     string
	stopped bool
	// aside is the file or topic that has the rest, if one is named.
	aside, rest string
}

// policyExamples has the events for each policy, by its flag. Without the flag another
// part of them would survive.
func policyExamples() map[string]policyExample {
	ids := func(from, to int) string {
		var b strings.Builder
		for id := from; id <= to; id++ {
			fmt.Fprintf(&b, "{\"id\":%d}\n", id)
		}
		return b.String()
	}
	const first, second = "{\"id\":1,\"at\":1700000000}\n", "{\"id\":2,\"at\":1700000001}\n"
	const minutes40, minutes90 = "{\"id\":1,\"at\":1700002400}\n", "{\"id\":1,\"at\":1700005400}\n"
	const late, broken = "{\"id\":3,\"at\":1600000000}\n", "{\"id\":\n"
	return map[string]policyExample{
		"on-missing":   {events: first + "{\"n\":1}\n" + second, out: first + second},
		"on-invalid":   {events: first + broken + second, out: first + second, aside: "broken", rest: broken},
		"on-late":      {events: first + late + second, out: first + second},
		"on-duplicate": {events: first + second + first, out: first + second + first, aside: "seen", rest: first},
		"on-full":      {events: ids(1, 5000), out: ids(1, 1000), stopped: true},
		"refresh":      {events: first + minutes40 + minutes90, out: first},
	}
}

// exampleOf is the one line among the examples of a command that shows the flag.
func exampleOf(t *testing.T, cmd *cobra.Command, flag string) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(cmd.Example) {
		if slices.Contains(strings.Fields(line), "--"+flag) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if len(lines) != 1 {
		t.Fatalf("the help of %s has %d examples of --%s, want 1: %q", cmd.Name(), len(lines), flag, lines)
	}
	return lines[0]
}

// oneLineEach checks that the help says in one line what each policy does.
func oneLineEach(t *testing.T, cmd *cobra.Command, flag string) {
	t.Helper()
	said := 0
	lines := strings.Split(cmd.Long, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  --"+flag+" ") {
			said++
			if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "   ") {
				t.Errorf("the help of %s goes on about --%s in another line", cmd.Name(), flag)
			}
		}
	}
	if said != 1 {
		t.Errorf("the help of %s has %d lines on --%s, want 1", cmd.Name(), said, flag)
	}
}

// TestExamplesOfFilterPolicies runs the examples of the help as they stand there.
func TestExamplesOfFilterPolicies(t *testing.T) {
	for flag, x := range policyExamples() {
		cmd := newFilterCmd(&app{})
		oneLineEach(t, cmd, flag)
		line := exampleOf(t, cmd, flag)
		var b strings.Builder
		if x.stopped {
			b.WriteString("! ")
		}
		fmt.Fprintf(&b, "%s\ncmp stdout want\n", line)
		if x.aside != "" {
			fmt.Fprintf(&b, "cmp %s.ndjson rest\n", x.aside)
		}
		fmt.Fprintf(&b, "-- events.ndjson --\n%s-- want --\n%s-- rest --\n%s", x.events, x.out, x.rest)
		path := filepath.Join(t.TempDir(), flag+".txtar")
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		script(t, testscript.Params{Files: []string{path}})
	}
}

// TestExamplesOfRunPolicies runs those of run, each with a broker of its own, on which
// the topics are called as in the example.
func TestExamplesOfRunPolicies(t *testing.T) {
	for flag, x := range policyExamples() {
		t.Run(flag, func(t *testing.T) {
			cmd := newRunCmd(&app{})
			oneLineEach(t, cmd, flag)
			line := exampleOf(t, cmd, flag)
			brokers := kafkatest.Fake(t).ListenAddrs()
			in := kafkatest.Topic(t, brokers, 1, nil)
			events := strings.Split(strings.TrimSuffix(x.events, "\n"), "\n")
			produce(t, brokers, in, 1, events...)
			t.Chdir(t.TempDir())
			config := fmt.Sprintf("brokers: %s\nin: %s\nout: clicks-unique\ncreate-topics: true\ngroup: dedup\ninstance: a\nkey: json:id\nwindow: 1h\n"+
				"capacity: 100\nmetrics-addr: 127.0.0.1:0\nstate-dir: off\nsummary: json\n", strings.Join(brokers, ","), in)
			if err := os.WriteFile("clicks.yaml", []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			p := start(t, strings.Fields(line)[1:]...)
			if x.stopped {
				// Before it has all, and by itself: there is no other partition to go on with.
				code := <-p.code
				m := regexp.MustCompile(`level=ERROR .* offset=(\d+) reason=.*full`).FindStringSubmatch(p.stderr.String())
				if m == nil {
					t.Fatalf("exit code %d without a partition that stopped", code)
				}
				n, err := strconv.Atoi(m[1])
				if err != nil || n < 1 || n >= len(events) {
					t.Fatalf("stopped after %d of %d events: %v", n, len(events), err)
				}
				if out := consume(t, brokers, "clicks-unique", n); code != exitFailed || !slices.Equal(out, events[:n]) {
					t.Errorf("exit code %d, out %q, want the %d events before the filter was full", code, out, n)
				}
				return
			}
			awaitCounted(t, p.line(t, `serving metrics.* address=(\S+)`), float64(len(events)))
			code := p.end()
			sum := lastSummary(t, p)
			out := consume(t, brokers, "clicks-unique", int(sum.Out))
			if code != exitOK || strings.Join(out, "\n")+"\n" != x.out {
				t.Errorf("exit code %d, out %q, want %q", code, out, x.out)
			}
			if x.aside != "" {
				if rest := consume(t, brokers, "clicks-"+x.aside, strings.Count(x.rest, "\n")); strings.Join(rest, "\n")+"\n" != x.rest {
					t.Errorf("aside %q, want %q", rest, x.rest)
				}
			}
		})
	}
}
