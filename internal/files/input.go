package files

import (
	"bufio"
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

// packedRead is how much is read of a gzip file at once.
const packedRead = 64 << 10

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
	".gz": newMembers,
	".zst": func(src io.Reader) (io.ReadCloser, error) {
		d, err := zstd.NewReader(src, zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	},
}

// members are the members of a gzip file, one after the other. Zero bytes may follow
// the last one, as of a tape or a device: the gzip command takes them for padding, too.
type members struct {
	*gzip.Reader // of one member
	src          *bufio.Reader
}

func newMembers(src io.Reader) (io.ReadCloser, error) {
	m := &members{src: bufio.NewReaderSize(src, packedRead)}
	var err error
	if m.Reader, err = gzip.NewReader(m.src); err != nil {
		return nil, err
	}
	m.Multistream(false)
	return m, nil
}

func (m *members) Read(p []byte) (int, error) {
	for {
		n, err := m.Reader.Read(p)
		if n > 0 && errors.Is(err, io.EOF) {
			return n, nil // it is said again
		} else if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if err := m.next(); err != nil {
			return 0, err
		}
	}
}

// next goes to the next member; [io.EOF] says that there is none.
func (m *members) next() error {
	first, err := m.src.Peek(1)
	if err != nil {
		return err
	}
	if first[0] != 0 {
		if err := m.Reset(m.src); err != nil {
			return noEOF(err)
		}
		m.Multistream(false)
		return nil
	}
	for err == nil {
		var b byte
		if b, err = m.src.ReadByte(); err == nil && b != 0 {
			return errors.New("something follows the zero bytes behind it")
		}
	}
	return err
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

// magics are how compressed files begin.
var magics = []struct {
	text           []byte
	format, suffix string
}{
	{[]byte("\x1f\x8b\x08"), "gzip", ".gz"},
	{[]byte("\x28\xb5\x2f\xfd"), "zstd", ".zst"},
}

// longestMagic is how much of an input tells whether it is compressed.
const longestMagic = 4

// refuseCompressed fails for the start of an input that is compressed: its bytes are no
// lines. more says that it is too short to tell.
func refuseCompressed(name string, start []byte) (more bool, err error) {
	for _, m := range magics {
		if bytes.HasPrefix(start, m.text) {
			return false, &CompressedError{name, m.format, m.suffix}
		}
		more = more || bytes.HasPrefix(m.text, start)
	}
	return more, nil
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
