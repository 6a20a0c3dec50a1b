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
