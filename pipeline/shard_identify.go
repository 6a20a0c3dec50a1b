package pipeline

import (
	"fmt"
	"slices"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/window"
)

// identities are what a shard takes from records before it looks anything up, as
// arrays side by side. They depend on the records, the rules and the reading time alone.
type identities struct {
	hashes   []filter.Hash
	times    []int64 // window.NoTime where there is none, and for TimeNone
	found    []keys.Outcome
	repeated []bool // a header of the ID's
}

// grow makes x as long as n records need, in the memory that it has had.
func (x *identities) grow(n int) {
	x.hashes = slices.Grow(x.hashes[:0], n)[:n]
	x.times = slices.Grow(x.times[:0], n)[:n]
	x.found = slices.Grow(x.found[:0], n)[:n]
	x.repeated = slices.Grow(x.repeated[:0], n)[:n]
}

// part is the identities of the records [from, to).
func (x *identities) part(from, to int) identities {
	return identities{x.hashes[from:to], x.times[from:to], x.found[from:to], x.repeated[from:to]}
}

// finder finds them.
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

// find fills ids for records that were read at now.
func (x *finder) find(records []Record, now int64, ids *identities) {
	ids.grow(len(records))
	x.extractor.HashAll(records, ids.hashes, ids.found, ids.repeated)
	if x.clock != nil {
		x.clock.Times(records, now, window.NoTime, ids.times)
		return
	}
	for i := range ids.times {
		ids.times[i] = window.NoTime
	}
}

// IDs is what an [Identifier] found in the records of a batch.
type IDs struct{ of identities }

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
	x.find(b.Records, b.Now, &b.IDs.of)
}

// check panics when the IDs are those of other records: going on would judge records
// by the IDs of others.
func (x *IDs) check(b *Batch) {
	if x != nil && len(x.of.hashes) != len(b.Records) {
		panic(fmt.Sprintf("BUG: pipeline: %d IDs were found in a batch of %d records", len(x.of.hashes), len(b.Records)))
	}
}

// Spoil says that record i is malformed as a whole, whatever was found in it.
func (x *IDs) Spoil(i int) { x.of.hashes[i], x.of.found[i] = 0, keys.Invalid }
