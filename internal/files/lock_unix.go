//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package files

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renamesOpen is whether a file can be renamed and removed while it is open.
const renamesOpen = true

// lockFile takes the lock, or fails with errLocked. It is the open file's, not
// the name's, so it ends with the process, however that ends.
func lockFile(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return errLocked
		default:
			return err
		}
	}
}

// syncFolder makes durable which names a folder has.
func syncFolder(path string) error {
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
