package files

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/streamdedup/streamdedup/internal/keys"
)

// stream is all inputs, one after the other. Whoever holds its lock reads.
type stream struct {
	cfg    *Config
	broken <-chan struct{}
	token  chan struct{} // the lock
	large  chan []byte   // the memory for a chunk of a long line

	chunkSize int
	names     []string // to be opened yet
	open      atomic.Pointer[input]
	reader    *reader // of the open one
	last      turn    // of the chunk that was read last

	header  []byte
	columns []string
	origin  string // whose header it is

	read atomic.Int64
	size int64 // zero where it is not known
}

func openStream(cfg *Config, broken <-chan struct{}) (*stream, error) {
	s := &stream{
		cfg: cfg, broken: broken, names: cfg.Inputs, last: newTurn(),
		token: make(chan struct{}, 1), large: make(chan []byte, 1), chunkSize: chunkSize,
	}
	s.large <- nil
	s.last.judged <- true
	s.last.written <- true
	if len(s.names) == 0 {
		s.names = []string{Stdin}
	}
	// A typing error in the last name is better found before the first is read.
	known := true
	for _, name := range s.names {
		size, err := look(name, cfg.Stdin)
		if err != nil {
			return s, err
		}
		s.size += size
		known = known && size > 0
	}
	if !known {
		s.size = 0
	}
	// With a header, nothing can be judged before its names are known.
	for cfg.Header && s.header == nil && len(s.names) > 0 {
		if err := errors.Join(s.close(), s.advance()); err != nil {
			return s, errors.Join(err, s.close())
		}
	}
	return s, nil
}

// look fails for an input that cannot be read. size is what there is to read, zero
// where nobody knows: a pipe is not opened, somebody may wait for that.
func look(name string, stdin io.Reader) (size int64, err error) {
	if name == Stdin {
		if file, ok := stdin.(*os.File); ok {
			if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
				return info.Size(), nil
			}
		}
		return 0, nil
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return 0, openError(name, err)
	case info.IsDir():
		return 0, openError(name, errFolder)
	case !info.Mode().IsRegular():
		return 0, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return 0, openError(name, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if Compressed(name) {
		return info.Size(), nil
	}
	start := make([]byte, longestMagic)
	n, err := io.ReadFull(file, start)
	if err != nil && !errors.Is(noEOF(err), io.ErrUnexpectedEOF) {
		return 0, fmt.Errorf("read %s: %w", name, plain(err))
	}
	_, err = refuseCompressed(name, start[:n])
	return info.Size(), err
}

var errFolder = errors.New("is a directory")

// lock waits for the turn to read. It reports whether there is still reason to.
func (s *stream) lock() bool {
	select {
	case s.token <- struct{}{}:
		return true
	case <-s.broken:
		return false
	}
}

func (s *stream) unlock() { <-s.token }

// next reads a chunk. It reports whether there was one; after the last it closes
// what is open.
func (s *stream) next(c *chunk) (bool, error) {
	if cap(c.text) == 0 {
		c.text = make([]byte, 0, s.chunkSize)
	}
	for {
		if s.reader != nil {
			if s.reader.next(c, s.grow) {
				return true, nil
			}
			if failed := s.reader.failed; !errors.Is(failed, io.EOF) {
				return false, errors.Join(failed, s.close())
			}
			if err := s.close(); err != nil {
				return false, err
			}
		}
		if len(s.names) == 0 {
			return false, nil
		}
		if err := s.advance(); err != nil {
			return false, errors.Join(err, s.close())
		}
	}
}

// advance opens the next input and reads its header.
func (s *stream) advance() error {
	name := s.names[0]
	s.names = s.names[1:]
	if err := s.show(opening(name)); err != nil {
		return err
	}
	in, err := openInput(name, s.cfg.Stdin, func(n int) { s.read.Add(int64(n)) })
	if err != nil {
		return err
	}
	if err := s.show(in); err != nil {
		return err
	}
	s.reader = newReader(in, s.cfg.Rows, s.cfg.MaxLine)
	s.reader.begin()
	if !s.cfg.Header {
		return nil
	}
	line, err := s.reader.header()
	if err != nil {
		return err
	}
	return s.takeHeader(line, in.name)
}

// show makes in the open input, for who breaks the stream off: either that finds it
// there, or here it is seen that nobody wants it, before it can wait for anything.
func (s *stream) show(in *input) error {
	s.open.Store(in)
	select {
	case <-s.broken:
		return errBroken
	default:
		return nil
	}
}

// errBroken goes no further than to who broke the stream off for another reason.
var errBroken = errors.New("the stream is broken off")

// takeHeader takes the header of the input of that name, nil if it has none since
// it is empty.
func (s *stream) takeHeader(line []byte, name string) (err error) {
	switch {
	case line == nil:
		return nil
	case s.header == nil:
		s.header, s.origin = line, name
		if s.columns, err = columnsOf(withoutEnd(line), s.cfg.Rows); err != nil {
			return fmt.Errorf("read header of %s: %w", name, err)
		}
	case !bytes.Equal(withoutEnd(line), withoutEnd(s.header)):
		return fmt.Errorf("read %s line %d: %w than that of %s", name, s.reader.above, ErrHeader, s.origin)
	}
	return nil
}

// columnsOf are the names in a header.
func columnsOf(line []byte, rows keys.TableKind) ([]string, error) {
	switch rows {
	case keys.CSV:
		return csv.NewReader(bytes.NewReader(line)).Read()
	case keys.TSV:
		return strings.Split(string(line), "\t"), nil
	}
	return nil, nil
}

// close closes what is open.
func (s *stream) close() error {
	in := s.open.Swap(nil)
	s.reader = nil
	if in == nil {
		return nil
	}
	if err := in.close(); err != nil && !errors.Is(err, os.ErrClosed) { // by interrupt
		return fmt.Errorf("close %s: %w", in.name, plain(err))
	}
	return nil
}

// grow gives c room for a text of that size, and waits until it may be larger than
// usual: one chunk at a time is, and has the memory for it. It reports whether
// there is still reason to.
func (s *stream) grow(c *chunk, size int) bool {
	if c.usual == nil {
		select {
		case large := <-s.large:
			c.usual, c.text = c.text, append(large, c.text...)
		case <-s.broken:
			return false
		}
	}
	if cap(c.text) < size {
		size = max(size, min(2*cap(c.text), s.cfg.MaxLine+2*firstRead))
		c.text = append(make([]byte, 0, size), c.text...)
	}
	return true
}

// release gives back the memory of a long line.
func (s *stream) release(c *chunk) {
	if c.usual != nil {
		s.large <- c.text[:0]
		*c = chunk{text: c.usual}
	}
}

// interrupt ends a read that waits, when nobody wants its bytes any more. It
// reports whether it could.
func (s *stream) interrupt() bool {
	in := s.open.Load()
	return in == nil || in.interrupt()
}

// where is the input that is being read, for messages.
func (s *stream) where() string {
	if in := s.open.Load(); in != nil {
		return in.name
	}
	return "inputs"
}
