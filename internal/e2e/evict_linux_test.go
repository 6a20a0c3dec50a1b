package e2e

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// evictFile takes a file that is on the disk out of the system's cache.
func evictFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
}
