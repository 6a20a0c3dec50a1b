package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
)

// reading is what Read gave of inputs with these texts, in files.
func reading(t *testing.T, cfg Config, most int, texts ...string) ([]string, error) {
	t.Helper()
	for i, text := range texts {
		name := filepath.Join(t.TempDir(), fmt.Sprintf("%d.txt", i))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg.Inputs = append(cfg.Inputs, name)
	}
	cfg.MaxLine = 1 << 20
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = d.Read(t.Context(), func(records []pipeline.Record, at Progress) bool {
		for _, r := range records {
			got = append(got, string(r.Value))
		}
		if at.Read == 0 || at.Read > at.Size {
			t.Errorf("read %d of %d", at.Read, at.Size)
		}
		return len(got) < most
	})
	return got, err
}

func TestRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*chunkSize)
	for _, c := range []struct {
		name  string
		cfg   Config
		most  int
		texts []string
		want  []string
		err   error
	}{
		{"lines of several inputs", Config{}, 100, []string{"a\n\nb\r\n", "c"}, []string{"a", "b", "c"}, nil},
		{"a long line and a short one", Config{}, 100, []string{long + "\nb\n"}, []string{long, "b"}, nil},
		{"no more than is wanted", Config{}, 1, []string{"a\n", "b\n"}, []string{"a"}, nil},
		{"rows behind a header", Config{Rows: keys.CSV, Header: true}, 100, []string{"id\n\"a\nb\"\n", "id\nc\n"}, []string{"\"a\nb\"", "c"}, nil},
		{"a quote that does not close", Config{Rows: keys.CSV}, 100, []string{"a\n\"b\nc\n"}, []string{"a"}, ErrUnclosed},
		{"a line that is too long", Config{}, 100, []string{"a\n" + strings.Repeat("x", 2<<20) + "\nb\n"}, []string{"a"}, ErrLineTooLong},
	} {
		got, err := reading(t, c.cfg, c.most, c.texts...)
		if !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%s: %d records %.80q and %v, want %d and %v", c.name, len(got), got, err, len(c.want), c.err)
		}
	}
}
