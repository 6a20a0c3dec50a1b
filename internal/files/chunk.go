package files

import (
	"bytes"

	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
)

// chunkSize is what a chunk holds: thousands of usual lines, and little enough to
// stay in the second-level cache from one step to the next.
const chunkSize = 256 << 10

// span is where a record's line stands in a chunk, its end included.
type span struct{ start, end int }

// chunk is a run of whole records of one input, on its way through the door.
type chunk struct {
	name  string // of the input
	above int    // lines of the input before the chunk
	text  []byte
	ends  []int // of its records, where they are rows of CSV
	// unclosed says that the last record ends with the input, between quotes that
	// open at text[opened].
	unclosed bool
	opened   int
	usual    []byte // instead of text, where that is larger for a long line

	batch pipeline.Batch // a view of each record that is not empty
	lines []span         // the line of each record of the batch
	err   error          // why nothing can follow

	diverted, duplicates []byte // copies of lines

	before, turn turn
}

// turn is how a chunk tells the next one that it may take a step. Each channel
// gets one value: false when the step will not be taken, now or later.
type turn struct{ judged, written chan bool }

func newTurn() turn { return turn{make(chan bool, 1), make(chan bool, 1)} }

// cut makes a record of each line that is not empty. It ends before a line that
// is too long.
func (c *chunk) cut(rows keys.TableKind, maxLine int) {
	b := &c.batch
	b.Records, c.lines, c.err = b.Records[:0], c.lines[:0], nil
	for at, row := 0, 0; at < len(c.text); row++ {
		var end int
		if rows == keys.CSV {
			end = c.ends[row]
		} else {
			end = at + bytes.IndexByte(c.text[at:], '\n') + 1
		}
		line := withoutEnd(c.text[at:end])
		if len(line) > maxLine {
			c.err = tooLong(c.name, c.lineAt(at), maxLine, c.unclosed && end == len(c.text))
			return
		}
		if len(line) > 0 {
			b.Records = append(b.Records, pipeline.Record{Value: line, Time: -1})
			c.lines = append(c.lines, span{at, end})
		}
		at = end
	}
}

// lineAt is the number of the line at text[at:] in its input, counted from 1.
func (c *chunk) lineAt(at int) int { return c.above + bytes.Count(c.text[:at], newline) + 1 }

// number gives the records of the batch their offsets, which count records.
func (c *chunk) number(first int64) {
	b := &c.batch
	b.First, b.Next = first, first+int64(len(b.Records))
	b.Offsets = b.Offsets[:0]
	for i := range int64(len(b.Records)) {
		b.Offsets = append(b.Offsets, first+i)
	}
}

// ending is the quote that the input does not close, nil where it closes all. It is
// for a chunk that was judged as a whole, before sort moves the text.
func (c *chunk) ending() error {
	if !c.unclosed {
		return nil
	}
	last := len(c.lines) - 1
	line := c.lines[last]
	return &UnclosedError{c.name, c.lineAt(c.opened), line.end - line.start, c.batch.Outcomes[last].Fate}
}

// sort makes text the survivors, and copies what goes elsewhere.
func (c *chunk) sort(diverts, duplicates bool) {
	c.diverted, c.duplicates = c.diverted[:0], c.duplicates[:0]
	kept := 0
	var run span // of lines to keep that stand side by side
	for i, o := range c.batch.Outcomes {
		line := c.lines[i]
		if diverts && o.Fate == pipeline.Diverted {
			c.diverted = append(c.diverted, c.text[line.start:line.end]...)
		} else if duplicates && o.Verdict == pipeline.Duplicate {
			c.duplicates = append(c.duplicates, c.text[line.start:line.end]...)
		}
		switch {
		case o.Fate != pipeline.Out:
		case line.start == run.end:
			run.end = line.end
		default:
			kept += copy(c.text[kept:], c.text[run.start:run.end])
			run = line
		}
	}
	kept += copy(c.text[kept:], c.text[run.start:run.end])
	c.text = c.text[:kept]
}
