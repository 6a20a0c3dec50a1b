//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// RenamesOpen is whether a file can be renamed and removed while it is open.
const RenamesOpen = true

// Lock takes the lock, or fails with ErrLocked. It is the open file's, not
// the name's, so it ends with the process, however that ends.
func Lock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrLocked
		default:
			return err
		}
	}
}

// SyncFolder makes durable which names a folder has.
func SyncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil // a file system of the network that has no such call
	}
	return errors.Join(err, f.Close())
}
