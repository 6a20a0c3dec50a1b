//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// piped is a filter as a process of its own between two pipes.
type piped struct {
	*osexec.Cmd
	in     *os.File
	out    *bufio.Reader
	end    *os.File // of out
	stderr bytes.Buffer
}

func pipe(t *testing.T, args ...string) *piped {
	t.Helper()
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	end, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &piped{Cmd: osexec.CommandContext(t.Context(), "streamdedup", append([]string{"filter"}, args...)...), in: in, out: bufio.NewReader(end), end: end}
	p.Stdin, p.Stdout, p.Stderr = theirIn, theirOut, &p.stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(theirIn.Close(), theirOut.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(in.Close(), end.Close()) })
	return p
}

// line writes a line and wants it back.
func (p *piped) line(t *testing.T, text string) {
	t.Helper()
	if _, err := p.in.WriteString(text + "\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := p.out.ReadString('\n'); err != nil || got != text+"\n" {
		t.Fatalf("%q came out, %v, want %q; stderr:\n%s", got, err, text, p.stderr.String())
	}
}

// When the reader of its output is gone, as after `| head`, a filter ends quietly,
// also one that waits for input.
func TestFilterEndsQuietlyWhenItsReaderIsGone(t *testing.T) {
	p := pipe(t, "--capacity", "1000")
	p.line(t, "first")
	if err := p.end.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.in.WriteString("second\n"); err != nil { // and no end of input
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil || p.stderr.Len() > 0 {
		t.Errorf("it ended with %v and said %q, want a quiet end", err, p.stderr.String())
	}
}

// A filter that is killed leaves nothing that looks complete, and nothing that it
// wrote is lost.
func TestAKilledFilterLeavesNoCompleteFile(t *testing.T) {
	divert := filepath.Join(t.TempDir(), "aside.ndjson")
	p := pipe(t, "--capacity", "1000", "--key", "json:id", "--on-missing", "divert", "--divert", divert)
	if _, err := p.in.WriteString("{}\n"); err != nil {
		t.Fatal(err)
	}
	p.line(t, `{"id":1}`)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err == nil {
		t.Error("it ended well, and was killed")
	}
	if _, err := os.Stat(divert); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v, want none", divert, err)
	}
	if text, err := os.ReadFile(divert + ".partial"); err != nil || string(text) != "{}\n" {
		t.Errorf("%s.partial: %q, %v, want what was diverted", divert, text, err)
	}
}

// Two runs with one output would mix their lines: the second one is refused, and does
// nothing to what the first has written.
func TestAnOutputOfAnotherRunIsRefused(t *testing.T) {
	divert := filepath.Join(t.TempDir(), "aside.ndjson")
	args := []string{"--capacity", "1000", "--key", "json:id", "--on-missing", "divert", "--divert", divert}
	p := pipe(t, args...)
	if _, err := p.in.WriteString("{}\n"); err != nil {
		t.Fatal(err)
	}
	p.line(t, `{"id":1}`)
	second := osexec.CommandContext(t.Context(), "streamdedup", append([]string{"filter"}, args...)...)
	second.Stdin = strings.NewReader("{\"n\":2}\n{\"id\":2}\n")
	var stderr bytes.Buffer
	second.Stderr = &stderr
	out, err := second.Output()
	exit := (*osexec.ExitError)(nil)
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed || len(out) > 0 ||
		!strings.HasPrefix(stderr.String(), "error: create "+divert+".partial: another run is writing it\nhint: wait ") {
		t.Errorf("the second run: %v, %q out, %q", err, out, stderr.String())
	}
	if err := errors.Join(p.in.Close(), p.Wait()); err != nil {
		t.Fatalf("%v; stderr:\n%s", err, p.stderr.String())
	}
	if text, err := os.ReadFile(divert); err != nil || string(text) != "{}\n" {
		t.Errorf("%s: %q, %v, want what the first run diverted", divert, text, err)
	}
}

// What stdout says is an error, by name, and so is a stdout that is the input, or another
// output.
func TestFilterNamesWhatItsStdoutSays(t *testing.T) {
	f := func(stdout, stdin string, code int, want string, args ...string) {
		t.Helper()
		out, err := os.OpenFile(stdout, os.O_WRONLY|os.O_APPEND, 0)
		if errors.Is(err, os.ErrNotExist) {
			t.Skipf("no %s here", stdout)
		} else if err != nil {
			t.Fatal(err)
		}
		in, err := os.Open(stdin)
		if err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		cmd := osexec.CommandContext(t.Context(), "streamdedup", append([]string{"filter", "--capacity", "1000"}, args...)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &stderr
		err = cmd.Run()
		exit := (*osexec.ExitError)(nil)
		if !errors.As(err, &exit) || exit.ExitCode() != code || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q from %s to %s: %v, %q; want exit code %d, %q", args, stdin, stdout, err, stderr.String(), code, want)
		}
		if err := errors.Join(in.Close(), out.Close()); err != nil {
			t.Error(err)
		}
	}
	lines := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(lines, []byte("a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f(lines, os.DevNull, exitUsage, "error: stdout is input "+lines+" as well", lines)
	f(lines, lines, exitUsage, "error: stdout is stdin as well")
	f(os.DevNull, lines, exitUsage, "error: -o "+lines+" is stdin as well", "-o", lines)
	aside := filepath.Join(t.TempDir(), "aside") // renamed to what stdout is, it would be all that is left
	if err := os.WriteFile(aside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f(aside, lines, exitUsage, "error: --duplicates "+aside+" is stdout as well", "--duplicates", aside)
	f("/dev/full", lines, exitFailed, "error: write survivors: no space left on device")
}
