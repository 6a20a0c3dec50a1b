package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/streamdedup/streamdedup/pipeline"
)

// exec runs a command in this process.
func exec(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	args = append([]string{}, args...) // of nil cobra makes those of the tests
	code = run(context.Background(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// A testscript sees only whether a command failed; programs see how.
func TestExitCodes(t *testing.T) {
	f := func(want int, args ...string) {
		t.Helper()
		if code, _, stderr := exec("", args...); code != want {
			t.Errorf("streamdedup %s: exit code %d, want %d; stderr:\n%s", strings.Join(args, " "), code, want, stderr)
		}
	}
	f(exitOK)
	f(exitOK, "help")
	f(exitOK, "version")
	f(exitOK, "filter")
	f(exitOK, "filter", "--help")
	f(exitOK, "size", "--elements", "1e6")

	f(exitFailed, "filter", "nosuch")
	f(exitFailed, "filter", "--hash-seed-file", "nosuch")

	f(exitUsage, "nosuch")
	f(exitUsage, "filter", "--nosuch")
	f(exitUsage, "filter", "--window", "0")
	f(exitUsage, "filter", "--window")
	f(exitUsage, "filter", "--key", "nosuch")
	f(exitUsage, "filter", "--on-missing", "divert")
	f(exitUsage, "filter", "--capacity", "1", "--rate", "1")
	f(exitUsage, "size")
	f(exitUsage, "size", "--elements", "1e6", "--fpr", "2")
	f(exitUsage, "version", "x")
	f(exitUsage, "serve")
	f(exitUsage, "help", "rum")
}

// gone is a pipe whose reader went away.
type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, fmt.Errorf("write /dev/stdout: %w", syscall.EPIPE) }

func TestAReaderThatIsGoneEndsFilterQuietly(t *testing.T) {
	var stderr bytes.Buffer
	code := run(context.Background(), []string{"filter"}, strings.NewReader("a\nb\n"), gone{}, &stderr)
	if code != exitOK || stderr.Len() != 0 {
		t.Errorf("exit code %d, stderr %q, want 0 and nothing", code, stderr.String())
	}
}

// A broken pipe that is not ours is an error like any other.
func TestABrokenConnectionIsNoGoneReader(t *testing.T) {
	var stderr bytes.Buffer
	a := &app{stderr: &stderr}
	if code := a.exit(fmt.Errorf("write to broker: %w", syscall.EPIPE)); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	if want := "error: write to broker: broken pipe\n"; stderr.String() != want {
		t.Errorf("stderr %q, want %q", stderr.String(), want)
	}
}

func TestExitPrintsAllFaultsAndTheHint(t *testing.T) {
	var stderr bytes.Buffer
	a := &app{stderr: &stderr}
	err := errors.Join(usagef("one is wrong"), fmt.Errorf("two: %w", withHint(errors.New("is wrong"), "do this\nor that")))
	if code := a.exit(err); code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	if want := "error: one is wrong\nerror: two: is wrong\nhint: do this\nhint: or that\n"; stderr.String() != want {
		t.Errorf("stderr %q, want %q", stderr.String(), want)
	}
}

// One that a policy stopped goes on with another one: all of them are named.
func TestAStopByAPolicy(t *testing.T) {
	stop := &pipeline.Stop{Partition: pipeline.Partition{Topic: "in", Number: 3}, Offset: 7, Reason: pipeline.ReasonMissing}
	var stderr bytes.Buffer
	if code := (&app{stderr: &stderr}).exit(stop); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	want := "error: partition in/3 stopped before offset 7: record without an ID\n" +
		"hint: --on-missing pass lets such records through and counts them, drop leaves them out, divert takes them aside\n"
	if stderr.String() != want {
		t.Errorf("stderr %q, want %q", stderr.String(), want)
	}
}

// A partition may be stopped by no policy: then no policy is the way out.
func TestAStopWithoutAReason(t *testing.T) {
	stop := &pipeline.Stop{Partition: pipeline.Partition{Topic: "in", Number: 3}, Offset: 7, Err: errors.New("is gone")}
	var stderr bytes.Buffer
	if code := (&app{stderr: &stderr}).exit(stop); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	if want := "error: partition in/3 stopped before offset 7: is gone\n"; stderr.String() != want {
		t.Errorf("stderr %q, want %q", stderr.String(), want)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"window", "brokers", "in", "out", "key", "fpr", "commit-interval"}
	f := func(name, want string) {
		t.Helper()
		if got := nearest(name, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
	f("windw", "window")
	f("widnow", "window")
	f("broker", "brokers")
	f("commit-intreval", "commit-interval")
	f("commitinterval", "commit-interval")
	f("keys", "key")
	f("nothing-like-it", "")
	f("", "")
}
