package workload

import (
	"errors"
	"fmt"
	"time"
)

// Kind is what a stream is made of.
type Kind uint8

const (
	// Clicks is page views of users: JSON of about 230 bytes with a UUID as ID.
	Clicks Kind = iota
	// Telemetry is readings of devices, which number them: the ID is device and
	// sequence number together.
	Telemetry
)

// String is the kind's name as [ParseKind] reads it.
func (k Kind) String() string {
	switch k {
	case Clicks:
		return "clicks"
	case Telemetry:
		return "telemetry"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// ParseKind reads the name of a kind.
func ParseKind(s string) (Kind, error) {
	switch s {
	case "clicks":
		return Clicks, nil
	case "telemetry":
		return Telemetry, nil
	}
	return 0, fmt.Errorf("parse workload %q: want clicks or telemetry", s)
}

// KeySpecs are the key specs that find the ID of an event of this kind.
func (k Kind) KeySpecs() []string {
	if k == Telemetry {
		return []string{"json:device", "json:seq"}
	}
	return []string{"json:event_id"}
}

// Config describes a stream. All of it decides the bytes.
type Config struct {
	Kind Kind
	Seed uint64
	// Events is the number of distinct events, Copies the number of further
	// copies among them; the stream has Events + Copies records.
	Events, Copies int
	Partitions     int32
	// ValueBytes is the least length of a value; zero is what it has by itself,
	// about 230 bytes for clicks.
	ValueBytes int
	// KeyByID makes the ID the record's key. Else the key is who sent it, a user
	// or a device, as in most topics.
	KeyByID bool
	// Start is when stream time begins and Span how far it moves, evenly over the
	// records. A span that ends after the wall clock makes times that a
	// deduplicator need not believe, and voids the truth.
	Start time.Time
	Span  time.Duration
	// Window is how long copies must be caught: none is further behind its first.
	Window time.Duration
	// Skew gives a few senders clocks that are minutes or hours behind, but never
	// by a quarter of the window, or ten years ahead. A topic must be told to take
	// the latter (message.timestamp.after.max.ms).
	Skew bool
}

// maxValueBytes fits a record with its key into Kafka's default limit of a batch.
const maxValueBytes = 1_000_000

// Records is the length of the stream.
func (c Config) Records() int { return c.Events + c.Copies }

// Validate reports everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Kind > Telemetry {
		bad("Kind is %s, want clicks or telemetry", c.Kind)
	}
	if c.Events < 1 {
		bad("Events is %d, want at least 1", c.Events)
	}
	if c.Copies < 0 || c.Copies > c.Events {
		bad("Copies is %d, want 0 to Events (%d)", c.Copies, c.Events)
	}
	if c.Partitions < 1 {
		bad("Partitions is %d, want at least 1", c.Partitions)
	}
	if c.ValueBytes < 0 || c.ValueBytes > maxValueBytes {
		bad("ValueBytes is %d, want 0 to %d", c.ValueBytes, maxValueBytes)
	}
	if c.Start.UnixMilli() < 1 {
		bad("Start is %s, want a time after 1970", c.Start)
	}
	if c.Span < 0 {
		bad("Span is %s, want at least 0", c.Span)
	}
	if c.Window < time.Second {
		bad("Window is %s, want at least 1s", c.Window)
	}
	return errors.Join(errs...)
}
