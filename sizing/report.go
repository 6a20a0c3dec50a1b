package sizing

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// Report is a plan for people, by [Report.WriteText], and for programs, by its JSON
// form. The names of its JSON members are stable. A figure that is not known is null.
type Report struct {
	Elements   uint64  `json:"elements"`   // distinct new IDs in one window
	FPR        float64 `json:"fpr"`        // target for the whole window
	Window     string  `json:"window"`     // as ParseDuration reads it
	Rate       float64 `json:"rate"`       // new IDs a second
	Peak       float64 `json:"peak"`       // of the plan
	Skew       float64 `json:"skew"`       // of the plan
	Partitions int     `json:"partitions"` // of the topic

	// The filter as allocated for all partitions.
	Filter                     string  `json:"filter"`
	Layout                     string  `json:"layout"`
	Generations                int     `json:"generations"` // sealed and filling
	GenerationCapacity         uint64  `json:"generation_capacity"`
	BitsPerElement             float64 `json:"bits_per_element"`
	Bytes                      uint64  `json:"bytes"`
	BytesPerPartition          uint64  `json:"bytes_per_partition"`
	JournalBytesPerPartition   uint64  `json:"journal_bytes_per_partition"` // bound
	LinesPerLookup             float64 `json:"lines_per_lookup"`
	ExpectedFalsePositivesADay float64 `json:"expected_false_positives_per_day"`
	ChangelogBytesADay         uint64  `json:"changelog_bytes_per_day"` // at most, with commits every 200 ms
	RunFlags                   string  `json:"run_flags"`               // of run, for exactly this plan

	// One process of those that share the partitions, the one with the most of them.
	Instances            int     `json:"instances"`
	PartitionsOfInstance int     `json:"partitions_per_instance"`
	ProcessBytes         uint64  `json:"process_bytes"` // the peak of all that it takes
	Process              Process `json:"process"`       // and what that consists of
	// ProcessBytesOneLost is the same when one of the instances is gone; null with one.
	ProcessBytesOneLost *uint64 `json:"process_bytes_one_instance_lost"`
	// ProcessBytesGrown is the same when full filters have grown as far as the deployment
	// lets them, by default to twice the plan; null where they do not grow.
	ProcessBytesGrown *uint64 `json:"process_bytes_grown"`
	Speed             Speed   `json:"expected"`
	Restore           Restore `json:"restore"`
	MeasuredOn        string  `json:"measured_on"` // the machine of speed and restore

	// One textbook Bloom filter of all elements, which has no window.
	ClassicBitsPerElement float64 `json:"classic_bits_per_element"`
	ClassicBytes          uint64  `json:"classic_bytes"`
	ClassicHashes         uint    `json:"classic_hashes"`

	// Windowed are the ways to remember a window, for the same workload.
	Windowed []Windowed `json:"windowed"`
	// RunDefaults is the plan that run makes of the same elements with its default peak
	// and skew; null where they are this plan's.
	RunDefaults *RunDefaults `json:"run_defaults"`

	// Overloads are what happens at some times the planned rate.
	Overloads []Overload `json:"sensitivity"`
	// Elsewhere is what the same IDs take in other things that remember them.
	Elsewhere []Elsewhere `json:"elsewhere"`
	// Redelivery is how late copies come, if that was asked; else null.
	Redelivery *Redelivery `json:"redelivery"`

	fullyGrown bool // ProcessBytesGrown is of another limit than the default
}

// Deployment is how a plan is to run. The zero value is one process.
type Deployment struct {
	Instances   int // processes that share the partitions
	RecordBytes int // of an average record; 0 is DefaultRecordBytes
	// GrowTo is what the filters of all partitions may grow to. 0 is what run does by
	// itself: GrowthLimit times the plan, where its own load does not fill it.
	GrowTo uint64
	// Shares is as in IO.
	Shares     bool
	Redelivery *Redelivery
}

// Validate reports what cannot be deployed with so many partitions.
func (d Deployment) Validate(partitions int) error {
	if d.Instances > partitions {
		shared := "one partition"
		if partitions != 1 {
			shared = fmt.Sprintf("%d partitions", partitions)
		}
		return fmt.Errorf("%d instances for %s: a partition has one owner, so %d of them would have nothing to do", d.Instances, shared, d.Instances-partitions)
	}
	return nil
}

// Windowed is one way to remember a window.
type Windowed struct {
	Filter         string  `json:"filter"`
	Layout         string  `json:"layout,omitempty"` // of a sliced filter
	BitsPerElement float64 `json:"bits_per_element"`
	Bytes          uint64  `json:"bytes"`
	LinesPerLookup float64 `json:"lines_per_lookup"`
}

// RunDefaults is the plan of run with its default peak and skew.
type RunDefaults struct {
	Peak              float64 `json:"peak"`
	Skew              float64 `json:"skew"`
	BitsPerElement    float64 `json:"bits_per_element"`
	Bytes             uint64  `json:"bytes"`
	BytesPerPartition uint64  `json:"bytes_per_partition"`
	RunFlags          string  `json:"run_flags"`
}

const (
	// Of each new ID the changelog keeps its hash. Of each commit of a partition it
	// keeps the shape of the window, in a batch and with a marker of Kafka's; that takes
	// at most as much as here.
	changelogBytesAnID    = 8
	changelogBytesACommit = 300
	commitsADay           = 24 * time.Hour / (200 * time.Millisecond)
)

// changelogBytesADay is what run writes to the changelog in a day, with commits at
// its default interval.
func changelogBytesADay(p Plan) uint64 {
	ids := p.RatePerSecond() * secondsADay * changelogBytesAnID
	commits := float64(commitsADay) * changelogBytesACommit * float64(p.Workload.Partitions)
	return uint64(ids + commits)
}

// NewReport works out what to say about p, which [Solve] or [ForMemory] returned, when
// it runs as d says, and the plans to compare it with.
func NewReport(p Plan, d Deployment) (Report, error) {
	w := p.Workload
	if w.Kind == Single {
		return Report{}, errors.New("report a plan: a single filter has no window, which is what a report is about")
	}
	if err := d.Validate(w.Partitions); err != nil {
		return Report{}, fmt.Errorf("report a plan: %w", err)
	}
	r := Report{
		Elements:                   p.Elements,
		FPR:                        w.FPR,
		Window:                     FormatDuration(w.Window),
		Rate:                       p.RatePerSecond(),
		Peak:                       w.Peak,
		Skew:                       w.Skew,
		Partitions:                 w.Partitions,
		Filter:                     w.Kind.String(),
		Layout:                     w.Layout.String(),
		Generations:                filter.Generations,
		GenerationCapacity:         p.GenerationCapacity,
		BitsPerElement:             p.BitsPerElement(),
		Bytes:                      p.Bytes,
		BytesPerPartition:          p.BytesPerPartition,
		JournalBytesPerPartition:   p.JournalBytesPerPartition,
		LinesPerLookup:             p.LinesPerLookup(),
		ExpectedFalsePositivesADay: p.FalsePositivesPerDay(),
		RunFlags:                   p.exactFlags(),
		ChangelogBytesADay:         changelogBytesADay(p),
		Redelivery:                 d.Redelivery,
	}
	if err := r.deploy(p, d); err != nil {
		return Report{}, err
	}
	bits, hashes, err := filter.TextbookSize(p.Elements, w.FPR)
	if err != nil {
		return Report{}, err
	}
	r.ClassicBitsPerElement = float64(bits) / float64(p.Elements)
	r.ClassicBytes = (bits + 7) / 8
	r.ClassicHashes = hashes
	r.Elsewhere = elsewhere(measured.Elsewhere, p.Elements, r.ClassicBytes)
	if r.Windowed, err = compare(w); err != nil {
		return Report{}, err
	}
	if r.Overloads, err = p.Overloads(); err != nil {
		return Report{}, err
	}
	if w.Peak != DefaultPeak || w.Skew != DefaultSkew {
		w.Peak, w.Skew = DefaultPeak, DefaultSkew
		run, err := Solve(w)
		if err != nil {
			return Report{}, fmt.Errorf("plan with the default peak and skew of run: %w", err)
		}
		r.RunDefaults = &RunDefaults{
			Peak:              w.Peak,
			Skew:              w.Skew,
			BitsPerElement:    run.BitsPerElement(),
			Bytes:             run.Bytes,
			BytesPerPartition: run.BytesPerPartition,
			RunFlags:          run.RunFlags(),
		}
	}
	return r, nil
}

// deploy says what one process of the deployment takes and does: the one with the
// most partitions.
func (r *Report) deploy(p Plan, d Deployment) error {
	r.Instances = max(d.Instances, 1)
	most := func(instances int) int { return (p.Workload.Partitions + instances - 1) / instances }
	process := func(partitions int) Process {
		return p.Process(IO{Partitions: partitions, RecordBytes: d.RecordBytes, Shares: d.Shares})
	}
	r.PartitionsOfInstance = most(r.Instances)
	r.Process = process(r.PartitionsOfInstance)
	r.ProcessBytes = r.Process.Bytes()
	if r.Instances > 1 {
		lost := process(most(r.Instances - 1)).Bytes()
		r.ProcessBytesOneLost = &lost
	}
	r.Speed = measured.speed(p, r.Process.Filters)
	r.Restore = measured.restore(p, r.PartitionsOfInstance)
	r.MeasuredOn = measured.Machine
	limit := d.GrowTo
	if limit == 0 && p.grows() {
		limit = GrowthLimit * p.Bytes
	}
	tiers, err := p.tiers(limit / uint64(p.Workload.Partitions))
	if err != nil || len(tiers) == 1 {
		return err
	}
	r.fullyGrown = limit != GrowthLimit*p.Bytes
	grown := r.ProcessBytes
	for _, slab := range tiers[1:] {
		grown += uint64(r.PartitionsOfInstance) * slab.bytes
	}
	r.ProcessBytesGrown = &grown
	return nil
}

// compare plans the workload in each way to remember a window.
func compare(w Workload) ([]Windowed, error) {
	var all []Windowed
	add := func(kind Kind, layout filter.Layout) error {
		w.Kind, w.Layout = kind, layout
		p, err := Solve(w)
		if err != nil {
			return err
		}
		line := Windowed{
			Filter:         kind.String(),
			BitsPerElement: p.BitsPerElement(),
			Bytes:          p.Bytes,
			LinesPerLookup: p.LinesPerLookup(),
		}
		if kind == Sliced {
			line.Layout = layout.String()
		}
		all = append(all, line)
		return nil
	}
	for _, one := range []struct {
		kind   Kind
		layout filter.Layout
	}{{Classic, filter.Compact}, {Sliced, filter.Compact}, {Sliced, filter.Fast}} {
		if err := add(one.kind, one.layout); err != nil {
			return nil, fmt.Errorf("compare with %v %v: %w", one.kind, one.layout, err)
		}
	}
	return all, nil
}

// preparePeak is the lowest peak with which a load as planned leaves growing filters
// alone: they prepare memory when an eighth of a generation is left.
const preparePeak = 8. / 7

// grows is whether run is to let full filters of the plan grow, which is its default. A
// plan without reserve would grow by half again when it gets what it is planned for.
func (p Plan) grows() bool { return p.Workload.Kind == Sliced && p.Workload.Peak >= preparePeak }

// exactFlags are RunFlags that also keep a plan without reserve from growing, so that
// its bytes are the plan's.
func (p Plan) exactFlags() string {
	if p.Workload.Kind == Sliced && !p.grows() {
		return p.RunFlags() + " --on-full pass"
	}
	return p.RunFlags()
}

// RunFlags are the flags with which run makes exactly this plan of a topic of as many
// partitions. What is run's default whatever the workload is left out.
func (p Plan) RunFlags() string {
	w := p.Workload
	flags := "--capacity " + strconv.FormatUint(p.Elements, 10) +
		" --window " + FormatDuration(w.Window) +
		" --fpr " + formatFloat(w.FPR)
	if w.Peak != DefaultPeak {
		flags += " --peak " + formatFloat(w.Peak)
	}
	if w.Skew != DefaultSkew {
		flags += " --skew " + formatFloat(w.Skew)
	}
	if w.Kind != Sliced {
		flags += " --filter " + w.Kind.String()
	}
	if w.Layout != filter.Compact {
		flags += " --layout " + w.Layout.String()
	}
	return flags
}
