package state

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// benchBytes is the length of the body: 1 GiB in a long run.
func benchBytes() int {
	if os.Getenv("STREAMDEDUP_LONG") != "" {
		return 1 << 30
	}
	return 64 << 20
}

// pair measures two ways of doing the same by turns, since a disk is not the same
// from one minute to the next.
func pair(b *testing.B, bytes int, ours, plain func() error) {
	var took [2]time.Duration
	for b.Loop() {
		for i, do := range []func() error{ours, plain} {
			start := time.Now()
			if err := do(); err != nil {
				b.Fatal(err)
			}
			took[i] += time.Since(start)
		}
	}
	speed := func(d time.Duration) float64 { return float64(b.N) * float64(bytes) / 1e6 / d.Seconds() }
	b.ReportMetric(speed(took[0]), "MB/s")
	b.ReportMetric(speed(took[1]), "plain-MB/s")
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "of-plain")
}

// piecesOf is a body in the pieces that an engine hands over.
func piecesOf(size int, write func([]byte) error) error {
	piece := make([]byte, sectionBytes)
	for i := range piece {
		piece[i] = byte(i * i >> 8)
	}
	for range size / sectionBytes {
		if err := write(piece); err != nil {
			return err
		}
	}
	return nil
}

// writePlain writes a durable file without any check.
func writePlain(path string, size int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = piecesOf(size, func(b []byte) error { _, err := f.Write(b); return err })
	return errors.Join(err, f.Sync(), f.Close())
}

// forget takes a file out of the system's cache.
func forget(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
}

func BenchmarkWrite(b *testing.B) {
	h, size := open(b, b.TempDir()), benchBytes()
	head := headOf(p0, 1, nil)
	head.BodyBytes = uint64(size)
	other := filepath.Join(b.TempDir(), "plain")
	pair(b, size, func() error {
		w, err := h.Create(p0)
		if err != nil {
			return err
		}
		if err := piecesOf(size, func(b []byte) error { _, err := w.Write(b); return err }); err != nil {
			return err
		}
		return w.Finish(head)
	}, func() error { return writePlain(other, size) })
}

func BenchmarkRead(b *testing.B) {
	h, size := open(b, b.TempDir()), benchBytes()
	head := headOf(p0, 1, nil)
	head.BodyBytes = uint64(size)
	w, err := h.Create(p0)
	if err != nil {
		b.Fatal(err)
	}
	if err := piecesOf(size, func(b []byte) error { _, err := w.Write(b); return err }); err != nil {
		b.Fatal(err)
	}
	if err := w.Finish(head); err != nil {
		b.Fatal(err)
	}
	ours := h.List(p0)[0]
	plain := filepath.Join(b.TempDir(), "plain")
	if err := writePlain(plain, size); err != nil {
		b.Fatal(err)
	}
	memory := make([]byte, size) // as a filter has it
	read := func(open func() (io.ReadCloser, error)) error {
		r, err := open()
		if err != nil {
			return err
		}
		_, err = io.ReadFull(r, memory)
		return errors.Join(err, r.Close())
	}
	readOurs := func() error { return read(ours.Open) }
	readPlain := func() error { return read(func() (io.ReadCloser, error) { return os.Open(plain) }) }
	b.Run("cached", func(b *testing.B) { pair(b, size, readOurs, readPlain) })
	b.Run("disk", func(b *testing.B) {
		pair(b, size,
			func() error { return errors.Join(forget(ours.Name()), readOurs()) },
			func() error { return errors.Join(forget(plain), readPlain()) })
	})
}
