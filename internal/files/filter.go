package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
)

// DefaultMaxLine is the longest line in bytes, its end not counted.
const DefaultMaxLine = 64 << 20

// readingAndWriting is how many workers more than cores keep these busy: one may
// wait for its input and one for its output.
const readingAndWriting = 2

// Config says what to filter.
type Config struct {
	// Inputs are file names; "-" is Stdin. None means Stdin alone.
	Inputs []string
	Stdin  io.Reader
	// Rows is how lines make a record: [keys.CSV] for rows whose quotes may hold
	// line ends, else a record is a line.
	Rows keys.TableKind
	// Header says that the first record of each input names the columns. It must
	// be the same in all inputs, and is written once.
	Header bool
	// MaxLine is the longest record in bytes, its line end not counted.
	MaxLine int
	// Workers is how many chunks are on their way at once; zero is what keeps all
	// cores busy. What comes out does not depend on it.
	Workers int
	// Wall is the wall clock that times are compared with. It is asked once a
	// chunk.
	Wall func() time.Time
	// Progress is told how far the filter is after each chunk, if it is not nil.
	Progress func(Progress)
}

// Outputs are what a filter writes to.
type Outputs struct {
	// Survivors is not nil. Diverted, if it is not, takes the diverted lines, and
	// Duplicates a copy of each duplicate that is dropped or tagged.
	Survivors, Diverted, Duplicates io.Writer
	// Begin, if it is not nil, is called once, before anything is written to any of
	// them. Until then the run has not started, and may fail to.
	Begin func() error
}

// Progress is how far a filter is.
type Progress struct {
	Counts *pipeline.Counts
	// Read is how many bytes of the inputs were read, as they are stored, and Size
	// how many there are; zero where that is not known.
	Read, Size int64
}

// Door is an opened filter.
type Door struct {
	cfg    Config
	stream *stream
	to     Outputs
	shard  *pipeline.Shard

	next    int64 // offset: records judged so far
	counts  pipeline.Counts
	workers sync.WaitGroup

	mu     sync.Mutex
	ended  bool // no chunk that is not under way will be
	err    error
	broken chan struct{}  // closed with ended, if that is not the end of input
	busy   sync.WaitGroup // chunks under way
}

// Open looks for all inputs, and reads the header of the first where they have
// one.
func Open(cfg Config) (*Door, error) {
	d := &Door{cfg: cfg, broken: make(chan struct{})}
	var err error
	d.stream, err = openStream(&d.cfg, d.broken)
	return d, err
}

// HasHeader reports whether a header was found: where all inputs are empty there
// is none.
func (d *Door) HasHeader() bool { return d.stream.header != nil }

// Columns are the names in the header, in order, nil where rows have no columns.
func (d *Door) Columns() []string { return d.stream.columns }

// Close closes a door through which nothing goes.
func (d *Door) Close() error { return d.stream.close() }

// Filter judges the inputs' records with shard, which must be fresh and have these
// rules, and writes those that go out. It commits as it goes and returns what it
// counted, also beside an error: everything counted has been written. An error of
// an output wraps [ErrOutput] and what the output said.
//
// It leaves nothing behind but, after an error, a Read of Stdin that waits, or the
// opening of a named pipe that does: they cannot be ended.
func (d *Door) Filter(ctx context.Context, to Outputs, rules pipeline.Config, shard *pipeline.Shard) (pipeline.Counts, error) {
	d.to, d.shard = to, shard
	cancelled := func() { d.end(fmt.Errorf("filter %s: %w", d.stream.where(), ctx.Err())) }
	if ctx.Err() != nil {
		cancelled()
	}
	if err := d.begin(rules); err != nil {
		return d.counts, errors.Join(err, d.stream.close())
	}
	defer context.AfterFunc(ctx, cancelled)()
	done := make(chan struct{})
	go func() {
		d.workers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-d.broken:
		d.busy.Wait()
		if !d.stream.interrupt() {
			return d.counts, d.err // with a Read that waits
		}
		<-done
	}
	return d.counts, errors.Join(d.err, d.stream.close())
}

// begin writes the header and starts the workers.
func (d *Door) begin(rules pipeline.Config) error {
	header := d.stream.header
	if err := d.put(header, header, header); err != nil {
		return err
	}
	identifiers := make([]*pipeline.Identifier, cmp.Or(d.cfg.Workers, runtime.GOMAXPROCS(0)+readingAndWriting))
	for i := range identifiers {
		var err error
		if identifiers[i], err = pipeline.NewIdentifier(rules); err != nil {
			return err
		}
	}
	for _, identifier := range identifiers {
		d.workers.Go(func() { d.work(&chunk{}, identifier) })
	}
	return nil
}

// work carries chunks until there are no more.
func (d *Door) work(c *chunk, identifier *pipeline.Identifier) {
	for d.read(c) {
		d.carry(c, identifier)
		d.stream.release(c)
		d.busy.Done()
	}
}

// read is the first step. It reports whether there is a chunk to carry.
func (d *Door) read(c *chunk) bool {
	if !d.stream.lock() {
		return false
	}
	defer d.stream.unlock()
	if d.over() {
		return false
	}
	more, err := d.stream.next(c)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return false
	}
	if !more {
		d.ended, d.err = true, err
		return false
	}
	d.busy.Add(1)
	c.batch.Now = d.cfg.Wall().UnixMilli()
	c.before, c.turn = d.stream.last, newTurn()
	d.stream.last = c.turn
	return true
}

// over is whether nothing more is to be read.
func (d *Door) over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended
}

// carry takes a chunk that was read through the other steps.
func (d *Door) carry(c *chunk, identifier *pipeline.Identifier) {
	c.cut(d.cfg.Rows, d.cfg.MaxLine)
	identifier.Identify(&c.batch)
	if c.unclosed && c.err == nil {
		// Nobody knows what stands between quotes that do not close.
		c.batch.IDs.Spoil(len(c.batch.Records) - 1)
	}
	if !<-c.before.judged {
		c.turn.judged <- false
		c.turn.written <- false
		return
	}
	d.judge(c)
	if c.err == nil {
		c.err = c.ending()
	}
	c.turn.judged <- c.err == nil
	c.sort(d.to.Diverted != nil, d.to.Duplicates != nil)
	if !<-c.before.written {
		c.turn.written <- false
		return
	}
	err := d.write(c)
	if err == nil {
		err = c.err
	}
	c.turn.written <- err == nil
	if err != nil {
		d.end(err)
	}
}

// judge decides what becomes of the records. A policy may end the stream within
// the chunk.
func (d *Door) judge(c *chunk) {
	c.number(d.next)
	d.next = c.batch.Next
	d.shard.Process(&c.batch)
	if stop := c.batch.Stopped; stop != nil {
		at := c.lines[len(c.batch.Outcomes)].start
		stopped := &StoppedError{Input: c.name, Line: c.lineAt(at), Reason: stop.Reason}
		if c.unclosed && len(c.batch.Outcomes) == len(c.batch.Records)-1 {
			stopped.Quote = c.lineAt(c.opened)
		}
		c.err = stopped
	}
	d.shard.Seal()
	d.shard.Commit()
}

// write writes and counts.
func (d *Door) write(c *chunk) error {
	if err := d.put(c.text, c.diverted, c.duplicates); err != nil {
		return err
	}
	d.counts.Plus(&c.batch.Counts)
	if d.cfg.Progress != nil {
		d.cfg.Progress(Progress{&d.counts, d.stream.read.Load(), d.stream.size})
	}
	return nil
}

// put writes to the outputs that there are, survivors last: who has seen those
// finds what stood before them in the other files.
func (d *Door) put(survivors, diverted, duplicates []byte) error {
	if begin := d.to.Begin; begin != nil && len(survivors)+len(diverted)+len(duplicates) > 0 {
		d.to.Begin = nil
		if err := begin(); err != nil {
			return err
		}
	}
	for _, o := range []struct {
		what string
		to   io.Writer
		text []byte
	}{{"diverted lines", d.to.Diverted, diverted}, {"duplicates", d.to.Duplicates, duplicates}, {"survivors", d.to.Survivors, survivors}} {
		if o.to == nil || len(o.text) == 0 {
			continue
		}
		if _, err := o.to.Write(o.text); err != nil {
			return fmt.Errorf("%w %s: %w", ErrOutput, o.what, plain(err))
		}
	}
	return nil
}

// end ends the stream for a reason, if there is none yet. It goes before an error
// of reading, which is later in the stream.
func (d *Door) end(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.broken:
	default:
		d.ended, d.err = true, err
		close(d.broken)
	}
}
