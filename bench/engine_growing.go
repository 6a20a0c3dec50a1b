package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
	"github.com/streamdedup/streamdedup/window"
)

const (
	// growShare is the part of the memory that the filter which grows begins with.
	growShare = 3
	// growTimes is how many times its plan each generation of it gets.
	growTimes = 3
	// growFrom is which part of its plan the first generation still lacks: from there on a
	// filter prepares to grow, and a large one is not there within the time to measure.
	growFrom = 8
)

// GrowingResult is what was measured of a shard whose filter grows meanwhile.
type GrowingResult struct {
	Name     string  `json:"name"`
	Workload string  `json:"workload"`
	Layout   string  `json:"layout"`
	FPR      float64 `json:"fpr"`
	Memory   uint64  `json:"memory"` // asked for
	Planned  uint64  `json:"planned_bytes"`
	Bytes    uint64  `json:"bytes"` // at the end
	Slabs    int     `json:"slabs"` // that were added
	// LongestGrowthNS is the longest batch that made memory resident for the next slab,
	// or came to it.
	LongestGrowthNS float64 `json:"longest_growth_ns"`
	ShardResult
}

// runGrowing measures what it takes a shard to grow, layout by layout.
func (c EngineConfig) runGrowing(ctx context.Context, memory uint64) ([]GrowingResult, error) {
	if !c.Growing {
		return nil, nil
	}
	var results []GrowingResult
	for _, layout := range c.Layouts {
		plan, err := sizing.ForMemory(sizing.Workload{
			Window: filter.Sealed * engineSlice, FPR: c.FPR, Peak: 1, Skew: 1, Partitions: 1, Layout: layout,
		}, memory/growShare)
		if err != nil {
			return nil, err
		}
		for _, w := range c.Workloads {
			r := GrowingResult{
				Name: "sliced " + layout.String(), Workload: w.String(), Layout: layout.String(), FPR: c.FPR,
				Memory: memory, Planned: plan.Bytes,
			}
			c.tell(fmt.Sprintf("%s of %s, growing, %s", r.Name, sizing.FormatBytes(plan.Bytes), w))
			if err := c.grow(ctx, plan, w, &r); err != nil {
				return nil, fmt.Errorf("measure %s, growing: %w", r.Name, err)
			}
			results = append(results, r)
			runtime.GC() // the next one's memory takes the place of this one's
		}
	}
	return results, nil
}

// grow measures one filter: how it grows, and then rotations of what it has become.
func (c EngineConfig) grow(ctx context.Context, plan sizing.Plan, w Workload, r *GrowingResult) (err error) {
	set, begun, err := fullGrowing(plan, c.Seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	windows := windowConfig(plan.GenerationCapacity)
	windows.OnFull = window.GrowWhenFull
	shard, err := newShard(c.Seed, plan.Workload.Kind.String(), windows, set)
	if err != nil {
		return err
	}
	feed := newFeed(c.Seed, engineSlice.Milliseconds())
	feed.workload = w
	l := newLane(shard, set, feed, max(growTimes*plan.GenerationCapacity, feedBatch))
	l.filled = begun
	l.begin() // of a small filter, the first slab comes in it
	most := c.Events
	if most == 0 {
		most = math.MaxUint64
	}
	l.fill(ctx, stepBatch, turn{events: most, limit: c.Duration, copies: true})
	rest := turn{rotations: c.Rotations, events: c.Events, limit: l.measured.took + c.Duration, copies: true}
	if rest.events > 0 {
		rest.events += l.measured.events
	}
	m := l.goOn(ctx, rest)
	if err := errors.Join(ctx.Err(), feed.check(l.duplicates, c.FPR)); err != nil {
		return err
	}
	r.Bytes, r.Slabs, r.LongestGrowthNS = set.Bytes(), m.slabs, float64(m.longest[stepGrowth])
	r.ShardResult = newShardResult(m, l.perGen)
	return nil
}

// fullGrowing is a filter that may grow, as full as it is planned for but for what the
// first generation still lacks; begun is how much that has.
func fullGrowing(plan sizing.Plan, seed uint64) (set *filter.Growing, begun uint64, err error) {
	full, err := plan.NewSet()
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, full.Close()) }()
	full.(saturable).Saturate(plan.Elements, seed)
	empty, err := pipeline.Aside(func() (filter.Set, error) {
		return plan.NewGrowingSet(math.MaxUint64) // what it gets is what bounds it
	})()
	if err != nil {
		return nil, 0, err
	}
	set = empty.(*filter.Growing)
	// It takes what a filter that did not grow has stored, as after a restart with another
	// policy.
	if err := set.Load(full.AppendHead(nil), &body{set: full}); err != nil {
		return nil, 0, errors.Join(err, set.Close())
	}
	var given [filter.Generations]uint64
	for age := range given {
		given[age] = plan.GenerationCapacity
	}
	given[0] -= given[0] / growFrom // which its bits have already: it gets so much more than its plan
	set.Recount(given)
	return set, given[0], nil
}

// body reads what a set stores.
type body struct {
	set  filter.Set
	at   uint64
	buf  []byte
	left []byte // of buf, not read yet
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if len(b.left) == 0 {
		from, end := b.at, b.set.BodyBytes()
		if from == end {
			return 0, io.EOF
		}
		b.at = min(end, from+copyStep)
		b.buf = b.set.AppendBody(b.buf[:0], from, b.at)
		b.left = b.buf
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}
