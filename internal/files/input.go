package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Stdin is the name of an input or output that stands for the process's own.
const Stdin = "-"

// maxZstdWindow is the largest window of zstd that is opened, which is memory; it
// is also what the zstd command opens unasked.
const maxZstdWindow = 128 << 20

// input is one open file, or what came as [Config.Stdin].
type input struct {
	io.Reader
	name   string
	packed bool // a Read gives little of what there is
	close  func() error
	// interrupt ends a Read that waits, if it can.
	interrupt func() bool
}

// openInput opens the file of that name, decompressing what ends in .gz or .zst.
// What is read of the file itself is added to read.
func openInput(name string, stdin io.Reader, read func(n int)) (*input, error) {
	if name == Stdin {
		in := &input{Reader: counted{stdin, read}, name: "stdin"}
		in.close = func() error { return nil }
		in.interrupt = func() bool {
			f, ok := stdin.(interface{ SetReadDeadline(time.Time) error })
			return ok && f.SetReadDeadline(time.Unix(1, 0)) == nil
		}
		return in, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, openError(name, err)
	}
	in := &input{Reader: counted{file, read}, name: name, close: file.Close}
	in.interrupt = func() bool {
		_ = file.Close() // a second time does no harm
		return true
	}
	if unpack := unpackers[filepath.Ext(name)]; unpack != nil {
		in.Reader, in.packed = &unpacking{open: unpack, src: in.Reader}, true
		in.close = func() error { return errors.Join(in.Reader.(*unpacking).close(), file.Close()) }
	}
	return in, nil
}

// opening stands for an input that is being opened. That waits where it is a named pipe
// without a writer, and cannot be ended.
func opening(name string) *input {
	return &input{name: name, close: func() error { return nil }, interrupt: func() bool {
		info, err := os.Stat(name)
		return err != nil || info.Mode().IsRegular()
	}}
}

// counted tells how much was read.
type counted struct {
	src  io.Reader
	read func(n int)
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.read(n)
	return n, err
}

// unpackers open compressed input, by the suffix of its name.
var unpackers = map[string]func(io.Reader) (io.ReadCloser, error){
	".gz": func(src io.Reader) (io.ReadCloser, error) {
		z, err := gzip.NewReader(src)
		if err != nil {
			return nil, err
		}
		return z, nil
	},
	".zst": func(src io.Reader) (io.ReadCloser, error) {
		d, err := zstd.NewReader(src, zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	},
}

// unpacking is compressed input. It is opened with the first Read, since that
// already reads. Nothing at all is no compressed text: a file that ends before its
// first byte is cut short like any other.
type unpacking struct {
	open func(io.Reader) (io.ReadCloser, error)
	src  io.Reader
	from io.ReadCloser
	err  error // of open, or the last of Read
	some bool  // src has given something
}

func (u *unpacking) Read(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	if u.from == nil {
		u.from, u.err = u.open(noticing{u.src, &u.some})
	}
	n := 0
	if u.err == nil {
		n, u.err = u.from.Read(p)
	}
	if errors.Is(u.err, io.EOF) && u.some {
		return n, io.EOF
	}
	if failed := (*fs.PathError)(nil); u.err != nil && !errors.As(u.err, &failed) {
		u.err = fmt.Errorf("%w: %w", ErrDamaged, noEOF(u.err))
	}
	return n, u.err
}

func (u *unpacking) close() error {
	if u.from == nil {
		return nil
	}
	err := u.from.Close()
	if u.err != nil && !errors.Is(u.err, io.EOF) {
		return nil // it says again what Read has said
	}
	return err
}

// noEOF is err where an end is no regular one.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// noticing sees whether there is anything to read.
type noticing struct {
	src  io.Reader
	some *bool
}

func (r noticing) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	*r.some = *r.some || n > 0
	return n, err
}

// withoutMark is text without the byte order mark at its start; more says that it
// is too short to tell.
func withoutMark(text []byte) (rest []byte, more bool) {
	if len(text) < len(byteOrderMark) && bytes.HasPrefix(byteOrderMark, text) {
		return text, true
	}
	return bytes.TrimPrefix(text, byteOrderMark), false
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// Compressed reports whether a file of that name is compressed.
func Compressed(name string) bool { return unpackers[filepath.Ext(name)] != nil }
