package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// aged is a group that has known an ID of each sixth of a day for a day: id0 is
// the newest, id6 was seen 24 hours ago.
func aged(t *testing.T, more ...string) *remembering {
	t.Helper()
	r := newRemembering(t, 1)
	var lines strings.Builder
	for n := range 7 {
		fmt.Fprintf(&lines, `{"id":"id%d","partition":0,"time":%d}`+"\n", n, r.at.Add(-time.Duration(n)*4*time.Hour).UnixMilli())
	}
	r.must(lines.String(), "import", append(more, "--key", "json:id")...)
	r.write(0, "begun")
	r.run(more...)
	return r
}

// A longer window knows what the shorter one did, and says how much that is until
// it is full. A shorter one forgets what is older.
func TestWindowIsChangedAtARestart(t *testing.T) {
	all := []string{"id0", "id1", "id2", "id3", "id4", "id5", "id6"}
	t.Run("longer", func(t *testing.T) {
		r := aged(t)
		r.write(0, append(all, "new")...)
		said := r.run("--window", "48h")
		for _, want := range []string{"the window has another length: what is known is carried over", "window_before=24h0m0s window=48h0m0s", "from=changelog ids=8"} {
			if !strings.Contains(said, want) {
				t.Errorf("the log does not say %q:\n%s", want, said)
			}
		}
		r.checkCame("begun", "new")
		s := r.inspect().Partitions[0].State
		if s.WindowMS != (48*time.Hour).Milliseconds() || s.Coverage < 0.5 || s.Coverage > 0.6 {
			t.Errorf("window %d ms, coverage %v; want 48h and a little over half", s.WindowMS, s.Coverage)
		}
		r.write(0, all...)
		r.run("--window", "48h") // from a changelog of both lengths
		r.checkCame("begun", "new")
	})
	t.Run("shorter", func(t *testing.T) {
		r := aged(t)
		r.write(0, all...)
		r.run("--window", "7h")
		r.write(0, all...)
		r.run("--window", "7h")
		// An old generation is kept by its end: for 7h, and up to its own length and a
		// new one's longer. In doubt it is held.
		came := r.came()
		for n, id := range all {
			age := time.Duration(n) * 4 * time.Hour
			switch {
			case age <= 7*time.Hour && came[id] != 0:
				t.Errorf("%s, seen %v ago, came out %d times", id, age, came[id])
			case age > 12*time.Hour && came[id] != 1:
				t.Errorf("%s, seen %v ago, came out %d times, want once", id, age, came[id])
			}
		}
		if s := r.inspect().Partitions[0].State; s.WindowMS != (7*time.Hour).Milliseconds() || s.Coverage != 1 {
			t.Errorf("window %d ms, coverage %v; want 7h and all", s.WindowMS, s.Coverage)
		}
	})
}

// Another capacity is another filter: a checkpoint does not fit it, the changelog
// does.
func TestCapacityIsChangedAtARestart(t *testing.T) {
	r := newRemembering(t, 1)
	r.write(0, "a", "b")
	r.checkpointed()
	r.write(0, "a")
	if said := r.run("--state-dir", r.dir); !strings.Contains(said, "from=checkpoint") || !strings.Contains(said, " ids=2 ") {
		t.Errorf("a restart does not say that it used the checkpoint:\n%s", said)
	}
	r.write(0, "a", "b", "c")
	said := r.run("--state-dir", r.dir, "--capacity", "1M")
	if !strings.Contains(said, "a checkpoint is of no use") || !strings.Contains(said, "the filter was growing filter") {
		t.Errorf("nothing is said of the checkpoint that does not fit:\n%s", said)
	}
	r.checkCame("a", "b", "c")
	if c := r.inspect().Partitions[0].State.Coverage; c != 1 {
		t.Errorf("coverage %v, want 1", c)
	}
}

// What decides which IDs are the same cannot be changed over what is remembered,
// and the error names both ways out.
func TestSettingsThatARestartRefuses(t *testing.T) {
	r := newRemembering(t, 1)
	r.write(0, "a")
	r.run("--hash-seed", "7")
	for _, change := range [][]string{
		{"--hash-seed", "8"},
		{"--hash-seed", "7", "--key", "json:n"}, // with the other key a composite
		{"--hash-seed", "7", "--filter", "classic"},
	} {
		code, _, stderr := exec("", runArgs(r.brokers, r.in, r.out, change...)...)
		for _, want := range []string{"error: restore " + r.in + "/0: key spec, seed, scope or filter kind have changed (fingerprint ",
			"hint: use the settings it was made with; to change them, use another --group, or begin anew with `streamdedup state reset`"} {
			if !strings.Contains(stderr, want) {
				t.Errorf("%v: exit code %d, stderr:\n%swant %s", change, code, stderr, want)
			}
		}
		if code != exitFailed {
			t.Errorf("%v: exit code %d, want %d", change, code, exitFailed)
		}
	}
	code, _, stderr := exec("", runArgs(r.brokers, r.in, r.out, "--hash-seed", "7", "--scope", "topic")...)
	if code != exitFailed || !strings.Contains(stderr, "was run with --scope partition") {
		t.Errorf("with another scope: exit code %d, stderr:\n%s", code, stderr)
	}
	// The way out that the hint names works, by name.
	r.must("", "reset", "--yes")
	r.run("--hash-seed", "8")
	r.checkCame("a*2")
}

// A listed ID passes once more, also over restarts with the same list; out of the
// list it is the one that was seen.
func TestAllowIDOverRestarts(t *testing.T) {
	r := newRemembering(t, 1)
	r.write(0, "a", "b")
	r.run()
	allowed := []string{"--allow-id", written(t, "ids", "a\nnever seen\n")}
	r.write(0, "b", "a", "a")
	r.run(allowed...)
	r.checkCame("a*2", "b")
	r.write(0, "a", "b")
	r.run(allowed...)
	r.checkCame("a*2", "b")
	r.write(0, "a")
	r.run()
	r.checkCame("a*2", "b")
}
