package state

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/streamdedup/streamdedup/pipeline"
)

// File is one finished checkpoint whose header is right.
type File struct {
	path   string
	header *header
}

var _ pipeline.CheckpointFile = (*File)(nil)

// readFile reads all of a checkpoint but its body.
func readFile(path string) (*File, error) {
	file, h, _, err := openFile(path)
	if err != nil {
		return nil, err
	}
	return &File{path, h}, file.Close()
}

// openFile is also for who goes on to read the body.
func openFile(path string) (*os.File, *header, []uint32, error) {
	// Opening a pipe would wait for someone to write into it.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, nil, nil, errNotCheckpoint
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, nil, err
	}
	h, sums, err := func() (*header, []uint32, error) {
		info, err := file.Stat()
		if err != nil {
			return nil, nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, nil, errNotCheckpoint
		}
		return readHeader(file, info.Size())
	}()
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, nil, nil, err
	}
	return file, h, sums, nil
}

// belongs is whether the checkpoint is of that partition of those topics.
func (f *File) belongs(p pipeline.Partition, topics Identity) error {
	switch h := f.header; {
	case h.head.Partition != p:
		return fmt.Errorf("%w: it is of partition %s", errForeign, h.head.Partition)
	case h.topics.Input != topics.Input:
		return fmt.Errorf("%w: the input topic had ID %x, now %x: it was deleted and made again, or is another cluster's",
			errForeign, h.topics.Input, topics.Input)
	case h.topics.Changelog != topics.Changelog:
		return fmt.Errorf("%w: the changelog topic had ID %x, now %x: it was deleted and made again, or is another cluster's",
			errForeign, h.topics.Changelog, topics.Changelog)
	}
	return nil
}

// Name is the file's path.
func (f *File) Name() string { return f.path }

// Head was read and found whole.
func (f *File) Head() *pipeline.CheckpointHead { return &f.header.head }

// Topics are those that the checkpoint is of.
func (f *File) Topics() Identity { return f.header.topics }

// Open reads the body. No byte of a section is given out before all of it was
// found right. A reader that has room for whole sections gets them without a copy.
func (f *File) Open() (io.ReadCloser, error) {
	file, h, sums, err := openFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("read checkpoint %s: %w", f.path, plain(err))
	}
	if h.crc != f.header.crc {
		_ = file.Close() // nothing was written
		return nil, fmt.Errorf("read checkpoint %s: it was replaced by another", f.path)
	}
	return &body{file: file, path: f.path, sums: sums, size: int64(h.head.BodyBytes)}, nil
}

// body reads the sections of a checkpoint in order.
type body struct {
	file interface {
		io.ReaderAt
		io.Closer
	}
	path string
	sums []uint32
	size int64

	section int    // the next to read
	buf     []byte // made for a reader with little room
	rest    []byte // of buf, not given out yet
	failed  error
}

func (b *body) Read(p []byte) (int, error) {
	if len(b.rest) > 0 || len(p) == 0 {
		n := copy(p, b.rest)
		b.rest = b.rest[n:]
		return n, nil
	}
	if b.failed != nil {
		return 0, b.failed
	}
	if b.section == len(b.sums) {
		return 0, io.EOF
	}
	at := int64(b.section) * sectionBytes
	n := int(min(sectionBytes, b.size-at))
	to := p
	if len(p) < n {
		if b.buf == nil {
			b.buf = make([]byte, n) // the first section is the longest
		}
		to = b.buf
	}
	if b.failed = b.read(to[:n], at); b.failed != nil {
		return 0, b.failed
	}
	b.section++
	if len(p) < n {
		n = copy(p, to[:n])
		b.rest = to[n:min(sectionBytes, b.size-at)]
	}
	return n, nil
}

// pieceBytes is enough for a disk, and still in the second-level cache when it is
// summed up.
const pieceBytes = 256 << 10

// read reads one section and checks it.
func (b *body) read(to []byte, at int64) error {
	var sum uint32
	for len(to) > 0 {
		piece := to[:min(len(to), pieceBytes)]
		if _, err := b.file.ReadAt(piece, headerBytes+at); errors.Is(err, io.EOF) {
			return fmt.Errorf("read checkpoint %s: %w", b.path, errCutOff)
		} else if err != nil {
			return fmt.Errorf("read checkpoint %s: %w", b.path, plain(err))
		}
		sum = crc32.Update(sum, castagnoli, piece)
		to, at = to[len(piece):], at+int64(len(piece))
	}
	if sum != b.sums[b.section] {
		return fmt.Errorf("read checkpoint %s: %w: the checksum of section %d of %d is wrong",
			b.path, errDamaged, b.section+1, len(b.sums))
	}
	return nil
}

func (b *body) Close() error { return b.file.Close() }
