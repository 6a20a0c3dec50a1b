package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/sizing"
)

const (
	// mapBytesPerID is what an exact map takes, to find how many fit.
	mapBytesPerID = 40
	// mapShare is how many times a filter's memory an exact map may take.
	mapShare = 2
)

// subject is one thing to measure.
type subject struct {
	name, filter, layout string
	fpr                  float64
	memory               uint64 // that was asked for
	ids                  uint64 // IDs of a full window
	perGen               uint64 // new IDs of a generation
	lines                int    // that an event touches; 0 where it depends on the event
	newSet               func() (filter.Set, error)
}

// subjects plans what c wants measured of one size.
func (c EngineConfig) subjects(memory uint64) ([]subject, error) {
	workload := sizing.Workload{Window: filter.Sealed * engineSlice, FPR: c.FPR, Peak: 1, Skew: 1, Partitions: 1}
	var subjects []subject
	if c.Sliced {
		for _, layout := range c.Layouts {
			workload.Layout = layout
			plan, err := sizing.ForMemory(workload, memory)
			if err != nil {
				return nil, err
			}
			s := c.filterSubject("sliced "+layout.String(), layout.String(), memory, plan)
			s.lines = plan.Sliced.LinesPerKey
			subjects = append(subjects, s)
		}
	}
	if c.Classic {
		workload.Kind = sizing.Classic
		plan, err := sizing.ForMemory(workload, memory)
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, c.filterSubject("classic ring", "", memory, plan))
	}
	if c.Exact {
		s, err := c.exactSubject(workload, memory, subjects)
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, s)
	}
	return subjects, nil
}

// saturable is a filter that can be filled in one go.
type saturable interface {
	filter.Set
	Saturate(elements, seed uint64)
}

func (c EngineConfig) filterSubject(name, layout string, memory uint64, plan sizing.Plan) subject {
	return subject{
		name: name, filter: plan.Workload.Kind.String(), layout: layout, fpr: c.FPR, memory: memory,
		ids: plan.Elements, perGen: plan.GenerationCapacity,
		newSet: func() (filter.Set, error) {
			set, err := plan.NewSet()
			if err != nil {
				return nil, err
			}
			set.(saturable).Saturate(plan.Elements, c.Seed)
			return set, nil
		},
	}
}

// exactSubject is a map of as many IDs as the first filter holds, if they fit.
func (c EngineConfig) exactSubject(w sizing.Workload, memory uint64, others []subject) (subject, error) {
	var ids uint64
	if len(others) > 0 {
		ids = others[0].ids
	} else {
		plan, err := sizing.ForMemory(w, memory)
		if err != nil {
			return subject{}, err
		}
		ids = plan.Elements
	}
	name := "go map"
	if most := memory * mapShare / mapBytesPerID; ids > most {
		name = fmt.Sprintf("go map, capped at %s IDs", sizing.FormatCount(most))
		ids = most
	}
	return subject{
		name: name, filter: exactFilter, memory: memory, ids: ids, perGen: max(ids/filter.Sealed, feedBatch),
		newSet: func() (filter.Set, error) { return newExactMap(ids, ^c.Seed), nil },
	}, nil
}

// measure fills one subject and runs all workloads on it, one after the other.
// Done is told the result of each.
func (s subject) measure(ctx context.Context, cfg EngineConfig, done func(workload int, r EngineResult)) error {
	// On both sides of each subject, since a machine is not the same all the time.
	cfg.tell(fmt.Sprintf("random lines of %s", sizing.FormatBytes(s.memory)))
	watch := min(watchFor, cfg.Duration/4)
	if cfg.Events > 0 {
		watch = lineRound // a run that is over soon
	}
	before, longest, err := randomLines(s.memory, cfg.Seed|1, watch)
	if err != nil {
		return err
	}
	cfg.tell(fmt.Sprintf("%s of %s", s.name, sizing.FormatBytes(s.memory)))
	set, err := s.newSet()
	if err != nil {
		return err
	}
	bytes := set.Bytes()
	var results []EngineResult
	if err := errors.Join(s.run(ctx, cfg, set, func(r EngineResult) { results = append(results, r) }), set.Close()); err != nil {
		return err
	}
	after, _, err := randomLines(s.memory, cfg.Seed|1, 0)
	if err != nil {
		return err
	}
	lineNS := median(append(before, after...))
	for i, r := range results {
		r.Name, r.Filter, r.Layout, r.FPR = s.name, s.filter, s.layout, s.fpr
		r.Memory, r.Bytes, r.BytesPerID, r.IDs = s.memory, bytes, float64(bytes)/float64(s.ids), s.ids
		r.RandomLineNS, r.RandomLines, r.LoopLongestNS = lineNS, r.NSPerEvent/lineNS, float64(longest)
		if s.lines > 0 {
			r.Lines, r.TimesRoofline = s.lines, r.NSPerEvent/(r.HashNS+float64(s.lines)*lineNS)
		}
		done(i, r)
	}
	return nil
}

// run measures the workloads on a set.
func (s subject) run(ctx context.Context, cfg EngineConfig, set filter.Set, done func(r EngineResult)) error {
	feed := newFeed(cfg.Seed, engineSlice.Milliseconds())
	engine, err := newEngine(cfg.Seed, s.perGen, set)
	if err != nil {
		return err
	}
	shard, err := newShard(cfg.Seed, s.filter, windowConfig(s.perGen), set)
	if err != nil {
		return err
	}
	// They take turns with the set, each with a window of its own. A turn begins with
	// a rotation and ends with a commit, so that the set only sees generations go by.
	lanes := [...]*lane{newLane(engine, set, feed, s.perGen), newLane(shard, set, feed, s.perGen)}
	for _, l := range lanes {
		l.begin()
	}
	for _, w := range cfg.Workloads {
		cfg.tell(fmt.Sprintf("%s of %s, %s", s.name, sizing.FormatBytes(s.memory), w))
		feed.workload = w
		alone := lanes[0].measure(ctx, turn{rotations: 1, events: cfg.Events, limit: cfg.Duration})
		whole := lanes[1].measure(ctx, turn{rotations: cfg.Rotations, events: cfg.Events, limit: cfg.Duration, copies: true})
		if err := errors.Join(ctx.Err(), feed.check(lanes[0].duplicates+lanes[1].duplicates, s.fpr)); err != nil {
			return err
		}
		r := newEngineResult(w, alone, whole, s.perGen)
		r.HashNS = engine.hashAlone(feed.batch.Records)
		done(r)
	}
	return nil
}
