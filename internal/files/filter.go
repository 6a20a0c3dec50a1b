package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/streamdedup/streamdedup/pipeline"
)

// Stdin is the name of an input or output that stands for the process's own.
const Stdin = "-"

// DefaultMaxLine is the longest line in bytes, its end not counted.
const DefaultMaxLine = 64 << 20

var (
	// ErrLineTooLong is returned for a line longer than [Config.MaxLine].
	ErrLineTooLong = errors.New("line too long")
	// ErrOutput wraps what the output said.
	ErrOutput = errors.New("write survivors")
)

// StoppedError is returned when a policy lets the stream go no further. All
// survivors before the line have been written.
type StoppedError struct {
	Input  string
	Line   int
	Reason pipeline.Reason
}

func (e *StoppedError) Error() string {
	why := e.Reason.String()
	switch e.Reason {
	case pipeline.ReasonMissing:
		why = "it has no ID"
	case pipeline.ReasonInvalid:
		why = "it is malformed before its ID"
	case pipeline.ReasonLate:
		why = "it is late"
	case pipeline.ReasonFull:
		why = "the filter is full"
	}
	return fmt.Sprintf("stop before %s line %d: %s", e.Input, e.Line, why)
}

// Config says what to filter.
type Config struct {
	// Inputs are file names; "-" is Stdin. None means Stdin alone.
	Inputs []string
	Stdin  io.Reader
	Output io.Writer
	// MaxLine is the longest line in bytes, its end not counted.
	MaxLine int
	// Clock is the clock of the shard, if it is to have that of a single window.
	Clock *FillClock
	// Wall is the wall clock that times are compared with. It is asked once a
	// batch.
	Wall func() time.Time
	// Progress is told the counts so far after each batch, if it is not nil.
	Progress func(*pipeline.Counts)
}

// Filter judges the inputs' lines with shard, which must be fresh, and writes
// those that go out. It commits as it goes and returns what it counted, also
// beside an error: everything counted has been written. An error of the output
// wraps [ErrOutput] and what the output said.
func Filter(ctx context.Context, cfg Config, shard *pipeline.Shard) (pipeline.Counts, error) {
	f := &door{cfg: cfg, shard: shard}
	inputs := cfg.Inputs
	if len(inputs) == 0 {
		inputs = []string{Stdin}
	}
	// A typing error in the last name is better found before the first is read.
	for _, name := range inputs {
		if name == Stdin {
			continue
		}
		if _, err := os.Stat(name); err != nil {
			return f.counts, openError(name, err)
		}
	}
	for _, name := range inputs {
		if err := f.input(ctx, name); err != nil {
			return f.counts, err
		}
	}
	return f.counts, nil
}

// door is the state of one Filter.
type door struct {
	cfg    Config
	shard  *pipeline.Shard
	batch  pipeline.Batch
	next   int64 // offset: records so far
	counts pipeline.Counts
	cut    []byte // survivors of one batch
}

func (f *door) input(ctx context.Context, name string) error {
	src, title := f.cfg.Stdin, "stdin"
	if name != Stdin {
		file, err := os.Open(name)
		if err != nil {
			return openError(name, err)
		}
		defer file.Close()
		src, title = file, name
	}
	r := newReader(src, title, f.cfg.MaxLine)
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("filter %s after line %d: %w", title, r.above, err)
		}
		c, err := r.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f.judge(c, title); err != nil {
			return err
		}
	}
}

// judge takes a chunk through the shard in as many batches as the clock asks
// for.
func (f *door) judge(c *chunk, title string) error {
	wall := f.cfg.Wall().UnixMilli()
	for from := 0; from < len(c.records); {
		now, n := wall, len(c.records)-from
		if f.cfg.Clock != nil {
			now, n = f.cfg.Clock.now(n)
		}
		f.fill(c.records[from:from+n], now)
		f.shard.Process(&f.batch)
		if err := f.emit(c, from); err != nil {
			return err
		}
		if f.cfg.Progress != nil {
			f.cfg.Progress(&f.counts)
		}
		if stop := f.batch.Stopped; stop != nil {
			return &StoppedError{title, c.lineNumber(from + len(f.batch.Outcomes)), stop.Reason}
		}
		from += n
	}
	return nil
}

// fill makes the batch of records.
func (f *door) fill(records []pipeline.Record, now int64) {
	b := &f.batch
	b.Now, b.First, b.Next = now, f.next, f.next+int64(len(records))
	b.Records = records
	b.Offsets = b.Offsets[:0]
	for i := range records {
		b.Offsets = append(b.Offsets, f.next+int64(i))
	}
	f.next = b.Next
}

// emit writes the survivors of the batch, which begins at record from of c, and
// then lets the shard keep what it learned.
func (f *door) emit(c *chunk, from int) error {
	b := &f.batch
	f.cut = f.cut[:0]
	for i := 0; i < len(b.Outcomes); {
		if b.Outcomes[i].Fate != pipeline.Out {
			i++
			continue
		}
		run := c.lines[from+i]
		for i++; i < len(b.Outcomes) && b.Outcomes[i].Fate == pipeline.Out && c.lines[from+i].start == run.end; i++ {
			run.end = c.lines[from+i].end
		}
		f.cut = append(f.cut, c.text[run.start:run.end]...)
	}
	if len(f.cut) > 0 {
		if _, err := f.cfg.Output.Write(f.cut); err != nil {
			return fmt.Errorf("%w: %w", ErrOutput, err)
		}
	}
	f.shard.Seal()
	f.shard.Commit()
	f.counts.Plus(&b.Counts)
	if f.cfg.Clock != nil {
		f.cfg.Clock.learn(b.Counts.Verdicts[pipeline.Unique] - b.Counts.Marked(pipeline.Unlearned))
	}
	return nil
}

func openError(name string, err error) error { return fmt.Errorf("open %s: %w", name, plain(err)) }

// plain drops the system call and the path from what os says: the message names
// the file already, and the user does not know the call.
func plain(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}
