//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package state

import (
	"errors"
	"os"
	"runtime"
)

// lockFile fails: two processes on one folder would remove each other's files.
func lockFile(*os.File) error {
	return errors.New("locks of files are not available on " + runtime.GOOS)
}

func syncFolder(string) error { return nil }

func isFull(error) bool { return false }
