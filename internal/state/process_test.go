package state

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/streamdedup/streamdedup/internal/durable"
)

// childDir is set in a process that a test starts: the folder to open. childTask
// is what to do there.
const (
	childDir  = "STREAMDEDUP_TEST_STATE_DIR"
	childTask = "STREAMDEDUP_TEST_STATE_TASK"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir, os.Getenv(childTask)); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child holds the folder until its standard input ends, or writes checkpoints
// until it is killed.
func child(dir, task string) error {
	f, err := Open(configOf(dir, io.Discard))
	if err != nil {
		return err
	}
	fmt.Println("open")
	if task == "hold" {
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	}
	for begin := int64(1); ; begin++ {
		body := bodyOf(begin)
		w, err := f.Create(p0)
		if err != nil {
			return err
		}
		if _, err := w.Write(body); err != nil {
			return err
		}
		if err := w.Finish(headOf(p0, begin, body)); err != nil {
			return err
		}
		fmt.Println(begin)
	}
}

func bodyOf(begin int64) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "body of %d;", begin), 30_000)
}

// process is a child that is killed at the test's end, at the latest.
type process struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func start(t *testing.T, dir, task string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, childTask+"="+task)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = stdin.Close()
		p.kill()
	})
	return p
}

// line is the next one that it says.
func (p *process) line() string {
	if !p.lines.Scan() {
		return ""
	}
	return p.lines.Text()
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir, "hold")
	if got := first.line(); got != "open" {
		t.Fatalf("the first said %q", got)
	}
	_, err := Open(configOf(dir, io.Discard))
	var hinted *Error
	if !errors.Is(err, durable.ErrLocked) || !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), "--instance") {
		t.Fatalf("the second got %v", err)
	}
	for _, want := range []string{dir, fmt.Sprintf("process %d", first.cmd.Process.Pid)} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
	if got := start(t, dir, "hold").line(); !strings.Contains(got, durable.ErrLocked.Error()) {
		t.Errorf("the third said %q", got)
	}
	other := configOf(dir, io.Discard)
	other.Instance = "b"
	if f, err := Open(other); err != nil {
		t.Errorf("another instance: %v", err)
	} else if err := f.Close(); err != nil {
		t.Error(err)
	}

	first.kill()
	open(t, dir)
}

// One that is killed while it writes leaves whole checkpoints only, and the last
// one that it finished.
func TestKilledWhileItWrites(t *testing.T) {
	r := seeded(t)
	dir := t.TempDir()
	for range 12 {
		p := start(t, dir, "save")
		if got := p.line(); got != "open" {
			t.Fatalf("it said %q", got)
		}
		var done int64
		for range r.IntN(6) {
			var err error
			if done, err = strconv.ParseInt(p.line(), 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		for range r.IntN(1 << 16) { // some way into the next
		}
		p.kill()
		h := open(t, dir)
		files := h.List(p0)
		if h.log.Len() > 0 {
			t.Errorf("log: %s", h.log)
		}
		for _, f := range files {
			body, err := load(f, sectionBytes)
			if want := bodyOf(f.Head().Begin); err != nil || !bytes.Equal(body, want) {
				t.Errorf("%s: %d bytes, want %d, error %v", f.Name(), len(body), len(want), err)
			}
		}
		if done > 0 && (len(files) == 0 || files[0].Head().Begin < done) {
			t.Errorf("checkpoint %d is gone", done)
		}
		if got := h.files(); len(got) != len(files) {
			t.Errorf("files: %q", got)
		}
		for _, f := range files { // the next process begins with none
			if err := os.Remove(f.Name()); err != nil {
				t.Error(err)
			}
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}
