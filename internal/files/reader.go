package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/streamdedup/streamdedup/pipeline"
)

const (
	// readSize is how much is asked for at once: enough for a batch of thousands
	// of usual lines, little enough to stay in the second-level cache.
	readSize = 512 << 10
	// maxEmptyReads is after how many reads of nothing an input counts as broken.
	maxEmptyReads = 100
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// span is where a record's line stands in a chunk, its end included.
type span struct{ start, end int }

// chunk is a run of whole lines of one input. It is good until the next one is
// read.
type chunk struct {
	text    []byte
	records []pipeline.Record // a view of each line that is not empty
	lines   []span            // the line of each record
	above   int               // lines of the input before the chunk
}

// lineNumber is the number of record i's line in its input, counted from 1.
func (c *chunk) lineNumber(i int) int {
	return c.above + bytes.Count(c.text[:c.lines[i].start], []byte{'\n'}) + 1
}

// reader cuts one input into chunks.
type reader struct {
	src     io.Reader
	name    string
	maxLine int

	buf        []byte
	start, end int   // what was read and not given out yet: buf[start:end]
	scanned    int   // no line ends in buf[start:scanned]
	above      int   // lines given out
	begun      bool  // the byte order mark has been looked for
	failed     error // why there is no more, io.EOF included
	out        chunk
}

func newReader(src io.Reader, name string, maxLine int) *reader {
	return &reader{src: src, name: name, maxLine: maxLine, buf: make([]byte, readSize)}
}

// next is the next chunk, or io.EOF after the last. Every whole line before an
// error is given out before the error is.
func (r *reader) next() (*chunk, error) {
	for {
		r.skipMark()
		if i := bytes.LastIndexByte(r.buf[r.scanned:r.end], '\n'); i >= 0 {
			return r.give(r.scanned + i + 1)
		}
		r.scanned = r.end
		if r.end-r.start > r.maxLine+len("\r") {
			r.failed = r.tooLong(r.above + 1)
		}
		switch {
		case r.failed == nil:
			r.read()
		case errors.Is(r.failed, io.EOF) && r.start < r.end:
			r.room(1)
			r.buf[r.end] = '\n'
			r.end++
			return r.give(r.end)
		default:
			return nil, r.failed
		}
	}
}

// skipMark drops a byte order mark at the start of the input.
func (r *reader) skipMark() {
	have := r.buf[r.start:r.end]
	if r.begun || r.failed == nil && len(have) < len(byteOrderMark) && bytes.HasPrefix(byteOrderMark, have) {
		return
	}
	r.begun = true
	if bytes.HasPrefix(have, byteOrderMark) {
		r.start += len(byteOrderMark)
		r.scanned = r.start
	}
}

// read reads once, at least one byte or an error.
func (r *reader) read() {
	r.room(min(readSize, r.end-r.start+readSize/8))
	for range maxEmptyReads {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		if errors.Is(err, io.EOF) {
			r.failed = io.EOF
		} else if err != nil {
			r.failed = fmt.Errorf("read %s after line %d: %w", r.name, r.above, plain(err))
		}
		if n > 0 || err != nil {
			return
		}
	}
	r.failed = fmt.Errorf("read %s after line %d: %w", r.name, r.above, io.ErrNoProgress)
}

// room makes space for n more bytes behind those not given out yet.
func (r *reader) room(n int) {
	if len(r.buf)-r.end >= n {
		return
	}
	pending := r.end - r.start
	to := r.buf
	if len(r.buf)-pending < n {
		to = make([]byte, max(2*len(r.buf), pending+n))
	}
	copy(to, r.buf[r.start:r.end])
	r.buf, r.scanned = to, r.scanned-r.start
	r.start, r.end = 0, pending
}

// give cuts buf[start:end], which ends with a line's end, into lines. It ends
// before a line that is too long.
func (r *reader) give(end int) (*chunk, error) {
	c := &r.out
	c.text, c.above = r.buf[r.start:end], r.above
	c.records, c.lines = c.records[:0], c.lines[:0]
	for at := 0; at < len(c.text); r.above++ {
		next := at + bytes.IndexByte(c.text[at:], '\n') + 1
		line := c.text[at : next-1]
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		if len(line) > r.maxLine {
			r.failed = r.tooLong(r.above + 1)
			c.text = c.text[:at]
			end = r.start + at
			// What follows must not be given out.
			r.end = end
			break
		}
		if len(line) > 0 {
			c.records = append(c.records, pipeline.Record{Value: line, Time: -1})
			c.lines = append(c.lines, span{at, next})
		}
		at = next
	}
	r.start, r.scanned = end, end
	return c, nil
}

func (r *reader) tooLong(line int) error {
	return fmt.Errorf("read %s line %d: it is longer than %d bytes: %w", r.name, line, r.maxLine, ErrLineTooLong)
}
