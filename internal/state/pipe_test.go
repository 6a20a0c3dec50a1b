//go:build unix

package state

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// To open a pipe is to wait for someone to write into it. In the place of a checkpoint it
// is refused at once, like all else that is no file.
func TestAPipeIsNoCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in-0-000000000009.checkpoint")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readFile(path); !errors.Is(err, errNotCheckpoint) {
		t.Errorf("a pipe: %v, want %v", err, errNotCheckpoint)
	}
}
