package files

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/streamdedup/streamdedup/internal/keys"
)

// FuzzReader holds that, whatever the bytes and however they arrive:
//   - the records are the input's lines but the empty ones, in order, each
//     without its end, up to the first that is too long;
//   - rows of CSV are those of a scanner that looks at one byte at a time;
//   - each record's line is cut from the input, end included; only the last may
//     have a line feed that the input lacks;
//   - a line that is too long is an error, anything else ends with io.EOF;
//   - a record's line number is that of the input.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "a", "a\n", "a\r\n\r\nb", "\xef\xbb\xbfa\n\xef\xbb\xbf", "\xef\xbb", "\r", "12345678\n123456789\nx\n",
		"\"a\nb\",c\nd", "a,\"\"\"\n\"\nb", "\"a\nb\n", "a\"b\nc", "\"a\"", "\"\"", "\"\"\n\"\"\"", "\"a\"x\"\n\"\n",
	} {
		f.Add([]byte(seed), uint8(3))
	}
	const limit = 8
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		for _, rows := range []keys.TableKind{keys.NoTable, keys.CSV} {
			want, tooLong := linesOf(in, rows, limit)
			for kind, src := range map[string]io.Reader{
				"whole":    bytes.NewReader(in),
				"bytewise": iotest.OneByteReader(bytes.NewReader(in)),
				"at EOF":   iotest.DataErrReader(bytes.NewReader(in)),
			} {
				got, err := readAll(newReader(&input{Reader: src, name: "input"}, rows, limit), int(size), limit)
				if tooLong != errors.Is(err, ErrLineTooLong) || !tooLong && !errors.Is(err, io.EOF) {
					t.Fatalf("rows %d read %s: error %v, a line is too long: %v", rows, kind, err, tooLong)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("rows %d read %s: records %+v, want %+v", rows, kind, got, want)
				}
			}
		}
	})
}

// Rows that a well-kept library writes are cut where it ends them.
func TestRowsEndWhereEncodingCSVEndsThem(t *testing.T) {
	random := rand.New(rand.NewPCG(testSeed(t), 3))
	for range 300 {
		var text bytes.Buffer
		w := csv.NewWriter(&text)
		w.UseCRLF = random.IntN(2) == 0
		var want []int
		for range 1 + random.IntN(20) {
			var row []string
			for range 1 + random.IntN(4) {
				field := make([]byte, random.IntN(6))
				for i := range field {
					field[i] = "a,\"\n \r"[random.IntN(6)]
				}
				row = append(row, string(field))
			}
			if err := w.Write(row); err != nil {
				t.Fatal(err)
			}
			w.Flush()
			want = append(want, text.Len())
		}
		// In pieces, as they are read.
		var rows rowScanner
		var ends []int
		for n, from := 0, 0; n < text.Len(); {
			n = min(text.Len(), n+1+random.IntN(20))
			ends, from = rows.scan(text.Bytes()[:n], from, ends)
		}
		if !slices.Equal(ends, want) {
			t.Fatalf("%q: rows end at %d, want %d", text.Bytes(), ends, want)
		}
	}
}

// A line as a test sees it.
type line struct {
	value, text string
	number      int
}

// readAll reads in chunks of that size.
func readAll(r *reader, size, limit int) ([]line, error) {
	var all []line
	r.begin()
	for {
		c := &chunk{text: make([]byte, 0, size+1)}
		if !r.next(c, func(c *chunk, size int) bool { c.text = append(make([]byte, 0, size), c.text...); return true }) {
			return all, r.failed
		}
		c.cut(map[bool]keys.TableKind{true: keys.CSV}[r.csv], limit)
		for i, s := range c.lines {
			all = append(all, line{string(c.batch.Records[i].Value), string(c.text[s.start:s.end]), c.lineAt(s.start)})
		}
		if c.err != nil {
			return all, c.err
		}
	}
}

// linesOf is what a reader does, said in the simplest way.
func linesOf(in []byte, rows keys.TableKind, limit int) (all []line, tooLong bool) {
	in = bytes.TrimPrefix(in, byteOrderMark)
	for number := 1; len(in) > 0; {
		end := endOf(in, rows)
		if end == 0 {
			if end = len(in); in[end-1] != '\n' {
				in = append(bytes.Clone(in), '\n')
				end++
			}
		}
		text := in[:end]
		value := bytes.TrimSuffix(text[:end-1], []byte("\r"))
		if len(value) > limit {
			return all, true
		}
		if len(value) > 0 {
			all = append(all, line{string(value), string(text), number})
		}
		number += bytes.Count(text, newline)
		in = in[end:]
	}
	return all, false
}

// endOf is where the first record ends, 0 if it does not.
func endOf(in []byte, rows keys.TableKind) int {
	quoted, start := false, true
	for i := 0; i < len(in); i++ {
		switch c := in[i]; {
		case quoted && c == '"' && i+1 < len(in) && in[i+1] == '"':
			i++
		case quoted && c == '"':
			quoted = false
		case quoted:
		case c == '"' && start && rows == keys.CSV:
			quoted = true
		case c == '\n':
			return i + 1
		}
		start = in[i] == ',' && !quoted
	}
	return 0
}
