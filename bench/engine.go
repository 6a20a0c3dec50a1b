package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
	"github.com/streamdedup/streamdedup/window"
)

// EngineConfig describes a benchmark of the engine on one core, without Kafka.
type EngineConfig struct {
	// Memory is the size of each filter.
	Memory uint64
	// FPR is the false-positive rate that the filters hold when full.
	FPR float64
	// Layouts are the layouts of the sliced filter to measure.
	Layouts []filter.Layout
	// Sliced, Classic and Exact say what to measure.
	Sliced, Classic, Exact bool
	Seed                   uint64
	// Events bounds what is measured of each; zero is one generation, which has the
	// cost of its rotation and of all its cleaning in it.
	Events uint64
	// Duration bounds it too, in time spent in the engine.
	Duration time.Duration
	// Command is how to repeat the run.
	Command string
	// Progress is told what is measured next; it may be nil.
	Progress func(name string)
}

// Validate reports everything that is wrong with c.
func (c EngineConfig) Validate() error {
	var errs []error
	if c.Memory < 1<<20 {
		errs = append(errs, fmt.Errorf("Memory is %d bytes, want at least 1 MiB", c.Memory))
	}
	if !(c.FPR >= filter.MinFPR && c.FPR < 1) {
		errs = append(errs, fmt.Errorf("FPR is %g, want %g or more and less than 1", c.FPR, filter.MinFPR))
	}
	if !c.Sliced && !c.Classic && !c.Exact || c.Sliced && len(c.Layouts) == 0 {
		errs = append(errs, errors.New("nothing is to be measured"))
	}
	if c.Duration <= 0 {
		errs = append(errs, fmt.Errorf("Duration is %s, want more than 0", c.Duration))
	}
	return errors.Join(errs...)
}

const (
	// engineSlice is how much stream time a generation takes.
	engineSlice = time.Hour
	// engineCycle is how many events lie between two commits: those of 200 ms at
	// the speed of a plain copy.
	engineCycle = 1 << 17
	// warmUp is how many events are not measured.
	warmUp = 1 << 16
	// mapBytesPerID is what an exact map takes, to find how many fit.
	mapBytesPerID = 40
	// mapShare is how many times a filter's memory an exact map may take.
	mapShare = 2
)

// RunEngine measures one shard at work: hash of the ID, window, verdict, journal
// and commits, on one core, with filters that are full when it begins.
func RunEngine(ctx context.Context, cfg EngineConfig) (EngineReport, error) {
	if err := cfg.Validate(); err != nil {
		return EngineReport{}, fmt.Errorf("bench engine: %w", err)
	}
	subjects, err := cfg.subjects()
	if err != nil {
		return EngineReport{}, fmt.Errorf("bench engine: %w", err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	report := EngineReport{Environment: NewEnvironment(cfg.Command, cfg.Seed)}
	var lines []float64
	for _, s := range subjects {
		if err := ctx.Err(); err != nil {
			return EngineReport{}, fmt.Errorf("bench engine: %w", err)
		}
		if cfg.Progress != nil {
			cfg.Progress(s.name)
		}
		// Beside each subject, since a machine is not the same all the time.
		_, ns, err := randomLines(cfg.Memory, cfg.Seed|1)
		if err != nil {
			return EngineReport{}, fmt.Errorf("bench engine: measure random lines: %w", err)
		}
		lines = append(lines, ns)
		result, err := s.measure(ctx, cfg)
		if err != nil {
			return EngineReport{}, fmt.Errorf("bench engine: measure %s: %w", s.name, err)
		}
		report.Results = append(report.Results, result)
	}
	report.RandomLineNS = median(lines)
	return report, nil
}

// median is the middle of values; it sorts them.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// subject is one thing to measure.
type subject struct {
	name, filter, layout string
	fpr                  float64
	ids                  uint64 // IDs of a full window
	perGen               uint64 // new IDs of a generation
	newSet               func() (filter.Set, error)
}

// subjects plans what cfg wants measured.
func (c EngineConfig) subjects() ([]subject, error) {
	workload := sizing.Workload{Window: filter.Sealed * engineSlice, FPR: c.FPR, Peak: 1, Skew: 1, Partitions: 1}
	var subjects []subject
	if c.Sliced {
		for _, layout := range c.Layouts {
			workload.Layout = layout
			plan, err := sizing.ForMemory(workload, c.Memory)
			if err != nil {
				return nil, err
			}
			subjects = append(subjects, c.filterSubject("sliced "+layout.String(), layout.String(), plan))
		}
	}
	if c.Classic {
		workload.Kind = sizing.Classic
		plan, err := sizing.ForMemory(workload, c.Memory)
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, c.filterSubject("classic ring", "", plan))
	}
	if c.Exact {
		s, err := c.exactSubject(workload, subjects)
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

func (c EngineConfig) filterSubject(name, layout string, plan sizing.Plan) subject {
	return subject{
		name: name, filter: plan.Workload.Kind.String(), layout: layout, fpr: c.FPR,
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
func (c EngineConfig) exactSubject(w sizing.Workload, others []subject) (subject, error) {
	var ids uint64
	if len(others) > 0 {
		ids = others[0].ids
	} else {
		plan, err := sizing.ForMemory(w, c.Memory)
		if err != nil {
			return subject{}, err
		}
		ids = plan.Elements
	}
	name := "go map"
	if most := c.Memory * mapShare / mapBytesPerID; ids > most {
		name = fmt.Sprintf("go map, capped at %s IDs", sizing.FormatCount(most))
		ids = most
	}
	return subject{
		name: name, filter: "exact", ids: ids, perGen: max(ids/filter.Sealed, feedBatch),
		newSet: func() (filter.Set, error) { return newExactMap(ids, ^c.Seed), nil },
	}, nil
}

// measure runs one subject.
func (s subject) measure(ctx context.Context, cfg EngineConfig) (EngineResult, error) {
	var set filter.Set
	shard, err := pipeline.NewShard(pipeline.Config{
		Keys: []string{"key"}, Seed: cfg.Seed, Time: "record", Kind: s.filter,
		Window: window.Config{Span: filter.Sealed * engineSlice, GenerationCapacity: s.perGen},
		NewSet: func() (filter.Set, error) {
			var err error
			set, err = s.newSet()
			return set, err
		},
	}, pipeline.Partition{Topic: "bench"}, false)
	if err != nil {
		return EngineResult{}, err
	}
	bytes := set.Bytes()
	feed := newFeed(cfg.Seed, engineSlice.Milliseconds(), s.perGen)
	r := run{shard: shard, feed: feed}
	r.until(ctx, min(warmUp, s.perGen/2), cfg.Duration)
	feed.number++ // measure from a rotation on
	feed.since = 0
	events := cfg.Events
	if events == 0 {
		events = s.perGen / (copyEvery - 1) * copyEvery
	}
	r.took, r.events = 0, 0
	r.until(ctx, events, cfg.Duration)
	if err := errors.Join(ctx.Err(), r.counts.Check(), feed.check(&r.counts, s.fpr), shard.Close()); err != nil {
		return EngineResult{}, err
	}
	ns := float64(r.took.Nanoseconds()) / float64(r.events)
	return EngineResult{
		Name: s.name, Filter: s.filter, Layout: s.layout, FPR: s.fpr, Bytes: bytes,
		NSPerEvent: ns, EventsPerSecond: 1e9 / ns, BytesPerID: float64(bytes) / float64(s.ids),
		IDs: s.ids, Events: r.events,
		Generations: float64(r.events) * (copyEvery - 1) / copyEvery / float64(s.perGen),
	}, nil
}

// run is a shard at work and its clock, which runs only in the shard.
type run struct {
	shard  *pipeline.Shard
	feed   *feed
	counts pipeline.Counts
	took   time.Duration
	events uint64
	open   uint64 // events since the last commit
}

// until feeds the shard with so many events, or for so long.
func (r *run) until(ctx context.Context, events uint64, limit time.Duration) {
	for r.events < events && r.took < limit && ctx.Err() == nil {
		batch := r.feed.next()
		began := time.Now()
		r.shard.Process(batch)
		r.open += feedBatch
		if r.open >= engineCycle {
			r.shard.Seal()
			r.shard.Commit()
			r.open = 0
		}
		r.took += time.Since(began)
		r.events += feedBatch
		r.counts.Plus(&batch.Counts)
	}
}
