package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
)

// One quote too many makes the rest of a file one record. It keeps its bytes, and
// the filter fails: with the line of the quote, and how much it took along.
func TestAQuoteThatIsNotClosedIsAnError(t *testing.T) {
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
			counts, err := run(t.Context(), t, Config{Stdin: src, Rows: keys.CSV}, &out, rules(t, 1<<18, key("column:1")))
			if out.String() != want || counts.Verdicts[pipeline.Invalid] != 1 {
				t.Errorf("%s, read %s: %d bytes out, %d invalid, want all %d bytes and 1 invalid",
					c.name, kind, out.Len(), counts.Verdicts[pipeline.Invalid], len(want))
			}
			unclosed := (*UnclosedError)(nil)
			if only := (UnclosedError{"stdin", c.line, len(want) - len(c.before), pipeline.Out}); !errors.As(err, &unclosed) || *unclosed != only {
				t.Errorf("%s, read %s: error %v, want %v", c.name, kind, err, &only)
			}
		}
		_, err := run(t.Context(), t, Config{Stdin: strings.NewReader(in), Rows: keys.CSV}, io.Discard, rules(t, 1<<18, func(c *pipeline.Config) { c.Keys, c.OnInvalid = []string{"column:1"}, pipeline.Fail }))
		stopped := (*StoppedError)(nil)
		if at := strings.Count(c.before, "\n") + 1; !errors.As(err, &stopped) ||
			*stopped != (StoppedError{Input: "stdin", Line: at, Reason: pipeline.ReasonInvalid, Quote: c.line}) {
			t.Errorf("%s: error %v, want a stop before line %d for the quote of line %d", c.name, err, at, c.line)
		}
	}
}

// An error before the record is the one to know, and the records before it are judged
// as they are.
func TestAQuoteThatIsNotClosedWithinALineSpoilsNoOther(t *testing.T) {
	var out bytes.Buffer
	counts, err := run(t.Context(), t, Config{Stdin: strings.NewReader("a,1\na,1\nb,\"long, and no end"), Rows: keys.CSV, MaxLine: 10},
		&out, rules(t, 10, key("column:1")))
	if !errors.Is(err, ErrLineTooLong) || out.String() != "a,1\n" || counts.Verdicts[pipeline.Duplicate] != 1 {
		t.Errorf("error %v, %q out, %d duplicates, want a line too long behind one row and its duplicate",
			err, out.String(), counts.Verdicts[pipeline.Duplicate])
	}
}

// Quotes that are closed, and rows that are malformed otherwise, are no error.
func TestClosedQuotesAreNoError(t *testing.T) {
	in := "a,\"b\nc\"\nd,\"e\"f\ng,h\"\ni,\"j\""
	_, err := run(t.Context(), t, Config{Stdin: strings.NewReader(in), Rows: keys.CSV},
		io.Discard, rules(t, 10, key("column:2")))
	if err != nil {
		t.Error(err)
	}
}
