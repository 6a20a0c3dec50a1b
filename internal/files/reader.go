package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/streamdedup/streamdedup/internal/keys"
)

const (
	// firstRead is how much is read of an input before the first chunk of it: a
	// byte order mark and a header stand there.
	firstRead = 64 << 10
	// maxEmptyReads is after how many reads of nothing an input counts as broken.
	maxEmptyReads = 100
)

// reader cuts one input into chunks of whole records.
type reader struct {
	src     *input
	csv     bool
	maxLine int

	rest    []byte // read, and not in a chunk yet
	scanned int    // where in rest to look for ends of records
	rows    rowScanner
	above   int   // lines in chunks so far
	failed  error // why there is no more, io.EOF included
}

func newReader(src *input, rows keys.TableKind, maxLine int) *reader {
	return &reader{src: src, csv: rows == keys.CSV, maxLine: maxLine}
}

// begin reads the start of the input and drops a byte order mark there.
func (r *reader) begin() {
	r.rest = make([]byte, 0, firstRead)
	for more := true; more && r.failed == nil; {
		r.rest = r.read(r.rest)
		if r.rest, more = withoutMark(r.rest); r.src.packed {
			continue
		}
		packed, err := refuseCompressed(r.src.name, r.rest)
		if err != nil {
			r.rest, r.failed = nil, err
		}
		more = more || packed
	}
}

// header takes the first record off the input, its end included. It is nil where
// there is none.
func (r *reader) header() ([]byte, error) {
	for {
		if end := r.firstEnd(); end > 0 {
			line := bytes.Clone(r.rest[:end])
			r.above += bytes.Count(line, newline)
			r.rest, r.scanned, r.rows = r.rest[end:], 0, rowScanner{}
			if len(withoutEnd(line)) > 0 {
				return line, nil
			}
			continue
		}
		switch {
		case len(r.rest) > r.maxLine+len("\r"):
			return nil, r.tooLong(r.above + 1)
		case errors.Is(r.failed, io.EOF) && len(r.rest) > 0:
			if r.rest = withEnd(r.rest); r.firstEnd() == 0 {
				return nil, fmt.Errorf("read %s line %d: the quotes of its header do not close", r.src.name, r.above+1)
			}
		case errors.Is(r.failed, io.EOF):
			return nil, nil
		case r.failed != nil:
			return nil, r.failed
		default:
			if cap(r.rest) == len(r.rest) {
				r.rest = append(make([]byte, 0, 2*len(r.rest)+firstRead), r.rest...)
			}
			r.rest = r.read(r.rest)
		}
	}
}

// firstEnd is where the first record of rest ends, 0 if it does not.
func (r *reader) firstEnd() int {
	if !r.csv {
		return bytes.IndexByte(r.rest, '\n') + 1
	}
	var rows rowScanner
	if ends, _ := rows.scan(r.rest, 0, nil); len(ends) > 0 {
		return ends[0]
	}
	return 0
}

// next fills c with what there is, at least one record, and reports whether there
// was one: else failed says why not. Every whole record before an error is given
// out. For room that the chunk does not have it asks grow.
func (r *reader) next(c *chunk, grow func(c *chunk, size int) bool) bool {
	c.text, c.ends, c.unclosed = c.text[:0], c.ends[:0], false
	if len(r.rest) >= cap(c.text) && !grow(c, len(r.rest)+firstRead) {
		return false
	}
	c.text = append(c.text, r.rest...)
	if r.rest = r.rest[:0]; cap(r.rest) > 2*chunkSize {
		r.rest = nil // of a long line
	}
	for {
		end := 0
		if c.ends = r.ends(c.text, c.ends); len(c.ends) > 0 {
			end = c.ends[len(c.ends)-1]
		}
		full := len(c.text) >= min(cap(c.text), chunkSize)
		switch {
		case end > 0 && (full || !r.src.packed || r.failed != nil):
			r.give(c, end)
			return true
		case end == 0 && len(c.text) > r.maxLine+len("\r"):
			r.failed = r.tooLong(r.above + 1)
			return false
		case r.failed == nil:
			if len(c.text) == cap(c.text) && !grow(c, len(c.text)+1) {
				return false
			}
			c.text = r.read(c.text)
		case errors.Is(r.failed, io.EOF) && len(c.text) > 0:
			c.text = withEnd(c.text)
			if c.ends = r.ends(c.text, c.ends); len(c.ends) == 0 {
				c.unclosed, c.opened = true, r.rows.opened
				c.ends = append(c.ends, len(c.text))
			}
			r.give(c, len(c.text))
			return true
		default:
			return false
		}
	}
}

// ends appends where records of text end: each row of CSV, else the last line.
func (r *reader) ends(text []byte, ends []int) []int {
	if r.csv {
		ends, r.scanned = r.rows.scan(text, r.scanned, ends)
		return ends
	}
	if i := bytes.LastIndexByte(text[r.scanned:], '\n'); i >= 0 {
		ends = append(ends, r.scanned+i+1)
	}
	r.scanned = len(text)
	return ends
}

// give ends the chunk at end and keeps what follows for the next.
func (r *reader) give(c *chunk, end int) {
	c.name, c.above = r.src.name, r.above
	r.rest = append(r.rest, c.text[end:]...)
	c.text = c.text[:end]
	r.above += bytes.Count(c.text, newline)
	r.scanned -= end
	r.rows.moved(end)
}

// read appends what one Read gives, at least one byte or an error, to text, which
// has room. It does not fill a room that is much larger than text: short lines may
// follow a long one.
func (r *reader) read(text []byte) []byte {
	room := min(cap(text), max(2*len(text), chunkSize))
	for range maxEmptyReads {
		n, err := r.src.Read(text[len(text):room])
		text = text[:len(text)+n]
		if errors.Is(err, io.EOF) {
			r.failed = io.EOF
		} else if err != nil {
			r.failed = fmt.Errorf("read %s after line %d: %w", r.src.name, r.above+bytes.Count(text, newline), plain(err))
		}
		if n > 0 || err != nil {
			return text
		}
	}
	r.failed = fmt.Errorf("read %s after line %d: %w", r.src.name, r.above, io.ErrNoProgress)
	return text
}

func (r *reader) tooLong(line int) error {
	return tooLong(r.src.name, line, r.maxLine, r.csv && r.rows.quoted)
}

// tooLong says where a line is too long; unclosed, that its quotes do not close.
func tooLong(name string, line, limit int, unclosed bool) error {
	what := "it is longer than %d bytes"
	if unclosed {
		what = "its quotes do not close within %d bytes"
	}
	return fmt.Errorf("read %s line %d: "+what+": %w", name, line, limit, ErrLineTooLong)
}

var newline = []byte{'\n'}

// withEnd is a last line, which may lack its line feed.
func withEnd(line []byte) []byte {
	if line[len(line)-1] == '\n' {
		return line // between quotes
	}
	return append(line, '\n')
}

// withoutEnd is a line without its line feed, and the carriage return before it.
func withoutEnd(line []byte) []byte {
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}
