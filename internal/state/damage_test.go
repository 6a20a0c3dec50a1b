package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden file anew: a change of format, which needs another version")

// victim is a folder with one checkpoint, whose file a test may change.
type victim struct {
	*house
	path        string
	body, whole []byte
	file        *os.File
}

func newVictim(t testing.TB, body []byte) *victim {
	t.Helper()
	v := &victim{house: open(t, t.TempDir()), body: body}
	v.save(p0, 1, body)
	v.path = v.List(p0)[0].Name()
	var err error
	if v.whole, err = os.ReadFile(v.path); err != nil {
		t.Fatal(err)
	}
	if v.file, err = os.OpenFile(v.path, os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.file.Close() })
	return v
}

// write replaces bytes of the file.
func (v *victim) write(b []byte, at int) {
	v.t.Helper()
	if _, err := v.file.WriteAt(b, int64(at)); err != nil {
		v.t.Fatal(err)
	}
}

func (v *victim) truncate(n int) {
	v.t.Helper()
	if err := v.file.Truncate(int64(n)); err != nil {
		v.t.Fatal(err)
	}
}

// refused expects that the checkpoint does not load as good: it is not listed, and
// the log says why, or its body does not come to its end, and what came is right.
func (v *victim) refused(what string, buffer int) {
	v.t.Helper()
	v.log.Reset()
	files := v.List(p0)
	if len(files) == 0 {
		if !strings.Contains(v.log.String(), v.path) {
			v.t.Fatalf("%s: refused without a word; log: %s", what, v.log)
		}
		return
	}
	got, err := load(files[0], buffer)
	if err == nil {
		v.t.Fatalf("%s: loads as good", what)
	}
	if !bytes.HasPrefix(v.body, got) {
		v.t.Fatalf("%s: the %d bytes before %q are not the body's", what, len(got), err)
	}
}

const bigBody = sectionBytes + sectionBytes/4 + 77

func TestCutAnywhereIsRefused(t *testing.T) {
	r := seeded(t)
	v := newVictim(t, random(r, bigBody))
	for n := len(v.whole) - 1; n >= headerBytes; n -= 1 + r.IntN(2*len(v.whole)/1000) {
		v.truncate(n)
		v.refused(fmt.Sprintf("cut to %d bytes", n), sectionBytes)
	}
	for n := headerBytes; n >= 0; n-- {
		v.truncate(n)
		v.refused(fmt.Sprintf("cut to %d bytes", n), sectionBytes)
	}
}

// A file that became longer than it was, with zeros as a crash leaves them.
func TestCutAndFilledWithZerosIsRefused(t *testing.T) {
	r := seeded(t)
	v := newVictim(t, random(r, bigBody))
	for range 200 {
		n := r.IntN(len(v.whole))
		if r.IntN(4) == 0 {
			n = r.IntN(headerBytes)
		}
		v.truncate(n)
		v.truncate(len(v.whole))
		v.refused(fmt.Sprintf("zeros from byte %d", n), sectionBytes)
		v.write(v.whole[n:], n)
	}
	v.holds(p0, map[int64][]byte{1: v.body}, 1)
}

func TestOneBitFlippedAnywhereIsRefused(t *testing.T) {
	r := seeded(t)
	v := newVictim(t, random(r, bigBody))
	flip := func(at int) {
		t.Helper()
		bit := byte(1) << r.IntN(8)
		v.write([]byte{v.whole[at] ^ bit}, at)
		// A reader with little room is served by other code.
		v.refused(fmt.Sprintf("bit %#02x of byte %d", bit, at), []int{sectionBytes, 100_000}[r.IntN(2)])
		v.write(v.whole[at:at+1], at)
	}
	for at := range headerBytes {
		flip(at)
	}
	for range 1000 {
		flip(headerBytes + r.IntN(len(v.whole)-headerBytes))
	}
	for at := len(v.whole) - 3*sumBytes; at < len(v.whole); at++ {
		flip(at)
	}
	v.holds(p0, map[int64][]byte{1: v.body}, 1)
}

// What is damaged behind our back, between List and Open and while it is read.
func TestChangedAfterItWasListed(t *testing.T) {
	v := newVictim(t, bytes.Repeat([]byte{7}, 2*sectionBytes))
	f := v.List(p0)[0]
	r, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	v.truncate(headerBytes + sectionBytes + 1)
	got, err := io.ReadAll(r)
	if !errors.Is(err, errCutOff) || len(got) > sectionBytes {
		t.Errorf("read %d bytes, error %v", len(got), err)
	}
	if _, again := r.Read(make([]byte, 10)); !errors.Is(again, errCutOff) {
		t.Errorf("read once more: %v", again)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.Open(); !errors.Is(err, errCutOff) {
		t.Errorf("opened: %v", err)
	}
	if err := os.Remove(v.path); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Open(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("opened what is gone: %v", err)
	}
	other := newVictim(t, []byte("another"))
	if err := os.Rename(other.path, v.path); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Open(); err == nil || !strings.Contains(err.Error(), "replaced by another") {
		t.Errorf("opened another: %v", err)
	}
}

func TestRefusedByName(t *testing.T) {
	id := Identity{Input: topics.Input, Changelog: [16]byte{0xbb}}
	for name, c := range map[string]struct {
		spoil func(v *victim)
		want  []string
	}{
		"damaged header": {func(v *victim) { v.write([]byte{0xff}, 100) }, []string{"damaged", "header"}},
		"damaged table":  {func(v *victim) { v.write([]byte{0xff}, len(v.whole)-1) }, []string{"damaged", "table"}},
		"no header":      {func(v *victim) { v.truncate(100) }, []string{"cut off", "100 bytes"}},
		"cut off":        {func(v *victim) { v.truncate(len(v.whole) - 1) }, []string{"cut off", "16391 bytes of 16392"}},
		"trailing bytes": {func(v *victim) { v.write([]byte{0}, len(v.whole)) }, []string{"damaged", "1 bytes more"}},
		"empty":          {func(v *victim) { v.truncate(0) }, []string{"cut off"}},
		"newer": {func(v *victim) { v.write([]byte{FormatVersion + 1}, versionAt) },
			[]string{"format version", fmt.Sprintf("it has %d", FormatVersion+1), fmt.Sprintf("reads %d", FormatVersion)}},
		"no checkpoint": {func(v *victim) { v.write([]byte("PNG"), 0) }, []string{"not a checkpoint"}},
		"a folder": {func(v *victim) {
			if err := errors.Join(os.Remove(v.path), os.Mkdir(v.path, 0o700)); err != nil {
				v.t.Fatal(err)
			}
		}, []string{"not a checkpoint"}},
		"input made again": {func(v *victim) {
			v.cfg.IDs = func(string) (Identity, error) { return Identity{[16]byte{0xaa}, topics.Changelog}, nil }
		}, []string{"input topic had ID 010203", "now aa00", "made again"}},
		"changelog made again": {func(v *victim) { v.cfg.IDs = func(string) (Identity, error) { return id, nil } },
			[]string{"changelog topic had ID 040506", "now bb00"}},
		"another partition's": {func(v *victim) {
			v.save(p1, 1, v.body)
			if err := os.Rename(v.List(p1)[0].Name(), v.path); err != nil {
				v.t.Fatal(err)
			}
		}, []string{"another's", "orders/1"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVictim(t, []byte("body"))
			c.spoil(v)
			v.log.Reset()
			if got := v.List(p0); len(got) > 0 {
				t.Errorf("listed: %+v", got[0].Head())
			}
			for _, want := range append(c.want, "checkpoint refused", v.path) {
				if !strings.Contains(v.log.String(), want) {
					t.Errorf("%q is not in the log: %s", want, v.log)
				}
			}
		})
	}
}

// A damaged one is passed over for the one before it.
func TestListPassesOver(t *testing.T) {
	v := newVictim(t, []byte("one"))
	v.save(p0, 2, []byte("two"))
	newest := v.List(p0)[0].Name()
	if err := os.Truncate(newest, 99); err != nil {
		t.Fatal(err)
	}
	v.holds(p0, map[int64][]byte{1: []byte("one")}, 1)
}

// A header with the right checksum may still lie: of what it claims nothing is
// allocated, and nothing is believed that cannot be.
func TestHeaderThatLies(t *testing.T) {
	v := newVictim(t, []byte("body"))
	for name, change := range map[string]func(b []byte){
		"longest body":    func(b []byte) { binary.LittleEndian.PutUint64(b[56:], 1<<62) },
		"endless body":    func(b []byte) { binary.LittleEndian.PutUint64(b[56:], 1<<64-1) },
		"large body":      func(b []byte) { binary.LittleEndian.PutUint64(b[56:], 1<<40) },
		"shorter body":    func(b []byte) { binary.LittleEndian.PutUint64(b[56:], 3) },
		"no partition":    func(b []byte) { binary.LittleEndian.PutUint32(b[48:], 1<<31) },
		"end before":      func(b []byte) { binary.LittleEndian.PutUint64(b[72:], 0) },
		"log end before":  func(b []byte) { binary.LittleEndian.PutUint64(b[80:], 1<<40) },
		"long topic":      func(b []byte) { binary.LittleEndian.PutUint32(b[wordsAt:], 1<<32-1) },
		"no topic":        func(b []byte) { binary.LittleEndian.PutUint32(b[wordsAt:], 0) },
		"all of it topic": func(b []byte) { binary.LittleEndian.PutUint32(b[wordsAt:], headerBytes-wordsAt-4) },
	} {
		b := bytes.Clone(v.whole[:headerBytes])
		change(b)
		binary.LittleEndian.PutUint32(b[sumAt:], headerSum(b))
		v.write(b, 0)
		v.refused(name, sectionBytes)
	}
}

// A version byte that was flipped, and a version that is not this program's, are
// refused by both numbers, and the file of this release stays readable.
func TestCase_STATE_09_checkpoint(t *testing.T) {
	golden := filepath.Join("testdata", "v1.checkpoint")
	body := make([]byte, 16*64)
	for i := range body {
		body[i] = byte(i*i>>3 + i)
	}
	want := headOf(p0, 4711, body)
	if *rewrite {
		h := open(t, t.TempDir())
		h.save(p0, 4711, body)
		text, err := os.ReadFile(h.List(p0)[0].Name())
		if err := errors.Join(err, os.MkdirAll("testdata", 0o755), os.WriteFile(golden, text, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	v := newVictim(t, body)
	v.truncate(0)
	v.write(stored, 0)
	f := v.List(p0)
	if len(f) != 1 {
		t.Fatalf("refused: %s", v.log)
	}
	if !reflect.DeepEqual(f[0].Head(), want) {
		t.Errorf("head\ngot  %+v\nwant %+v", f[0].Head(), want)
	}
	if got, err := load(f[0], 100); err != nil || !bytes.Equal(got, body) {
		t.Errorf("body: %x, error %v", got, err)
	}
	// Writing the same again gives the same file.
	v.save(p0, 4711, body)
	if again, err := os.ReadFile(v.List(p0)[0].Name()); err != nil || !bytes.Equal(again, stored) {
		t.Errorf("the format has changed (error %v): raise FormatVersion, and keep the old golden file", err)
	}
	for bit := range 32 {
		version := uint32(FormatVersion) ^ 1<<bit
		v.write(binary.LittleEndian.AppendUint32(nil, version), versionAt)
		v.log.Reset()
		if files := v.List(p0); len(files) != 1 {
			t.Errorf("version %d: listed %d", version, len(files))
		}
		says := fmt.Sprintf("it has %d, this program reads %d", version, FormatVersion)
		if !strings.Contains(v.log.String(), says) {
			t.Errorf("%q is not in the log: %s", says, v.log)
		}
	}
}

// FuzzRead reads a file that may be anything: as it is, and with the checksums of
// its header and table put right.
func FuzzRead(f *testing.F) {
	for _, body := range [][]byte{nil, []byte("body")} {
		h := open(f, f.TempDir())
		h.save(p0, 5, body)
		whole, err := os.ReadFile(h.List(p0)[0].Name())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(whole)
		f.Add(whole[:len(whole)/2])
	}
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		readAll(t, data)
		if len(data) >= headerBytes {
			data = bytes.Clone(data)
			copy(data, magic)
			binary.LittleEndian.PutUint32(data[versionAt:], FormatVersion)
			if n := binary.LittleEndian.Uint64(data[56:]); n < uint64(len(data)-headerBytes) {
				binary.LittleEndian.PutUint32(data[52:], sum(data[headerBytes+n:]))
			}
			binary.LittleEndian.PutUint32(data[sumAt:], headerSum(data))
			readAll(t, data)
		}
	})
}

// readAll reads data as a file. What is good is what would be written.
func readAll(t *testing.T, data []byte) {
	h, sums, err := readHeader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return
	}
	if len(sums)*sumBytes > len(data) {
		t.Fatalf("%d sums of a file of %d bytes", len(sums), len(data))
	}
	file := struct {
		io.ReaderAt
		io.Closer
	}{bytes.NewReader(data), nil}
	got, err := io.ReadAll(&body{file: file, path: "f", sums: sums, size: int64(h.head.BodyBytes)})
	if err != nil {
		return
	}
	if want := data[headerBytes : headerBytes+h.head.BodyBytes]; !bytes.Equal(got, want) {
		t.Fatalf("body of %d bytes, want %d", len(got), len(want))
	}
	again, err := h.encode()
	if err != nil {
		t.Fatal(err)
	}
	// The checksum may differ: numbers have more than one form.
	if back, err := decode(again); err != nil || !reflect.DeepEqual(back.head, h.head) || back.topics != h.topics || back.table != h.table {
		t.Fatalf("error %v\ngot  %+v\nwant %+v", err, back, h)
	}
}
