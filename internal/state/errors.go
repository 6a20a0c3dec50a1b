package state

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/streamdedup/streamdedup/internal/durable"
)

// Error is a failure that an operator can do something about.
type Error struct {
	err  error
	hint string
}

// Error says what failed, where, with which value.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.err }

// Hint says what to do next.
func (e *Error) Hint() string { return e.hint }

// failed says what could not be done, in the words of fmt.Errorf, and why. Where
// the system refused it, that is an Error, whose hint depends on the cause.
func failed(cause error, format string, args ...any) error {
	err := fmt.Errorf(format+": %w", append(args, plain(cause))...)
	switch {
	case errors.Is(cause, durable.ErrLocked):
		return &Error{err, "give each process an --instance or a --state-dir of its own, or wait until the other has ended"}
	case errors.Is(cause, syscall.EROFS):
		return &Error{err, "mount the file system for writing, or name another folder with --state-dir"}
	case errors.Is(cause, fs.ErrPermission):
		return &Error{err, "let the user of this process write there, or name another folder with --state-dir"}
	case errors.Is(cause, fs.ErrNotExist):
		return &Error{err, "check the path of --state-dir, and that its disk is mounted; only its last folder is made"}
	case isFull(cause):
		return &Error{err, "make room: checkpoints need three times the memory of the filter; or name another folder with --state-dir"}
	}
	if system := syscall.Errno(0); errors.As(cause, &system) {
		return &Error{err, "check the disk, or name another folder with --state-dir"}
	}
	return err
}

// plain leaves out the path and the system's call, which the text around says
// better.
func plain(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}
