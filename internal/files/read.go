package files

import (
	"context"
	"errors"
	"fmt"

	"github.com/streamdedup/streamdedup/pipeline"
)

// ErrUnclosed is returned by [Door.Read] for a quote that its input never closes.
var ErrUnclosed = errors.New("a quote is not closed before the end of the input")

// Read gives the inputs' records to fn, some at a time and in order, until it wants no
// more, and closes them. The records are views that are good until fn returns. Nothing is
// judged or written. All whole records before an error are given out.
func (d *Door) Read(ctx context.Context, fn func(records []pipeline.Record, at Progress) (more bool)) (err error) {
	defer func() { err = errors.Join(err, d.stream.close()) }()
	c := &chunk{}
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read %s: %w", d.stream.where(), err)
		}
		more, err := d.stream.next(c)
		if !more {
			return err
		}
		c.cut(d.cfg.Rows, d.cfg.MaxLine)
		records := c.batch.Records
		if c.unclosed && c.err == nil {
			// Nobody knows what stands between quotes that do not close.
			records = records[:len(records)-1]
			c.err = fmt.Errorf("read %s line %d: %w", c.name, c.lineAt(c.opened), ErrUnclosed)
		}
		more = fn(records, Progress{Read: d.stream.read.Load(), Size: d.stream.size})
		if c.err != nil || !more {
			return c.err
		}
		d.stream.release(c)
	}
}
