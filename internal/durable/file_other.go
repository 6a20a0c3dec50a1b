//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package durable

import (
	"errors"
	"os"
	"runtime"
)

// RenamesOpen is whether a file can be renamed and removed while it is open.
const RenamesOpen = false

// Lock fails: two writers without one would spoil each other's files.
func Lock(*os.File) error {
	return errors.New("locks of files are not available on " + runtime.GOOS)
}

// SyncFolder does nothing: there is no such call.
func SyncFolder(string) error { return nil }
