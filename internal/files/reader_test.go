package files

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// FuzzReader holds that, whatever the bytes and however they arrive:
//   - the records are the input's lines but the empty ones, in order, each
//     without its end, up to the first that is too long;
//   - each record's line is cut from the input, end included; only the last may
//     have a line feed that the input lacks;
//   - a line that is too long is an error, anything else ends with io.EOF;
//   - a record's line number is that of the input.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "a", "a\n", "a\r\n\r\nb", "\xef\xbb\xbfa\n\xef\xbb\xbf", "\xef\xbb", "\r", "12345678\n123456789\nx\n",
	} {
		f.Add([]byte(seed))
	}
	const limit = 8
	f.Fuzz(func(t *testing.T, in []byte) {
		want, tooLong := linesOf(in, limit)
		for kind, src := range map[string]io.Reader{
			"whole":    bytes.NewReader(in),
			"bytewise": iotest.OneByteReader(bytes.NewReader(in)),
			"at EOF":   iotest.DataErrReader(bytes.NewReader(in)),
		} {
			got, err := readAll(newReader(src, "input", limit))
			if tooLong != errors.Is(err, ErrLineTooLong) || !tooLong && !errors.Is(err, io.EOF) {
				t.Fatalf("read %s: error %v, a line is too long: %v", kind, err, tooLong)
			}
			if len(got) != len(want) {
				t.Fatalf("read %s: %d records, want %d", kind, len(got), len(want))
			}
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("read %s: record %d is %+v, want %+v", kind, i, got[i], want[i])
				}
			}
		}
	})
}

// A line as a test sees it.
type line struct {
	value, text string
	number      int
}

func readAll(r *reader) ([]line, error) {
	var all []line
	for {
		c, err := r.next()
		if err != nil {
			return all, err
		}
		for i := range c.records {
			s := c.lines[i]
			all = append(all, line{string(c.records[i].Value), string(c.text[s.start:s.end]), c.lineNumber(i)})
		}
	}
}

// linesOf is what a reader does, said in the simplest way.
func linesOf(in []byte, limit int) (all []line, tooLong bool) {
	in = bytes.TrimPrefix(in, byteOrderMark)
	for number := 1; len(in) > 0; number++ {
		text, rest, ended := bytes.Cut(in, []byte("\n"))
		value := bytes.TrimSuffix(text, []byte("\r"))
		if len(value) > limit {
			return all, true
		}
		if len(value) > 0 {
			all = append(all, line{string(value), string(text) + "\n", number})
		}
		if !ended {
			break
		}
		in = rest
	}
	return all, false
}
