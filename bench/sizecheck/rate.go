package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
	win "github.com/streamdedup/streamdedup/window"
)

// rate is a measured rate of false positives.
type rate struct {
	Model    float64 `json:"model"`
	Measured float64 `json:"measured"`
	// Deviation is the standard deviation of what is measured, relative to it.
	Deviation float64 `json:"relative_deviation"`
	Added     uint64  `json:"added"`
	Probes    uint64  `json:"probes"`
	Seconds   float64 `json:"seconds"`
}

const (
	// wanted is how many false positives make a rate: its deviation is 3% then.
	wanted = 1000
	// fewest and most probes, whatever the rate.
	fewestProbes, mostProbes = 1 << 20, 500 << 20
	batchRecords             = 1024
	// cycleBatches lie between two commits.
	cycleBatches = 128
)

// measureRate fills all generations of all partitions to what they are planned for,
// through a shard as run has it, and asks for IDs that never came. Partitions
// come one after the other, so that only one is in memory.
func measureRate(ctx context.Context, p sizing.Plan, seed uint64) (r rate, err error) {
	began := time.Now()
	probes := uint64(min(max(wanted/p.Workload.FPR, fewestProbes), mostProbes)) / uint64(p.Workload.Partitions)
	var found uint64
	ids := &source{next: seed << 40}
	for partition := range p.Workload.Partitions {
		added, positives, err := fillAndProbe(ctx, p, ids, probes)
		if err != nil {
			return rate{}, fmt.Errorf("partition %d: %w", partition, err)
		}
		r.Added += added
		r.Probes += probes
		found += positives
	}
	var full [filter.Generations]uint64
	for age := range full {
		full[age] = p.GenerationCapacity
	}
	r.Model, r.Measured = p.FPRAt(full), float64(found)/float64(r.Probes)
	r.Deviation = 1 / math.Sqrt(max(1, float64(found)))
	r.Seconds = time.Since(began).Seconds()
	return r, nil
}

// source makes records whose keys are IDs that never come twice.
type source struct {
	next  uint64
	bytes []byte
}

const idBytes = 16

// id appends the next ID. Counting is enough to be different: the shard hashes it.
func (s *source) id() []byte {
	at := len(s.bytes)
	s.bytes = binary.LittleEndian.AppendUint64(s.bytes, s.next)
	s.bytes = append(s.bytes, "-an-id-x"...)
	s.next++
	return s.bytes[at:]
}

// fillAndProbe is one partition: how many IDs it learned, and how many of so many
// new ones it takes for seen.
func fillAndProbe(ctx context.Context, p sizing.Plan, ids *source, probes uint64) (added, positives uint64, err error) {
	var set filter.Set
	slice := win.Config{Span: p.Workload.Window}.Slice()
	shard, err := pipeline.NewShard(pipeline.Config{
		Keys: []string{"key"}, Time: "record", Kind: p.Workload.Kind.String(),
		Window: win.Config{Span: p.Workload.Window, GenerationCapacity: p.GenerationCapacity},
		NewSet: func() (filter.Set, error) {
			var err error
			set, err = p.NewSet()
			return set, err
		},
	}, pipeline.Partition{Topic: "sizecheck"}, false)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, shard.Close()) }()
	batch := pipeline.Batch{
		Partition: pipeline.Partition{Topic: "sizecheck"}, Now: math.MaxInt64 / 2,
		Records: make([]keys.Record, batchRecords), Offsets: make([]int64, batchRecords),
	}
	const start = int64(1_764_000_000_000)
	told := time.Now()
	for generation := range int64(filter.Generations) {
		at := start/slice*slice + generation*slice
		var learned uint64
		for open := 0; learned < p.GenerationCapacity; {
			if time.Since(told) > 30*time.Second {
				tell("  %s of %s IDs", sizing.FormatCount(added+learned), sizing.FormatCount(p.GenerationCapacity*filter.Generations))
				told = time.Now()
			}
			if ctx.Err() != nil {
				return 0, 0, ctx.Err()
			}
			ids.fill(&batch, at)
			shard.Process(&batch)
			learned += batch.Counts.Verdicts[pipeline.Unique] - batch.Counts.Marked(pipeline.Unlearned)
			if open++; open == cycleBatches {
				shard.Seal()
				shard.Commit()
				open = 0
			}
		}
		added += learned
	}
	shard.Seal()
	shard.Commit()
	return added, probe(set, ids, probes), nil
}

// fill makes a batch of new records.
func (s *source) fill(b *pipeline.Batch, at int64) {
	if cap(s.bytes) < batchRecords*idBytes {
		s.bytes = make([]byte, 0, batchRecords*idBytes)
	}
	s.bytes = s.bytes[:0]
	b.First, b.Next = b.Next, b.Next+batchRecords
	for i := range b.Records {
		b.Records[i] = keys.Record{Key: s.id(), Time: at}
		b.Offsets[i] = b.First + int64(i)
	}
}

// probe is how many of so many hashes that were never added the set takes for seen.
// It asks by the call that looks up and learns, which fetches ahead, and learns nothing.
func probe(set filter.Set, ids *source, probes uint64) (positives uint64) {
	hashes, learn, ages := make([]filter.Hash, batchRecords), make([]bool, batchRecords), make([]uint8, batchRecords)
	for done := uint64(0); done < probes; done += batchRecords {
		n := min(batchRecords, probes-done)
		for i := range hashes[:n] {
			hashes[i] = filter.Hash(mix(ids.next))
			ids.next++
		}
		set.TestAndAdd(hashes[:n], learn[:n], 0, ages[:n])
		for _, age := range ages[:n] {
			if age != 0 {
				positives++
			}
		}
	}
	return positives
}

// mix is the finaliser of splitmix64, a bijection: hashes that differ from those of
// the IDs but for one clash in 2^64 each.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
