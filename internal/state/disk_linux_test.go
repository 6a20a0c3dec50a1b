package state

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// mount puts a small disk of its own at a folder, until the test ends or unmount is
// called.
func mount(t *testing.T, dir string, flags uintptr) (unmount func()) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, "size=1m"); errors.Is(err, unix.EPERM) {
		t.Skip("this user may not mount a file system")
	} else if err != nil {
		t.Fatalf("mount: %v", err)
	}
	unmount = sync.OnceFunc(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	t.Cleanup(unmount)
	return unmount
}

// fill leaves that many bytes of the disk.
func fill(t *testing.T, dir string, free uint64) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, disk.Bfree*uint64(disk.Bsize)-free), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Wherever the disk is full, the write fails, nothing is left of it, and what was
// there before is as it was.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, 0)
	h := open(t, dir)
	const page = 4096
	bodies := map[int64][]byte{1: []byte("one"), 2: []byte("two"), 3: bytes.Repeat([]byte{3}, 10*page)}
	h.save(p0, 1, bodies[1])
	h.save(p0, 2, bodies[2])
	failedIn := map[string]int{}
	write := func() error {
		w, err := h.Create(p0)
		if err != nil {
			failedIn["Create"]++
			return err
		}
		defer w.Abort()
		for at := 0; at < len(bodies[3]); at += page {
			if _, err := w.Write(bodies[3][at : at+page]); err != nil {
				failedIn["Write"]++
				return err
			}
		}
		if err := w.Finish(headOf(p0, 3, bodies[3])); err != nil {
			failedIn["Finish"]++
			return err
		}
		return nil
	}
	full := uint64(headerBytes+len(bodies[3])) + page // the table needs a page
	for free := uint64(0); free < full; free += page {
		fill(t, dir, free)
		hinted(t, write(), syscall.ENOSPC, "orders/0", "make room")
		h.holds(p0, bodies, 2, 1)
		if got := h.files(); len(got) != 2 {
			t.Fatalf("with %d bytes free: files %q", free, got)
		}
	}
	for _, place := range []string{"Create", "Write", "Finish"} {
		if failedIn[place] == 0 {
			t.Errorf("the disk was never full in %s: %v", place, failedIn)
		}
	}
	fill(t, dir, full)
	if err := write(); err != nil {
		t.Fatal(err)
	}
	h.holds(p0, bodies, 3, 2)
}

func TestOpenOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, 0)
	fill(t, dir, 0)
	_, err := Open(configOf(dir, io.Discard))
	hinted(t, err, syscall.ENOSPC, dir, "make room")

	// What a killed process left does not keep its successor out.
	fill(t, dir, 512<<10)
	h := open(t, dir)
	w := h.begin(p0, make([]byte, 256<<10), sectionBytes)
	h.crash()
	if err := w.file.Close(); err != nil { // as the system does
		t.Fatal(err)
	}
	fill(t, dir, 0)
	open(t, dir).save(p0, 1, make([]byte, 100<<10))
}

func TestReadOnlyDisk(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, unix.MS_RDONLY)
	_, err := Open(configOf(dir, io.Discard))
	hinted(t, err, syscall.EROFS, dir, "mount the file system for writing")

	// One that becomes so while it is in use.
	h := open(t, t.TempDir())
	h.save(p0, 1, []byte("one"))
	w := h.begin(p0, []byte("two"), 3)
	unmount := mount(t, h.path, unix.MS_RDONLY)
	_, err = h.Create(p0)
	hinted(t, err, syscall.EROFS, "orders/0", "mount the file system for writing")
	if err := w.Finish(headOf(p0, 2, []byte("two"))); err == nil {
		t.Error("finished")
	}
	unmount()
	h.holds(p0, map[int64][]byte{1: []byte("one")}, 1)
}

// Whoever runs the tests as root is refused nothing, so the thread gives up being
// root towards files.
func TestUnwritableFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // the test's own, too
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		const nobody = 65534
		if _, err := unix.SetfsuidRetUid(nobody); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := unix.SetfsuidRetUid(0); err != nil {
				t.Error(err)
			}
		}()
	} else if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	_, err := Open(configOf(dir, io.Discard))
	hinted(t, err, os.ErrPermission, dir, "let the user of this process write there")
}
