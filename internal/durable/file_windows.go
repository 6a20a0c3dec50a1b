package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// RenamesOpen is whether a file can be renamed and removed while it is open.
const RenamesOpen = false

// Lock takes the lock, or fails with ErrLocked. It is the open file's, so it
// ends with the process, however that ends.
func Lock(f *os.File) error {
	// A byte far behind the text: what is locked cannot be read by others.
	at := &windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

// SyncFolder does nothing: NTFS logs its names itself, and there is no such call.
func SyncFolder(string) error { return nil }
