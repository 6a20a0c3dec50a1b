package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/streamdedup/streamdedup/internal/durable"
)

// Partial is the suffix of an output that is not complete.
const Partial = ".partial"

// Output is a file that is written under another name and gets its own when it is
// complete, so that a run which failed, however it ended, does not look like one
// that finished; what it wrote is there to be looked at. What is no regular file,
// such as a pipe, is written as it is, and so are the names in /dev of what the
// process has open.
//
// It has one owner: no method may run concurrently with another.
type Output struct {
	name    string // the final one, "" where that is written directly
	written string
	file    *os.File
	pack    io.WriteCloser // nil where it is not compressed
	fresh   bool           // there was no file of the name that is written
	begun   bool
}

// Create opens an output of that name, which is compressed if it ends in .gz or
// .zst. A file that has the name is replaced in the end, not before, and what an
// earlier run has left is so when this one has something to write: see
// [Output.Begin]. While another process writes the same output, it fails with
// [ErrInUse].
func Create(name string) (*Output, error) {
	o := &Output{written: name}
	mode := os.FileMode(0o666)
	switch info, err := os.Stat(name); {
	case err == nil && (!info.Mode().IsRegular() || filepath.Dir(name) == "/dev"):
	case err == nil:
		// Through links, and with the permissions that it has.
		if o.name, err = filepath.EvalSymlinks(name); err != nil {
			return nil, createError(name, err)
		}
		mode = info.Mode().Perm()
	case errors.Is(err, os.ErrNotExist):
		o.name = name
	default:
		return nil, createError(name, err)
	}
	var err error
	if o.name != "" {
		o.written = o.name + Partial
		o.file, o.fresh, err = openLocked(o.written, mode)
	} else {
		o.file, err = os.OpenFile(name, os.O_WRONLY|os.O_APPEND, mode)
	}
	if err != nil {
		return nil, createError(o.written, err)
	}
	if pack := packers[filepath.Ext(name)]; pack != nil {
		if o.pack, err = pack(o.file); err != nil {
			return nil, errors.Join(createError(o.written, err), o.file.Close())
		}
	}
	return o, nil
}

// openLocked opens a file of that name to write it, and keeps others from it until it
// is closed. fresh says that there was none.
func openLocked(name string, mode os.FileMode) (file *os.File, fresh bool, err error) {
	for {
		file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if fresh = err == nil; errors.Is(err, os.ErrExist) {
			file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE, mode)
		}
		if err != nil {
			return nil, false, err
		}
		named, err := lockNamed(file, name)
		if named {
			return file, fresh, nil
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, false, err
		}
	}
}

// lockNamed locks a file that was opened by that name. named is false for one that has
// it no longer: who had the lock until now may have given the file its final name.
func lockNamed(file *os.File, name string) (named bool, err error) {
	switch err := durable.Lock(file); {
	case errors.Is(err, durable.ErrLocked):
		return false, ErrInUse
	case err != nil:
		return false, fmt.Errorf("lock it: %w", err)
	}
	opened, err := file.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(opened, now), err
}

// Begin drops what an earlier run has left. It goes before the first Write, and after
// all that can keep a run from starting: what it drops may be the only copy.
func (o *Output) Begin() error {
	if o.begun {
		return nil
	}
	o.begun = true
	if o.name == "" || o.fresh {
		return nil
	}
	if err := o.file.Truncate(0); err != nil {
		return createError(o.written, err)
	}
	return nil
}

// packers begin compressed output, by the suffix of its name. The encoder of zstd
// uses the other cores by itself.
var packers = map[string]func(io.Writer) (io.WriteCloser, error){
	".gz":  func(to io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(to), nil },
	".zst": func(to io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(to) },
}

func createError(name string, err error) error { return fmt.Errorf("create %s: %w", name, plain(err)) }

// Written is the name of what is written so far.
func (o *Output) Written() string { return o.written }

func (o *Output) Write(p []byte) (n int, err error) {
	if o.pack != nil {
		n, err = o.pack.Write(p)
	} else {
		n, err = o.file.Write(p)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", o.written, plain(err))
	}
	return n, err
}

// Finish makes the output complete: all of it is on the disk under its name.
func (o *Output) Finish() error {
	err := errors.Join(o.Begin(), o.endPack())
	if o.name != "" && err == nil {
		err = o.file.Sync()
	}
	if err != nil || o.name == "" || !durable.RenamesOpen {
		err = errors.Join(err, o.file.Close())
	}
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrOutput, o.written, plain(err))
	}
	if o.name == "" {
		return nil
	}
	// With the lock, where that is possible: else another run could begin the file
	// anew while it gets its name.
	err = os.Rename(o.written, o.name)
	if durable.RenamesOpen {
		err = errors.Join(err, o.file.Close())
	}
	if err != nil {
		return fmt.Errorf("rename %s to %s: %w", o.written, o.name, plain(err))
	}
	o.written, o.name = o.name, ""
	if err := durable.SyncFolder(filepath.Dir(o.written)); err != nil {
		return fmt.Errorf("sync the folder of %s: %w", o.written, plain(err))
	}
	return nil
}

// Abandon ends the output as it is: incomplete, whatever the end of it says. One that
// has not begun leaves what it found.
func (o *Output) Abandon() {
	if o.begun {
		_ = errors.Join(o.endPack(), o.file.Close())
		return
	}
	if o.fresh && durable.RenamesOpen {
		_ = os.Remove(o.written) // with the lock: it may be another's in a moment
	}
	_ = o.file.Close()
	if o.fresh && !durable.RenamesOpen {
		_ = os.Remove(o.written)
	}
}

func (o *Output) endPack() error {
	if o.pack == nil {
		return nil
	}
	return o.pack.Close()
}

// Incomplete reports whether something is written that has not the name it is to get.
func (o *Output) Incomplete() bool { return o.name != "" && o.begun }
