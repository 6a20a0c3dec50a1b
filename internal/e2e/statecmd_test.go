//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// state runs a command on the state of the scene's group, and returns what it
// printed.
func (s *scene) state(code int, command string, more ...string) (stdout, stderr string) {
	s.t.Helper()
	args := []string{"state", command, "--brokers", strings.Join(s.brokers, ","), "--group", s.group, "--in", s.in}
	p := start(s.t, append(args, more...)...)
	_ = p.wait() // the code says it
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		s.t.Fatalf("state %s %v: exit code %d, want %d; stderr:\n%s", command, more, got, code, &p.stderr)
	}
	return p.stdout.String(), p.stderr.String()
}

// TestStateCommands: what a group remembers is looked at while it runs, dropped so
// that it comes out again, and carried over to another group: duplicates of what is
// carried over are caught there, and first copies come out.
func TestStateCommands(t *testing.T) {
	s := newScene(t, 3, nil, nil)
	dir := t.TempDir()
	s.flags["hash-seed"], s.flags["state-dir"], s.flags["checkpoint-interval"] = "5", dir, "100ms"
	d := s.run()
	old := series("old", 200)
	for p := range s.partitions {
		s.ids(p, append(old, old[:50]...)...)
	}
	s.caughtUp(d)
	inspect := func() (committed []int64, checkpoints int) {
		out, _ := s.state(0, "inspect", "--count", "--state-dir", dir, "-o", "json")
		var report struct {
			Members    []struct{ Instance string }
			Partitions []struct {
				Committed *int64
				Restore   string
				State     struct {
					Generations []struct{ Added uint64 }
				}
			}
			Checkpoints []struct{ Refused string }
		}
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
		for i, p := range report.Partitions {
			committed = append(committed, *p.Committed)
			var added uint64
			for _, g := range p.State.Generations {
				added += g.Added
			}
			if added != 200 || p.Restore != "from the changelog, up to the committed offset" {
				t.Errorf("partition %d holds %d IDs, want 200, and would be restored %s", i, added, p.Restore)
			}
		}
		for _, c := range report.Checkpoints {
			if c.Refused != "" {
				t.Errorf("a checkpoint is refused: %s", c.Refused)
			}
		}
		return committed, len(report.Checkpoints)
	}
	await(t, "checkpoints of all partitions", func() bool {
		committed, checkpoints := inspect()
		if want := []int64{250, 250, 250}; !slices.Equal(committed, want) {
			t.Fatalf("committed are %v, want %v", committed, want)
		}
		return checkpoints >= 3
	}, d.done)
	if _, stderr := s.state(1, "reset", "--yes"); !strings.Contains(stderr, "has 1 member: a (") {
		t.Errorf("a reset beside a running member says:\n%s", stderr)
	}
	d.stop()

	file := filepath.Join(t.TempDir(), "seen.ndjson")
	s.state(0, "export", "-o", file)
	if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), "\n") != 601 {
		t.Errorf("the export has %d lines, %v; want 601", strings.Count(string(text), "\n"), err)
	}

	// Partition 1 alone comes out again from record 100 on, then all from the start.
	s.state(0, "reset", "--yes", "--state-dir", dir, "--replay", "1:100")
	d = s.run()
	for _, id := range append(slices.Clone(old[100:]), old[:50]...) {
		s.expectAgain(1, fmt.Sprintf(`{"id":%q}`, id))
	}
	s.caughtUp(d)
	d.stop()
	s.check()
	s.state(0, "reset", "--yes", "--state-dir", dir)
	d = s.run()
	for p := range s.partitions {
		for _, id := range old {
			s.expectAgain(p, fmt.Sprintf(`{"id":%q}`, id))
		}
	}
	s.caughtUp(d)
	d.stop()
	s.check()

	to := newScene(t, 3, nil, nil)
	to.flags["hash-seed"], to.flags["state-dir"] = "5", "off"
	to.state(1, "import", "--key", "json:id", "--window", "1h", file) // another seed
	if _, stderr := to.state(0, "import", "--key", "json:id", "--window", "1h", "--hash-seed", "5", file); !strings.Contains(stderr, "600 IDs taught to 3 partitions") {
		t.Errorf("the import says:\n%s", stderr)
	}
	d = to.run()
	for p := range to.partitions {
		for _, id := range old {
			to.write(event(p, id)) // none comes out
		}
		to.ids(p, series("new", 20)...)
	}
	to.caughtUp(d)
	d.stop()
	to.check()
}
