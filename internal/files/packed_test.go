package files

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/streamdedup/streamdedup/filter"
)

// packed is text as a file with that suffix has it.
func packed(t *testing.T, suffix, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := packers[suffix](&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// slicedSet makes sets of a window.
func slicedSet(t *testing.T) func() (filter.Set, error) {
	t.Helper()
	params, err := filter.Size(1<<18, 1e-6, filter.Compact)
	if err != nil {
		t.Fatal(err)
	}
	return func() (filter.Set, error) { return filter.NewSliced(params) }
}

// A compressed file that is cut short, at whichever byte, is an error that names
// it. What came out before is whole lines from the start.
func TestATruncatedFileIsAnError(t *testing.T) {
	var lines strings.Builder
	for i := range 3000 {
		lines.WriteString(strconv.Itoa(i*i*7919) + " of many lines\n")
	}
	text := lines.String()
	for suffix := range packers {
		whole := packed(t, suffix, text)
		name := filepath.Join(t.TempDir(), "lines"+suffix)
		for n := 0; n < len(whole); n++ {
			if n > 40 && n < len(whole)-140 {
				n += 96
			}
			if err := os.WriteFile(name, whole[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			_, err := run(t.Context(), t, Config{Inputs: []string{name}, Workers: 2}, &out, rules(t, 10_000, nil))
			if !errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "read "+name+" after line "+strconv.Itoa(strings.Count(out.String(), "\n"))+": ") {
				t.Fatalf("%s cut after %d of %d bytes: error %v, with %d lines out", suffix, n, len(whole), err, strings.Count(out.String(), "\n"))
			}
			if !strings.HasPrefix(text, out.String()) || out.Len() > 0 && !strings.HasSuffix(out.String(), "\n") {
				t.Fatalf("%s cut after %d of %d bytes: what came out is no whole lines", suffix, n, len(whole))
			}
		}
		if err := os.WriteFile(name, append(whole, whole...), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		counts, err := run(t.Context(), t, Config{Inputs: []string{name}}, &out, rules(t, 10_000, nil))
		if err != nil || out.String() != text || counts.In != 6000 {
			t.Errorf("two %s files in one: %v, %d lines in, %d bytes out", suffix, err, counts.In, out.Len())
		}
	}
}

// Zero bytes may follow gzip, and nothing else; nor may they stand between members.
func TestZeroBytesMayFollowGzip(t *testing.T) {
	f := func(what string, damaged bool, parts ...[]byte) {
		t.Helper()
		name := filepath.Join(t.TempDir(), "lines.gz")
		if err := os.WriteFile(name, bytes.Join(parts, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		_, err := run(t.Context(), t, Config{Inputs: []string{name}}, &out, rules(t, 10, nil))
		if errors.Is(err, ErrDamaged) != damaged || !damaged && err != nil {
			t.Errorf("%s: error %v, want one: %v", what, err, damaged)
		}
		if want := "a\nb\n"; out.String() != want && (!damaged || len(parts) > 1 && out.String() != "a\n") {
			t.Errorf("%s: %q out, want %q", what, out.String(), want)
		}
	}
	a, b, both := packed(t, ".gz", "a\n"), packed(t, ".gz", "b\n"), packed(t, ".gz", "a\nb\n")
	f("a zero", false, both, []byte{0})
	f("zeros to the next block", false, both, make([]byte, 2*packedRead))
	f("zeros behind two members", false, a, b, make([]byte, 512))
	f("zeros between members", true, a, make([]byte, 512), b)
	f("a one", true, both, []byte{1})
	f("a one behind zeros", true, both, make([]byte, packedRead), []byte{1})
	f("the start of another member", true, both, b[:5])
	f("zeros alone", true, make([]byte, 512))
}

// Compressed bytes are no lines, where the name does not say what they are: however
// the first of them come.
func TestCompressedInputWithoutASuffixIsRefused(t *testing.T) {
	for suffix := range packers {
		whole := packed(t, suffix, "a\n")
		for kind, src := range map[string]io.Reader{
			"whole": bytes.NewReader(whole), "bytewise": iotest.OneByteReader(bytes.NewReader(whole)),
		} {
			var out strings.Builder
			_, err := run(t.Context(), t, Config{Stdin: src}, &out, rules(t, 10, nil))
			compressed := (*CompressedError)(nil)
			if !errors.As(err, &compressed) || compressed.Suffix != suffix || compressed.Input != "stdin" || out.Len() > 0 {
				t.Errorf("%s, read %s: error %v, %q out, want it refused", suffix, kind, err, out.String())
			}
		}
		// Not all of the magic bytes are text.
		for n := 1; n < longestMagic-1; n++ {
			var out strings.Builder
			in := string(whole[:n]) + "\n"
			if _, err := run(t.Context(), t, Config{Stdin: iotest.OneByteReader(strings.NewReader(in))}, &out, rules(t, 10, nil)); err != nil || out.String() != in {
				t.Errorf("%q: error %v, %q out", in, err, out.String())
			}
		}
	}
}

// A flipped bit is found by the checksum at the latest.
func TestADamagedFileIsAnError(t *testing.T) {
	text := strings.Repeat("a line of many\n", 10_000)
	for suffix := range packers {
		whole := packed(t, suffix, text)
		whole[len(whole)/2] ^= 4
		name := filepath.Join(t.TempDir(), "lines"+suffix)
		if err := os.WriteFile(name, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := run(t.Context(), t, Config{Inputs: []string{name}}, io.Discard, rules(t, 10_000, nil)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s with a flipped bit: error %v, want ErrDamaged", suffix, err)
		}
	}
}
