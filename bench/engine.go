package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// EngineConfig describes a benchmark of the engine on one core, without Kafka.
type EngineConfig struct {
	// Memory are the sizes of the filters to measure, one after the other.
	Memory []uint64
	// FPR is the false-positive rate that the filters hold when full.
	FPR float64
	// Workloads are the streams to measure by.
	Workloads []Workload
	// Layouts are the layouts of the sliced filter to measure.
	Layouts []filter.Layout
	// Sliced, Classic and Exact say what to measure.
	Sliced, Classic, Exact bool
	// Growing says to watch shards for pauses, too, whose sliced filters grow meanwhile.
	Growing bool
	Seed    uint64
	// Events bounds what is measured of each; zero is one generation, which has the
	// cost of its rotation and of all its cleaning in it.
	Events uint64
	// Duration bounds it too, in time spent in the engine.
	Duration time.Duration
	// Rotations is how many of them the whole shard is watched for pauses across.
	Rotations int
	// Command is how to repeat the run.
	Command string
	// Progress is told what is measured next; it may be nil.
	Progress func(name string)
}

// minMemory is a filter that a second-level cache holds, with all that belongs to it.
const minMemory = 64 << 10

// Validate reports everything that is wrong with c.
func (c EngineConfig) Validate() error {
	var errs []error
	if len(c.Memory) == 0 || slices.Min(c.Memory) < minMemory {
		errs = append(errs, fmt.Errorf("Memory is %d bytes, want sizes of at least %d KiB", c.Memory, minMemory>>10))
	}
	if !(c.FPR >= filter.MinFPR && c.FPR < 1) {
		errs = append(errs, fmt.Errorf("FPR is %g, want %g or more and less than 1", c.FPR, filter.MinFPR))
	}
	if !c.Sliced && !c.Classic && !c.Exact || (c.Sliced || c.Growing) && len(c.Layouts) == 0 || len(c.Workloads) == 0 {
		errs = append(errs, errors.New("nothing is to be measured"))
	}
	if c.Duration <= 0 {
		errs = append(errs, fmt.Errorf("Duration is %s, want more than 0", c.Duration))
	}
	if c.Rotations < 1 || c.Rotations > maxRotations {
		errs = append(errs, fmt.Errorf("Rotations is %d, want 1 to %d", c.Rotations, maxRotations))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return c.checkGenerations(slices.Min(c.Memory))
}

// checkGenerations refuses a size whose generations do not take a batch: there would be
// nothing to measure between two rotations.
func (c EngineConfig) checkGenerations(memory uint64) error {
	subjects, err := c.subjects(memory)
	if err != nil {
		return err
	}
	for _, s := range subjects {
		if s.perGen < feedBatch {
			return fmt.Errorf("a generation of %s has room for %d IDs in %d bytes at FPR %g, want the %d of a batch: take more memory or a higher FPR",
				s.name, s.perGen, memory, c.FPR, feedBatch)
		}
	}
	return nil
}

const (
	// engineSlice is how much stream time a generation takes.
	engineSlice = time.Hour
	// engineCycle is how many events lie between two commits: those of 200 ms at
	// the speed of a plain copy.
	engineCycle = 1 << 17
	// leastEvents is what it takes to measure a small filter, whose generation a
	// thread fills in milliseconds: several of them.
	leastEvents = 1 << 20
	// fewEvents say nothing of the time of one.
	fewEvents = 16 * feedBatch
	// maxRotations bounds the memory for the times of single batches.
	maxRotations = 1000
)

// RunEngine measures on one core, with filters that are full when it begins, the
// engine and then the whole shard around it: see [EngineResult]. One filter at a
// time is in memory.
func RunEngine(ctx context.Context, cfg EngineConfig) (EngineReport, error) {
	if err := cfg.Validate(); err != nil {
		return EngineReport{}, fmt.Errorf("bench engine: %w", err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	report := EngineReport{Environment: NewEnvironment(cfg.Command, cfg.Seed), Clock: threadClock, BatchEvents: feedBatch}
	for _, memory := range cfg.Memory {
		results, err := cfg.runSize(ctx, memory)
		if err != nil {
			return EngineReport{}, fmt.Errorf("bench engine: %w", err)
		}
		report.Results = append(report.Results, results...)
		grown, err := cfg.runGrowing(ctx, memory)
		if err != nil {
			return EngineReport{}, fmt.Errorf("bench engine: %w", err)
		}
		report.Growing = append(report.Growing, grown...)
	}
	report.compare()
	return report, nil
}

// runSize measures everything of one size, workload by workload.
func (c EngineConfig) runSize(ctx context.Context, memory uint64) ([]EngineResult, error) {
	subjects, err := c.subjects(memory)
	if err != nil {
		return nil, err
	}
	results := make([][]EngineResult, len(c.Workloads))
	for _, s := range subjects {
		if err := s.measure(ctx, c, func(w int, r EngineResult) { results[w] = append(results[w], r) }); err != nil {
			return nil, fmt.Errorf("measure %s: %w", s.name, err)
		}
		runtime.GC() // the next one's memory takes the place of this one's
	}
	return slices.Concat(results...), nil
}

// tell says what is measured next.
func (c EngineConfig) tell(what string) {
	if c.Progress != nil {
		c.Progress(what)
	}
}

// median is the middle of values, between the two middle ones of an even number; it
// sorts them.
func median(values []float64) float64 {
	slices.Sort(values)
	half := len(values) / 2
	if len(values)%2 == 0 {
		return (values[half-1] + values[half]) / 2
	}
	return values[half]
}
