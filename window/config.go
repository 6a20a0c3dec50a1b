package window

import (
	"errors"
	"fmt"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// defaultMaxAhead caps the default of [Config.MaxAhead]. Clocks kept by NTP are
// within seconds of each other; five minutes also forgives a drifting device.
const defaultMaxAhead = 5 * time.Minute

// OnFull says what happens to a record that would be learned when the filling
// generation is full.
type OnFull uint8

const (
	// PassWhenFull judges the record without learning it: the false-positive rate
	// holds, and repeats of the record pass. It is marked [MarkUnlearned].
	PassWhenFull OnFull = iota
	// FailWhenFull stops before the record.
	FailWhenFull
	// GrowWhenFull learns the record, for which the set must be a [filter.Growing]. Once
	// that has taken all it can it is PassWhenFull.
	GrowWhenFull
)

// String is the name that [ParseOnFull] reads.
func (o OnFull) String() string {
	switch o {
	case PassWhenFull:
		return "pass"
	case FailWhenFull:
		return "fail"
	case GrowWhenFull:
		return "grow"
	}
	return fmt.Sprintf("OnFull(%d)", uint8(o))
}

// ParseOnFull reads "grow", "pass" or "fail".
func ParseOnFull(s string) (OnFull, error) {
	switch s {
	case "pass":
		return PassWhenFull, nil
	case "fail":
		return FailWhenFull, nil
	case "grow":
		return GrowWhenFull, nil
	}
	return 0, fmt.Errorf(`parse on-full %q: want "grow", "pass" or "fail"`, s)
}

// Config says how long a window remembers and how much. The zero value is not
// valid: Span and GenerationCapacity have no sensible default.
type Config struct {
	// Span is W, how long a hash is remembered, in stream time: whole
	// milliseconds, at least 7 of them.
	Span time.Duration
	// MaxAhead is how far above the wall clock a record's time is still believed,
	// in whole milliseconds. Zero means one slice, at most five minutes.
	MaxAhead time.Duration
	// GenerationCapacity is how many hashes a generation learns before it is full, those
	// included that Refresh learns again.
	GenerationCapacity uint64
	// OnFull says what happens then.
	OnFull OnFull
	// LearnLate lets late records teach like any other. Without it they are looked
	// up and never learned, which is right when a policy keeps them from the output.
	LearnLate bool
	// Refresh lets a repeat extend the window: a duplicate that the filling generation
	// does not hold is learned in it too, once for each generation, and takes room
	// there. Where that is full it remains as it was and is marked [MarkUnlearned], or
	// Observe stops before it, as OnFull says. What does not teach does not extend
	// either: a late record without LearnLate, and one with NoLearn.
	//
	// A first copy that a false positive withheld is then withheld for as long as its
	// repeats keep coming.
	Refresh bool
	// StopAtLate makes Observe stop before a late record. It excludes LearnLate.
	StopAtLate bool
}

// Validate reports every fault at once, each with the name of its field.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("window.Config."+format, args...))
	}
	if shortest := filter.Sealed * time.Millisecond; c.Span < shortest {
		fault("Span is %v: a window is at least %v, a millisecond for each complete generation", c.Span, shortest)
	} else if c.Span%time.Millisecond != 0 {
		fault("Span is %v: stream time has whole milliseconds only", c.Span)
	}
	if c.MaxAhead < 0 {
		fault("MaxAhead is %v: it cannot be negative (zero means the default)", c.MaxAhead)
	} else if c.MaxAhead%time.Millisecond != 0 {
		fault("MaxAhead is %v: stream time has whole milliseconds only", c.MaxAhead)
	}
	if c.GenerationCapacity == 0 {
		fault("GenerationCapacity is 0: a generation that takes nothing remembers nothing")
	}
	if c.OnFull > GrowWhenFull {
		fault("OnFull is %v: want PassWhenFull, FailWhenFull or GrowWhenFull", c.OnFull)
	}
	if c.LearnLate && c.StopAtLate {
		fault("StopAtLate excludes LearnLate: a window that stops at late records never learns one")
	}
	return errors.Join(faults...)
}

// Believes is whether a record with that time, read at now, moves the stream: both
// in milliseconds since the epoch.
func (c Config) Believes(t, now int64) bool { return distrust(t, now+c.maxAheadMillis()) == 0 }

// Slice is the length of a generation in milliseconds: ceil(W/7), so that seven
// complete generations cover the span.
func (c Config) Slice() int64 {
	return (c.Span.Milliseconds() + filter.Sealed - 1) / filter.Sealed
}

// maxAheadMillis is MaxAhead with its default filled in.
func (c Config) maxAheadMillis() int64 {
	if c.MaxAhead > 0 {
		return c.MaxAhead.Milliseconds()
	}
	return min(c.Slice(), defaultMaxAhead.Milliseconds())
}
