package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamdedup/streamdedup/pipeline"
)

// Account is what the brokers say of the state of one partition at one moment.
type Account struct {
	Partition int32
	// Start and End are those of the input.
	Start, End int64
	// Committed is the group's offset, -1 where it has none, and Metadata what is
	// kept beside it.
	Committed int64
	Metadata  string
	// Log is what the changelog has, nil where there is none.
	Log *LogAccount
	// Course is the way that a restore would take now. Refused is why it would not:
	// then there is no state.
	Course  Course
	State   *pipeline.State
	Next    int64
	Refused error
}

// LogAccount is a partition of the changelog.
type LogAccount struct {
	Topic string
	// Start and End are its ends, and Stable is how far it can be read: behind it a
	// transaction is open.
	Start, Stable, End int64
	// Last is the last change, nil in an empty one, and LastOffset where its last
	// record is.
	Last       *pipeline.Change
	LastOffset int64
}

// Course is the way that a restore takes.
type Course uint8

// The courses.
const (
	// Begins: there is no state; the partition begins at --start.
	Begins Course = iota
	// FromChangelog: what is committed is the end of the changelog.
	FromChangelog
	// FromInput: there is no changelog yet; what is committed says what to read again.
	FromInput
	// OffsetsExpired: the group has no offset, and goes on where the changelog ends.
	OffsetsExpired
	// MovedForward: what lies between the changelog's end and the group's offset was
	// never judged.
	MovedForward
	// MovedBack: what is read again are duplicates of what is known.
	MovedBack
	// NotCommitted: the output of the last cycle is durable, its offsets are not.
	NotCommitted
	// TailLost: the changelog lost its end; that is learned from the input.
	TailLost
	// Refuses: see Account.Refused.
	Refuses
)

var courseTexts = [...]string{
	"begins: there is no state",
	"from the changelog, up to the committed offset",
	"from the input, by what is kept beside the committed offset",
	"from the changelog, and goes on at its end: the group's offset expired or was deleted",
	"from the changelog: the group was moved forward past records that were not judged",
	"from the changelog: the group was moved back, what it reads again are duplicates",
	"from the changelog, and goes on at its end: the offsets of the last cycle were not committed",
	"from the changelog, and the rest from the input: the changelog has lost its end",
	"refused",
}

// String says it in words.
func (c Course) String() string { return courseTexts[c] }

// MarshalText gives the same words to JSON.
func (c Course) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// courseOf is the course of a restore for a reason.
var courseOf = map[reason]Course{
	asCommitted: FromChangelog, offsetsExpired: OffsetsExpired, movedForward: MovedForward,
	movedBack: MovedBack, notCommitted: NotCommitted, tailLost: TailLost, fromInput: FromInput,
}

// Account asks for one partition. It may be called while the group runs.
func (g *Group) Account(ctx context.Context, number int32) (Account, error) {
	p := g.partition(number)
	a := Account{Partition: number, Committed: -1}
	var err error
	if a.Start, err = lookUp(ctx, g.adm.ListStartOffsets, p); err != nil {
		return a, fmt.Errorf("look for the start of %s: %w", p, err)
	}
	if a.End, err = lookUp(ctx, g.adm.ListEndOffsets, p); err != nil {
		return a, fmt.Errorf("look for the end of %s: %w", p, err)
	}
	x, err := g.steady(ctx, p)
	if IsRefusal(err) {
		a.Course, a.Refused = Refuses, err
	} else if err != nil {
		return a, err
	}
	a.Committed, a.Metadata = x.at.next, x.at.metadata
	if g.hasLog(number) {
		a.Log = &LogAccount{Topic: g.Changelog(), Start: x.log.start, Stable: x.log.stable, End: x.log.end}
		if x.last != nil {
			a.Log.Last, a.Log.LastOffset = &x.last.Change, x.last.offset
		}
	}
	if a.Refused != nil || x.at.next < 0 && x.last == nil {
		return a, nil
	}
	c, err := x.course()
	if err != nil {
		a.Course, a.Refused = Refuses, err
		return a, nil
	}
	a.Course, a.State, a.Next = courseOf[c.why], &c.state, c.next
	return a, nil
}

// IsRefusal is whether an error of [Group.Account] or [Group.Changes] is about what is
// kept, which a restart would refuse too, and not about the asking.
func IsRefusal(err error) bool {
	return errors.Is(err, pipeline.ErrForeignState) || errors.Is(err, errOtherInput) || errors.Is(err, errDamagedLog)
}

// looks is how often Account looks for a moment without a commit.
const looks = 10

// steady is what group and changelog say of a partition in one moment, of a group
// that runs too.
func (g *Group) steady(ctx context.Context, p pipeline.Partition) (x past, err error) {
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	before, err := g.committed(ctx, p)
	for n, began := 0, time.Now(); n < looks; {
		if err != nil {
			return x, err
		}
		x = past{at: before}
		if !g.hasLog(p.Number) {
			return x, nil
		}
		if x.log, err = g.asks.logBounds(ctx, p); err != nil {
			return x, err
		}
		if x.last, err = g.asks.lastChange(ctx, p, x.log.start, x.log.stable); err != nil {
			return x, err
		}
		var after committed
		switch after, err = g.committed(ctx, p); {
		case err != nil || after != before:
			before = after
			n++
		case x.settled() || time.Since(began) > quiet:
			return x, nil
		default:
			// The group's offsets have the end of a transaction before the changelog has: its
			// markers are on their way. Taken as it is, the changelog would have lost its end.
			err = pause(ctx, 50*time.Millisecond)
		}
	}
	return x, err
}

func (g *Group) committed(ctx context.Context, p pipeline.Partition) (committed, error) {
	got, err := g.asks.committed(ctx, p)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return committed{next: -1}, nil
	}
	return got.of(p), err
}

// Changes gives each change of a partition of the changelog to fn, from its
// beginning up to an offset of it; long ones in parts, of which only the last
// says last. It fails with a refusal for a record that cannot be read.
func (g *Group) Changes(ctx context.Context, number int32, from, to int64, fn func(offset int64, c *pipeline.Change, last bool) error) error {
	r := g.asks.readLog(g.partition(number), from)
	for r.next < to {
		changes, err := r.changes(ctx, to)
		if err != nil {
			return err
		}
		for i := range changes {
			if err := fn(changes[i].offset, &changes[i].Change, changes[i].last); err != nil {
				return err
			}
		}
	}
	return nil
}

// Find is the offset of a point of the input: an offset itself must be one that
// the partition has, or its end.
func (g *Group) Find(ctx context.Context, number int32, at Start) (int64, error) {
	return at.offset(ctx, g.adm, g.partition(number))
}

// Settled is an error while an open transaction can still change the account.
func (a *Account) Settled() error {
	if a.Log != nil && a.Log.Stable < a.Log.End {
		return fmt.Errorf("partition %d: a transaction is open on the changelog %s, at offset %d", a.Partition, a.Log.Topic, a.Log.Stable)
	}
	return nil
}
