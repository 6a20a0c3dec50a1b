package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
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
}

// Create begins an output of that name, which is compressed if it ends in .gz or
// .zst. A file that has the name is replaced in the end, not before.
func Create(name string) (*Output, error) {
	o := &Output{written: name}
	mode := os.FileMode(0o666)
	flags := os.O_WRONLY | os.O_APPEND
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
	if o.name != "" {
		o.written = o.name + Partial
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	var err error
	if o.file, err = os.OpenFile(o.written, flags, mode); err != nil {
		return nil, createError(o.written, err)
	}
	if pack := packers[filepath.Ext(name)]; pack != nil {
		if o.pack, err = pack(o.file); err != nil {
			return nil, errors.Join(createError(o.written, err), o.file.Close())
		}
	}
	return o, nil
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
	err := o.endPack()
	if o.name != "" && err == nil {
		err = o.file.Sync()
	}
	if err = errors.Join(err, o.file.Close()); err != nil {
		return fmt.Errorf("%w %s: %w", ErrOutput, o.written, plain(err))
	}
	if o.name == "" {
		return nil
	}
	if err := os.Rename(o.written, o.name); err != nil {
		return fmt.Errorf("rename %s to %s: %w", o.written, o.name, plain(err))
	}
	return nil
}

// Abandon ends the output as it is: incomplete, whatever the end of it says.
func (o *Output) Abandon() { _ = errors.Join(o.endPack(), o.file.Close()) }

func (o *Output) endPack() error {
	if o.pack == nil {
		return nil
	}
	return o.pack.Close()
}

// Incomplete reports whether what is written so far has not the name it is to get.
func (o *Output) Incomplete() bool { return o.name != "" }
