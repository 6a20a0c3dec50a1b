package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
)

// One quote too many makes the rest of a file one record. It keeps its bytes, and
// somebody must learn of it: by the line of the quote, and how much it took along.
func TestAQuoteThatIsNotClosedIsTold(t *testing.T) {
	rows := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%d,\"of two\nlines\"\n", i)
		}
		return b.String()
	}
	for _, c := range []struct {
		name, before, row, after string
		line                     int
	}{
		{"in the first row", "", "a,\"b\n", rows(10), 1},
		{"behind other rows", rows(10), "a,\"b\n", rows(10), 21},
		{"in the second line of its row", rows(1), "a,\"b\nc\",\"d\n", "", 4},
		{"at the end, without a line end", rows(1), "a,\"", "", 3},
		{"chunks later", rows(chunkSize / 10), "a,\"b\n", "x,y\n", 2*(chunkSize/10) + 1},
		{"more than a chunk", rows(3), "a,\"b\n", strings.Repeat("c,d\n", chunkSize), 7},
	} {
		// Quotes of rows that follow would close it.
		after := strings.ReplaceAll(c.after, `"`, "")
		in := c.before + c.row + after
		want := in
		if !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		for kind, src := range map[string]io.Reader{
			"whole": strings.NewReader(in), "halved": iotest.HalfReader(strings.NewReader(in)), "data at EOF": iotest.DataErrReader(strings.NewReader(in)),
		} {
			var out bytes.Buffer
			var told []Unclosed
			counts, err := run(t.Context(), t, Config{Stdin: src, Rows: keys.CSV, Unclosed: func(u Unclosed) { told = append(told, u) }},
				&out, rules(t, 1<<18, key("column:1")))
			if err != nil || out.String() != want || counts.Verdicts[pipeline.Invalid] != 1 {
				t.Errorf("%s, read %s: error %v, %d bytes out, %d invalid, want all %d bytes and 1 invalid",
					c.name, kind, err, out.Len(), counts.Verdicts[pipeline.Invalid], len(want))
			}
			if only := (Unclosed{"stdin", c.line, len(want) - len(c.before), pipeline.Out}); !slices.Equal(told, []Unclosed{only}) {
				t.Errorf("%s, read %s: told %v, want %v", c.name, kind, told, only)
			}
		}
		_, err := run(t.Context(), t, Config{Stdin: strings.NewReader(in), Rows: keys.CSV, Unclosed: func(u Unclosed) {
			t.Errorf("%s: told %v of a record that did not pass", c.name, u)
		}}, io.Discard, rules(t, 1<<18, func(c *pipeline.Config) { c.Keys, c.OnInvalid = []string{"column:1"}, pipeline.Fail }))
		stopped := (*StoppedError)(nil)
		if at := strings.Count(c.before, "\n") + 1; !errors.As(err, &stopped) ||
			*stopped != (StoppedError{Input: "stdin", Line: at, Reason: pipeline.ReasonInvalid, Quote: c.line}) {
			t.Errorf("%s: error %v, want a stop before line %d for the quote of line %d", c.name, err, at, c.line)
		}
	}
}

// Quotes that are closed, and rows that are malformed otherwise, are no news.
func TestClosedQuotesAreNotTold(t *testing.T) {
	in := "a,\"b\nc\"\nd,\"e\"f\ng,h\"\ni,\"j\""
	_, err := run(t.Context(), t, Config{Stdin: strings.NewReader(in), Rows: keys.CSV, Unclosed: func(u Unclosed) { t.Errorf("told %v", u) }},
		io.Discard, rules(t, 10, key("column:2")))
	if err != nil {
		t.Error(err)
	}
}
