package audit

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/window"
)

// MaxRecords is the most records of one partition that an audit can hold.
const MaxRecords = math.MaxInt32 - 1

// Config says how the stream was meant to be deduplicated.
type Config struct {
	// Keys, IDs, Time, TimeFormat, Window and MaxAhead are those of the deduplicator.
	// MaxAhead has its default when it is zero. Time cannot be "none".
	Keys             []string
	IDs              keys.Options
	Time, TimeFormat string
	Window           time.Duration
	MaxAhead         time.Duration
	// Tag is the name of the header that marks duplicates where they come out. Empty,
	// they must not.
	Tag string
	// FPR is the share of new records that may be withheld.
	FPR float64

	// ReadFrom and ReadTo bound the wall clock while the deduplicator read the
	// input. A zero ReadFrom is unknown: a record is then taken to be read no
	// earlier than the median time of the last 15 records up to it, which holds
	// while most clocks are right.
	ReadFrom, ReadTo time.Time
	// OutputTimes says what the output topic does to times.
	OutputTimes OutputTimes

	// MaxRecords bounds the records of one partition, input or output, that are
	// held in memory: about 100 bytes each.
	MaxRecords int
}

// OutputTimes is what a topic does to the times of records. The zero value keeps
// them all.
type OutputTimes struct {
	// Stamped topics give every record the time of its arrival.
	Stamped bool
	// Before and After are how far from the wall clock a time may be to be taken;
	// the deduplicator moves others to what is. Zero is no limit.
	Before, After time.Duration
}

// Validate reports everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, err := keys.Parse(c.Keys, 0, c.IDs); err != nil {
		bad("Keys: %w", err)
	}
	if c.Time == "none" {
		bad("Time is none, which has no window to audit")
	} else if _, err := keys.ParseClock(c.Time, c.TimeFormat, c.IDs.Table); err != nil {
		bad("Time: %w", err)
	}
	if err := c.window().Validate(); err != nil {
		errs = append(errs, err)
	}
	if !(c.FPR >= 0 && c.FPR < 1) {
		bad("FPR is %g, want 0 or more and less than 1", c.FPR)
	}
	if c.ReadTo.IsZero() || c.ReadTo.Before(c.ReadFrom) {
		bad("ReadTo is %s, want a time that is not before ReadFrom (%s)", c.ReadTo, c.ReadFrom)
	}
	if c.OutputTimes.Before < 0 || c.OutputTimes.After < 0 {
		bad("OutputTimes are %+v, want no negative limit", c.OutputTimes)
	}
	if c.MaxRecords < 1 || c.MaxRecords > MaxRecords {
		bad("MaxRecords is %d, want 1 to %d", c.MaxRecords, MaxRecords)
	}
	return errors.Join(errs...)
}

// window is the part of c that the window checks; an auditor needs no capacity.
func (c Config) window() window.Config {
	return window.Config{Span: c.Window, MaxAhead: c.MaxAhead, GenerationCapacity: 1}
}

// slice is the length of a generation in milliseconds.
func (c Config) slice() int64 { return c.window().Slice() }

// maxAhead is MaxAhead in milliseconds with its default filled in.
func (c Config) maxAhead() int64 {
	if c.MaxAhead > 0 {
		return c.MaxAhead.Milliseconds()
	}
	return min(c.slice(), (5 * time.Minute).Milliseconds())
}

// forgotten is the movement of stream time after which an ID is forgotten for
// certain, and held up to: 8 slices.
func (c Config) forgotten() int64 { return filter.Generations * c.slice() }
