package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenMakesWhatIsMissing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	h := open(t, dir)
	for path, want := range map[string]os.FileMode{
		dir: 0o700, filepath.Dir(h.path): 0o700, h.path: 0o700, filepath.Join(h.path, lockName): 0o600,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, error %v", path, info.Mode(), err)
		}
	}
	h.save(p0, 1, nil)
	if info, err := os.Stat(h.List(p0)[0].Name()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("checkpoint: %v, error %v", info.Mode(), err)
	}
}

// hinted expects an error with a hint.
func hinted(t *testing.T, err, cause error, says, hint string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, cause) || !strings.Contains(e.Error(), says) || !strings.Contains(e.Hint(), hint) {
		t.Errorf("error %v (%T), want %v, %q and the hint %q", err, err, cause, says, hint)
	}
}

func TestMissingFolder(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "not-mounted")
	_, err := Open(configOf(filepath.Join(parent, "state"), io.Discard))
	hinted(t, err, os.ErrNotExist, parent, "--state-dir")
	if _, err := os.Stat(parent); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the parent was made: %v", err)
	}

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(configOf(file, io.Discard)); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file for a folder: %v", err)
	}

	// A folder that goes while it is in use fails, and is not made again: the lock
	// went with it.
	h := open(t, t.TempDir())
	w := h.begin(p0, []byte("body"), 4)
	if err := os.RemoveAll(h.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	_, err = h.Create(p0)
	hinted(t, err, os.ErrNotExist, "orders/0", "--state-dir")
	hinted(t, w.Finish(headOf(p0, 1, []byte("body"))), os.ErrNotExist, "orders/0", "--state-dir")
	if got := h.List(p0); len(got) > 0 || !strings.Contains(h.log.String(), "cannot look for checkpoints") {
		t.Errorf("listed %d; log: %s", len(got), h.log)
	}
}

func TestTopicIDsThatAreNotKnown(t *testing.T) {
	h := open(t, t.TempDir())
	h.save(p0, 1, nil)
	h.cfg.IDs = func(topic string) (Identity, error) { return Identity{}, fmt.Errorf("no broker knows %s", topic) }
	if got := h.List(p0); len(got) > 0 || !strings.Contains(h.log.String(), "no broker knows orders") {
		t.Errorf("listed %d; log: %s", len(got), h.log)
	}
	if _, err := h.Create(p0); err == nil || !strings.Contains(err.Error(), "no broker knows orders") {
		t.Errorf("created: %v", err)
	}
}

func TestClosedFolder(t *testing.T) {
	h := open(t, t.TempDir())
	w := h.begin(p0, nil, 1)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(headOf(p0, 1, nil)); !errors.Is(err, errClosed) {
		t.Errorf("finished: %v", err)
	}
	if _, err := h.Create(p0); !errors.Is(err, errClosed) {
		t.Errorf("created: %v", err)
	}
}

func TestLook(t *testing.T) {
	dir := t.TempDir()
	if got, err := Look(dir); len(got) > 0 || err != nil {
		t.Errorf("nothing there: %v, error %v", got, err)
	}
	_, err := Look(filepath.Join(dir, "missing"))
	hinted(t, err, os.ErrNotExist, "missing", "--state-dir")

	bodies := map[int64][]byte{1: []byte("one"), 2: []byte("two"), 3: []byte("three")}
	h := open(t, dir)
	h.save(p0, 1, bodies[1])
	h.save(p0, 2, bodies[2])
	unfinished := h.begin(p0, bodies[3], 2)
	if err := os.Truncate(h.List(p0)[0].Name(), 5); err != nil {
		t.Fatal(err)
	}
	cfg := configOf(dir, new(bytes.Buffer))
	cfg.Group, cfg.Instance = "Größe/1", "host:1"
	other, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	(&house{Folder: other, t: t}).save(p1, 3, bodies[3])

	// The locks are held.
	found, err := Look(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		line := f.Group + " " + f.Instance + " "
		if f.Refused != nil {
			line += f.Refused.Error()
		} else {
			body, err := load(f.File, 100)
			line += fmt.Sprintf("%s %d %s %v %v", f.File.Head().Partition, f.File.Head().Begin, body, f.File.Topics() == topics, err)
		}
		if info, err := os.Stat(f.Path); err != nil || info.Size() != f.Bytes || !info.ModTime().Equal(f.Written) {
			t.Errorf("%+v, file %+v, error %v", f, info, err)
		}
		got = append(got, line)
	}
	want := []string{
		"Größe/1 host:1 orders/1 3 three true <nil>",
		"billing a it is cut off: 5 bytes are not even a header",
		"billing a orders/0 1 one true <nil>",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	// Whose they are without the text in the lock: by the folders' names.
	unfinished.Abort()
	if err := errors.Join(other.Close(), h.Close(), os.Remove(filepath.Join(h.path, lockName))); err != nil {
		t.Fatal(err)
	}
	if found, err = Look(dir); err != nil || len(found) != 3 || found[2].Group != "billing" || found[2].Instance != "a" {
		t.Errorf("found %+v, error %v", found, err)
	}
}
