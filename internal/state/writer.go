package state

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/streamdedup/streamdedup/internal/durable"
	"github.com/streamdedup/streamdedup/pipeline"
)

// Writer writes one checkpoint. After an error there is nothing left of it, unless
// all but the flush of the folder went well: then it is there, and whole.
type Writer struct {
	folder    *Folder
	partition pipeline.Partition
	topics    Identity
	file      *os.File
	path      string // the temporary file's

	size   uint64   // of the body so far
	sums   []uint32 // of its whole sections
	open   uint32   // CRC of the section that is not whole
	failed error    // why there is no more
}

var _ pipeline.CheckpointWriter = (*Writer)(nil)

// Create begins a checkpoint of p. It belongs to the topics that have the names
// now.
func (f *Folder) Create(p pipeline.Partition) (pipeline.CheckpointWriter, error) {
	topics, err := f.cfg.IDs(p.Topic)
	if err != nil {
		return nil, fmt.Errorf("begin checkpoint of %s: %w", p, err)
	}
	sequence, err := f.next()
	if err != nil {
		return nil, fmt.Errorf("begin checkpoint of %s: %w", p, err)
	}
	w := &Writer{
		folder: f, partition: p, topics: topics,
		path: filepath.Join(f.path, fileName(shardName(p), sequence)+temporary),
	}
	w.file, err = os.OpenFile(w.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, failed(err, "begin checkpoint of %s in %s", p, f.path)
	}
	if _, err := w.file.Write(make([]byte, headerBytes)); err != nil {
		return nil, w.fail(err)
	}
	return w, nil
}

// Write adds to the body.
func (w *Writer) Write(b []byte) (int, error) {
	if w.failed != nil {
		return 0, w.failed
	}
	n, err := w.file.Write(b)
	w.count(b[:n])
	if err != nil {
		return n, w.fail(err)
	}
	return n, nil
}

// count adds what was written to the checksums.
func (w *Writer) count(b []byte) {
	for len(b) > 0 {
		part := b[:min(uint64(len(b)), sectionBytes-w.size%sectionBytes)]
		w.open = crc32.Update(w.open, castagnoli, part)
		w.size += uint64(len(part))
		b = b[len(part):]
		if w.size%sectionBytes == 0 {
			w.endSection()
		}
	}
}

func (w *Writer) endSection() {
	w.sums = append(w.sums, w.open)
	w.open = 0
}

// Finish makes the checkpoint durable, and the newest of its partition; it
// removes the oldest then.
func (w *Writer) Finish(h *pipeline.CheckpointHead) error {
	if w.failed != nil {
		return w.failed
	}
	if err := w.seal(h); err != nil {
		return w.fail(err)
	}
	if err := w.publish(); err != nil {
		return w.fail(err)
	}
	w.failed = errors.New("the checkpoint is finished")
	w.folder.prune(w.partition)
	return nil
}

// seal makes the temporary file whole and durable.
func (w *Writer) seal(h *pipeline.CheckpointHead) error {
	if h.Partition != w.partition || h.BodyBytes != w.size {
		return fmt.Errorf("it was begun for %s and has a body of %d bytes, its head is of %s with %d",
			w.partition, w.size, h.Partition, h.BodyBytes)
	}
	if w.size%sectionBytes > 0 {
		w.endSection()
	}
	table := appendTable(nil, w.sums)
	block, err := (&header{head: *h, topics: w.topics, table: sum(table)}).encode()
	if err != nil {
		return err
	}
	if _, err := w.file.Write(table); err != nil {
		return err
	}
	if _, err := w.file.WriteAt(block, 0); err != nil {
		return err
	}
	// The name must not be durable before what it names.
	if err := w.file.Sync(); err != nil {
		return err
	}
	return w.file.Close()
}

// publish gives the file its name. The number is a new one: the newest is the
// one that ended last, not the one that began last.
func (w *Writer) publish() error {
	sequence, err := w.folder.next()
	if err != nil {
		return err
	}
	if err := os.Rename(w.path, filepath.Join(w.folder.path, fileName(shardName(w.partition), sequence))); err != nil {
		return err
	}
	return durable.SyncFolder(w.folder.path)
}

// Abort leaves nothing behind. After Finish, or an error, it does nothing.
func (w *Writer) Abort() {
	if w.failed == nil {
		_ = w.fail(errors.New("given up"))
	}
}

// fail ends the checkpoint and removes what there is of it.
func (w *Writer) fail(cause error) error {
	w.failed = failed(cause, "write checkpoint of %s in %s", w.partition, w.folder.path)
	// What cannot be removed now is removed when the folder is opened again.
	_ = w.file.Close()
	_ = os.Remove(w.path)
	return w.failed
}
