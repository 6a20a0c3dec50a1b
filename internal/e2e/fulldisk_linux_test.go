package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"golang.org/x/sys/unix"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// TestCase_OPS_13: the disk of the checkpoints is full. The stream goes on, what lies
// there does not grow, it is said and counted; with room again there are checkpoints again.
func TestCase_OPS_13(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); errors.Is(err, unix.EPERM) {
		t.Skip("this user may not mount a file system")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	s := newSceneOn(t, kafkatest.Fake(t, kfake.NumBrokers(1)).ListenAddrs(), 1, nil, nil)
	s.flags["state-dir"], s.flags["checkpoint-interval"] = dir, "20ms"
	d := s.run()
	d.ready(1)
	done := func() float64 { return d.metric("streamdedup_checkpoint_seconds_count") }
	failed := func() float64 { return d.metric("streamdedup_checkpoint_failures_total") }
	s.ids(0, series("before", 100)...)
	await(t, "there is a checkpoint", func() bool { return done() > 0 }, d.done)

	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill the disk: %v", err)
	}
	for round := range 5 {
		count := failed()
		s.ids(0, series(strings.Repeat("x", round+1), 100)...)
		s.caughtUp(d)
		await(t, "a checkpoint fails", func() bool { return failed() > count }, d.done)
	}
	if files := filesIn(t, dir); len(files) > 5 {
		t.Errorf("the folder has %d files: %q", len(files), files)
	}
	d.line("level=WARN", "no checkpoint", "no space left on device")

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	count := done()
	s.ids(0, "after", "before0")
	s.caughtUp(d)
	await(t, "there are checkpoints again", func() bool { return done() > count }, d.done)
	d.stop()
	s.check()
}

func filesIn(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
