package state

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// pair measures two ways of doing the same by turns, and gives the medians, since
// a disk is not the same from one minute to the next. The processor's time, the
// system's included, says what the checksums cost where others use the machine,
// too.
func pair(b *testing.B, size int, ours, plain func() error) {
	var took, cpu [2][]time.Duration
	for turn := 0; b.Loop(); turn++ {
		for i := range 2 {
			i = (i + turn) % 2
			start, startCPU := time.Now(), cpuTime(b)
			if err := []func() error{ours, plain}[i](); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(start))
			cpu[i] = append(cpu[i], cpuTime(b)-startCPU)
		}
	}
	speed := func(d []time.Duration) float64 { return float64(size) / 1e6 / median(d).Seconds() }
	b.ReportMetric(speed(took[0]), "MB/s")
	b.ReportMetric(speed(took[1]), "plain-MB/s")
	b.ReportMetric(speed(took[0])/speed(took[1]), "of-plain")
	b.ReportMetric(1e6/speed(cpu[0]), "cpu-ms/GB")
	b.ReportMetric(1e6/speed(cpu[1]), "plain-cpu-ms/GB")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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

// writePlain writes a durable file without any check, and removes the one that was
// written two before.
func writePlain(dir string, number, size int) error {
	f, err := os.Create(filepath.Join(dir, strconv.Itoa(number)))
	if err != nil {
		return err
	}
	err = piecesOf(size, func(b []byte) error { _, err := f.Write(b); return err })
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, strconv.Itoa(number-kept))); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// forget takes a file out of the system's cache.
func forget(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
}

// writeOurs writes a checkpoint.
func writeOurs(h *house, size int) error {
	w, err := h.Create(p0)
	if err != nil {
		return err
	}
	if err := piecesOf(size, func(b []byte) error { _, err := w.Write(b); return err }); err != nil {
		return err
	}
	head := headOf(p0, 1, nil)
	head.BodyBytes = uint64(size)
	return w.Finish(head)
}

func BenchmarkWrite(b *testing.B) {
	h, size := open(b, b.TempDir()), benchBytes()
	dir, number := b.TempDir(), 0
	pair(b, size, func() error { return writeOurs(h, size) },
		func() error { number++; return writePlain(dir, number, size) })
}

func BenchmarkRead(b *testing.B) {
	h, size := open(b, b.TempDir()), benchBytes()
	if err := writeOurs(h, size); err != nil {
		b.Fatal(err)
	}
	file := h.List(p0)[0]
	memory := bytes.Repeat([]byte{1}, size) // as a filter has it, and the system gave it already
	ours := func() error {
		r, err := file.Open()
		if err != nil {
			return err
		}
		_, err = io.ReadFull(r, memory)
		return errors.Join(err, r.Close())
	}
	plain := func() error {
		f, err := os.Open(file.Name())
		if err != nil {
			return err
		}
		for at := 0; at < size; at += sectionBytes {
			if _, err := f.ReadAt(memory[at:at+sectionBytes], headerBytes+int64(at)); err != nil {
				return err
			}
		}
		return f.Close()
	}
	b.Run("cached", func(b *testing.B) { pair(b, size, ours, plain) })
	b.Run("disk", func(b *testing.B) {
		pair(b, size,
			func() error { return errors.Join(forget(file.Name()), ours()) },
			func() error { return errors.Join(forget(file.Name()), plain()) })
	})
}
