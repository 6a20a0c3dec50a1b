package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/streamdedup/streamdedup/pipeline"
)

var (
	// ErrLineTooLong is returned for a line longer than [Config.MaxLine].
	ErrLineTooLong = errors.New("line too long")
	// ErrOutput wraps what an output said.
	ErrOutput = errors.New("write")
	// ErrInUse is returned for an output that another process writes.
	ErrInUse = errors.New("another run is writing it")
	// ErrHeader is returned for an input whose header is not that of the first.
	ErrHeader = errors.New("another header")
	// ErrDamaged is returned for compressed input that is damaged or cut short.
	ErrDamaged = errors.New("compressed data is damaged or cut short")
)

// StoppedError is returned when a policy lets the stream go no further. All
// survivors before the line have been written.
type StoppedError struct {
	Input  string
	Line   int
	Reason pipeline.Reason
	// Quote is the line of a quote that the input does not close, zero where
	// the record is no such one.
	Quote int
}

func (e *StoppedError) Error() string {
	why := e.Reason.String()
	switch e.Reason {
	case pipeline.ReasonMissing:
		why = "it has no ID"
	case pipeline.ReasonInvalid:
		why = "it is malformed before its ID"
		if e.Quote > 0 {
			why = fmt.Sprintf("the quote that opens in line %d is not closed before the end of the input", e.Quote)
		}
	case pipeline.ReasonLate:
		why = "it is late"
	case pipeline.ReasonFull:
		why = "the filter is full"
	}
	return fmt.Sprintf("stop before %s line %d: %s", e.Input, e.Line, why)
}

// UnclosedError is returned for a quote that its input never closes. Who knows where
// it should have been closed? So all from its row on is one record, which is invalid:
// many rows, if it is not in the last, whose duplicates nobody looked for. It was
// judged and written like any other.
type UnclosedError struct {
	Input string
	Line  int // where the quote opens
	Bytes int // of the record
	Fate  pipeline.Fate
}

func (e *UnclosedError) Error() string {
	became := "passed"
	switch e.Fate {
	case pipeline.Diverted:
		became = "was diverted"
	case pipeline.Dropped:
		became = "was dropped"
	}
	return fmt.Sprintf("%s line %d: a quote is not closed before the end of the input: what follows, %d bytes, %s as one record",
		e.Input, e.Line, e.Bytes, became)
}

// CompressedError is returned for input that is compressed, and has no name that says
// so.
type CompressedError struct {
	Input  string
	Format string // and the command that unpacks it
	Suffix string // of the names that say so
}

func (e *CompressedError) Error() string {
	return fmt.Sprintf("read %s: it is compressed with %s", e.Input, e.Format)
}

func openError(name string, err error) error { return fmt.Errorf("open %s: %w", name, plain(err)) }

// plain drops the system call and the path from what os says: the message names
// the file already, and the user does not know the call.
func plain(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	if link := (*os.LinkError)(nil); errors.As(err, &link) {
		return link.Err
	}
	return err
}
