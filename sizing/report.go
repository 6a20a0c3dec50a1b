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
	ChangelogBytesADay         *uint64 `json:"changelog_bytes_per_day"` // at most, with commits every 200 ms
	ProcessBytes               *uint64 `json:"process_bytes"`
	RunFlags                   string  `json:"run_flags"` // of run, for exactly this plan

	// One textbook Bloom filter of all elements, which has no window.
	ClassicBitsPerElement float64 `json:"classic_bits_per_element"`
	ClassicBytes          uint64  `json:"classic_bytes"`
	ClassicHashes         uint    `json:"classic_hashes"`

	// Windowed are the ways to remember a window, for the same workload.
	Windowed []Windowed `json:"windowed"`
	// RunDefaults is the plan that run makes of the same elements with its default peak
	// and skew; null where they are this plan's.
	RunDefaults *RunDefaults `json:"run_defaults"`
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
func changelogBytesADay(p Plan) *uint64 {
	ids := p.RatePerSecond() * (24 * time.Hour).Seconds() * changelogBytesAnID
	commits := float64(commitsADay) * changelogBytesACommit * float64(p.Workload.Partitions)
	bytes := uint64(ids + commits)
	return &bytes
}

// NewReport works out what to say about p, which [Solve] or [ForMemory] returned, and
// the plans to compare it with.
func NewReport(p Plan) (Report, error) {
	w := p.Workload
	if w.Kind == Single {
		return Report{}, errors.New("report a plan: a single filter has no window, which is what a report is about")
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
		RunFlags:                   p.RunFlags(),
		ChangelogBytesADay:         changelogBytesADay(p),
	}
	bits, hashes, err := filter.TextbookSize(p.Elements, w.FPR)
	if err != nil {
		return Report{}, err
	}
	r.ClassicBitsPerElement = float64(bits) / float64(p.Elements)
	r.ClassicBytes = (bits + 7) / 8
	r.ClassicHashes = hashes
	if r.Windowed, err = compare(w); err != nil {
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

// formatFloat is the shortest text that reads back as f, without an exponent where
// people would not write one.
func formatFloat(f float64) string {
	if f >= 1e-6 && f < 1e15 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// FormatBytes writes a size in both of its usual units: "2.11 GB (1.97 GiB)". It is
// for people; [ParseSize] does not read it.
func FormatBytes(n uint64) string {
	decimal, binary := scaled(n, 1000, "kB", "MB", "GB", "TB"), scaled(n, 1024, "KiB", "MiB", "GiB", "TiB")
	if binary == "" {
		return fmt.Sprintf("%d bytes", n)
	}
	return decimal + " (" + binary + ")"
}

// scaled writes n with three digits in the largest of units that it fills.
func scaled(n uint64, base float64, units ...string) string {
	text, f := "", float64(n)
	for _, unit := range units {
		if f < base {
			break
		}
		f /= base
		digits := 0
		if f < 100 {
			digits = 1
		}
		if f < 10 {
			digits = 2
		}
		text = strconv.FormatFloat(f, 'f', digits, 64) + " " + unit
	}
	return text
}

// FormatCount writes a number with commas between its thousands. [ParseCount] reads it.
func FormatCount(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// rounded writes f in the four digits that matter to a reader.
func rounded(f float64) string {
	text := strconv.FormatFloat(f, 'g', 4, 64)
	if f >= 1000 && f < 1e15 {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic("BUG: a formatted number does not parse: " + text)
		}
		return FormatCount(uint64(n))
	}
	return text
}
