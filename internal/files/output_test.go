package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/streamdedup/streamdedup/internal/durable"
)

// wantFile wants a file with that text, none where it is "".
func wantFile(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(name)
	if want == "" {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %q, %v, want none", name, got, err)
		}
	} else if err != nil || string(got) != want {
		t.Errorf("%s: %q, %v, want %q", name, got, err, want)
	}
}

func create(t *testing.T, name string) *Output {
	t.Helper()
	o, err := Create(name)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func write(t *testing.T, o *Output, text string) {
	t.Helper()
	if err := o.Begin(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(o, text); err != nil {
		t.Fatal(err)
	}
}

// What an earlier run has left may be the only copy: a run that does not begin leaves it
// as it found it, and nothing where there was nothing.
func TestAnOutputThatDoesNotBeginLeavesWhatItFound(t *testing.T) {
	for _, suffix := range []string{"", ".gz", ".zst"} {
		name := filepath.Join(t.TempDir(), "out"+suffix)
		o := create(t, name)
		o.Abandon()
		wantFile(t, name+Partial, "")
		if o.Incomplete() {
			t.Errorf("%s is incomplete, and nothing was written", name)
		}
		if err := os.WriteFile(name+Partial, []byte("earlier"), 0o600); err != nil {
			t.Fatal(err)
		}
		create(t, name).Abandon()
		wantFile(t, name+Partial, "earlier")
		o = create(t, name)
		if err := o.Finish(); err != nil {
			t.Fatal(err)
		}
		wantFile(t, name+Partial, "")
		whole, err := os.ReadFile(name)
		if err != nil || string(whole) != string(packedOr(t, suffix, "")) {
			t.Errorf("%s: %q, %v, want nothing but what an empty one has", name, whole, err)
		}
	}
}

// packedOr is text as a file with that suffix has it, which may be as it is.
func packedOr(t *testing.T, suffix, text string) []byte {
	t.Helper()
	if packers[suffix] == nil {
		return []byte(text)
	}
	return packed(t, suffix, text)
}

func TestAnOutputThatBeginsDropsWhatItFound(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(name+Partial, []byte("earlier, and longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := create(t, name)
	write(t, o, "a\n")
	write(t, o, "b\n")
	wantFile(t, name+Partial, "a\nb\n")
	o.Abandon()
	if !o.Incomplete() || o.Written() != name+Partial {
		t.Errorf("%s is complete, and was abandoned", o.Written())
	}
	wantFile(t, name+Partial, "a\nb\n")
}

// Two that write one output would mix their lines.
func TestAnOutputHasOneWriter(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	first := create(t, name)
	refused := func() {
		t.Helper()
		if o, err := Create(name); !errors.Is(err, ErrInUse) {
			t.Fatalf("a second writer: %v, %v, want ErrInUse", o, err)
		}
	}
	refused()
	write(t, first, "first\n")
	refused()
	wantFile(t, name+Partial, "first\n")
	if err := first.Finish(); err != nil {
		t.Fatal(err)
	}
	second := create(t, name)
	write(t, second, "second\n")
	wantFile(t, name, "first\n")
	second.Abandon()
	third := create(t, name)
	wantFile(t, name+Partial, "second\n")
	third.Abandon()
}

// Who opens a file just before it gets its final name, and locks it just after, does not
// write to what is complete.
func TestALockIsOfTheFileThatHasTheName(t *testing.T) {
	if !durable.RenamesOpen {
		t.Skip("an open file cannot be renamed here")
	}
	name := filepath.Join(t.TempDir(), "out")
	first := create(t, name)
	write(t, first, "first\n")
	late, err := os.OpenFile(name+Partial, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Finish(); err != nil {
		t.Fatal(err)
	}
	if named, err := lockNamed(late, name+Partial); named || err != nil {
		t.Errorf("a file that was renamed: %v, %v, want it not to have the name", named, err)
	}
	second := create(t, name)
	defer second.Abandon()
	if named, err := lockNamed(late, name+Partial); named || err != nil {
		t.Errorf("a file that was renamed, and there is another: %v, %v, want it not to have the name", named, err)
	}
	if named, err := lockNamed(late, name); !named || err != nil {
		t.Errorf("a file under its name: %v, %v", named, err)
	}
	if err := late.Close(); err != nil {
		t.Error(err)
	}
}

// Each file that is complete is of one writer, however many there are.
func TestAnOutputIsOfOneWriterAlone(t *testing.T) {
	if !durable.RenamesOpen {
		t.Skip("a file that is read cannot be replaced here")
	}
	name := filepath.Join(t.TempDir(), "out")
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for done := 0; done < 40; {
				o, err := Create(name)
				if errors.Is(err, ErrInUse) {
					continue
				}
				text := fmt.Sprintf("%d %d\n", i, done)
				if err == nil {
					err = o.Begin()
				}
				for range 2 {
					if err == nil {
						_, err = io.WriteString(o, text)
					}
				}
				if err == nil && done%2 == 1 {
					o.Abandon()
				} else if err == nil {
					err = o.Finish()
				}
				if err != nil {
					t.Error(err)
					return
				}
				whole, err := os.ReadFile(name)
				if half := len(whole) / 2; err != nil || half == 0 || string(whole[:half]) != string(whole[half:]) {
					t.Errorf("%q, %v, want two lines of one writer", whole, err)
				}
				done++
			}
		})
	}
	writers.Wait()
}
