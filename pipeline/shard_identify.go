package pipeline

import (
	"fmt"
	"slices"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/window"
)

// identity is what a shard takes from a record before it looks anything up. It
// depends on the record, the rules and the reading time alone.
type identity struct {
	hash     filter.Hash
	time     int64 // window.NoTime where there is none, and for TimeNone
	found    keys.Outcome
	repeated bool // a header of the ID's
}

// finder takes identities from records.
type finder struct {
	extractor *keys.Extractor
	clock     *keys.Clock // nil for TimeNone
}

func newFinder(cfg Config) (x finder, err error) {
	if x.extractor, err = keys.Parse(cfg.Keys, cfg.Seed, cfg.IDs); err != nil {
		return x, err
	}
	if cfg.Time != TimeNone {
		x.clock, err = keys.ParseClock(cfg.Time, cfg.TimeFormat, cfg.IDs.Table)
	}
	return x, err
}

// find is the identity of a record that was read at now.
func (x *finder) find(r *Record, now int64) identity {
	repeated := x.extractor.RepeatedHeaders()
	id := identity{time: window.NoTime}
	id.hash, id.found = x.extractor.Hash(r)
	id.repeated = x.extractor.RepeatedHeaders() != repeated
	if x.clock != nil {
		if t, ok := x.clock.Time(r, now); ok {
			id.time = t
		}
	}
	return id
}

// IDs is what an [Identifier] found in the records of a batch.
type IDs struct{ of []identity }

// Identifier finds the IDs and times of a batch before its shard has it, so that
// several goroutines can do for one shard what takes most of its time. The outcomes
// are those without it. It has one owner, and one for each goroutine is needed.
type Identifier struct{ finder }

// NewIdentifier makes an Identifier for shards with the same configuration.
func NewIdentifier(cfg Config) (*Identifier, error) {
	x, err := newFinder(cfg)
	if err != nil {
		return nil, fmt.Errorf("make identifier: %w", err)
	}
	return &Identifier{x}, nil
}

// Identify fills b.IDs, in the memory that it has had. Records and Now must stay as
// they are until a shard has judged the batch.
func (x *Identifier) Identify(b *Batch) {
	if b.IDs == nil {
		b.IDs = new(IDs)
	}
	ids := slices.Grow(b.IDs.of[:0], len(b.Records))[:len(b.Records)]
	for i := range b.Records {
		ids[i] = x.find(&b.Records[i], b.Now)
	}
	b.IDs.of = ids
}

// check panics when the IDs are those of other records: going on would judge records
// by the IDs of others.
func (x *IDs) check(b *Batch) {
	if x != nil && len(x.of) != len(b.Records) {
		panic(fmt.Sprintf("BUG: pipeline: %d IDs were found in a batch of %d records", len(x.of), len(b.Records)))
	}
}

// Spoil says that record i is malformed as a whole, whatever was found in it.
func (x *IDs) Spoil(i int) { x.of[i].hash, x.of[i].found = 0, keys.Invalid }
