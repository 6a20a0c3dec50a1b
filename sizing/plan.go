package sizing

import (
	"errors"
	"fmt"
	"math"

	"github.com/streamdedup/streamdedup/filter"
)

// journalShare is the part of a filter that the journal of one cycle may take before
// the cycle commits early.
const journalShare = 8

// Plan is what a [Workload] needs. It is comparable.
type Plan struct {
	Workload Workload

	Elements uint64 // distinct new IDs in one window, over all partitions
	Share    uint64 // of them one partition's, with its skew
	Planned  uint64 // what a partition's filter is sized for: the share times the peak
	// GenerationCapacity is how many unique IDs fill one generation of one partition.
	// With all generations full the rate is still at most the workload's.
	GenerationCapacity uint64

	Sliced  filter.Params        // of one partition; zero for other kinds
	Classic filter.ClassicParams // of one partition; zero for other kinds
	Single  filter.SingleParams  // of one partition; zero for other kinds

	BytesPerPartition        uint64 // the filter of one partition, as allocated
	Bytes                    uint64 // the filters of all partitions, as allocated
	JournalBytesPerPartition uint64 // the undo journal at which a cycle commits early
}

// Solve plans the filters for w: for one partition the smallest that holds w.FPR with
// all of its generations filled to the peak. It refuses a workload that is not valid and
// one that no filter is large enough for.
func Solve(w Workload) (Plan, error) {
	if err := w.Validate(); err != nil {
		return Plan{}, fmt.Errorf("plan for a workload: %w", err)
	}
	p := Plan{Workload: w}
	var err error
	if p.Elements, err = w.elements(); err != nil {
		return Plan{}, err
	}
	if p.Share, err = w.share(p.Elements); err != nil {
		return Plan{}, err
	}
	if p.Planned, err = w.planned(p.Share); err != nil {
		return Plan{}, err
	}
	p.GenerationCapacity = w.full(p.Planned)
	switch w.Kind {
	case Sliced:
		p.Sliced, err = filter.Size(p.Planned, w.FPR, w.Layout)
		p.BytesPerPartition = p.Sliced.Bytes()
	case Classic:
		p.Classic, err = filter.ClassicSize(p.Planned, w.FPR)
		p.BytesPerPartition = p.Classic.Bytes()
	case Single:
		p.Single, err = filter.SingleSize(p.Planned, w.FPR)
		p.BytesPerPartition = p.Single.Bytes()
	}
	if err != nil {
		return Plan{}, err
	}
	if p.BytesPerPartition > math.MaxInt64/uint64(w.Partitions) {
		return Plan{}, fmt.Errorf("plan for %d partitions of %d bytes: no machine has as much memory", w.Partitions, p.BytesPerPartition)
	}
	p.Bytes = p.BytesPerPartition * uint64(w.Partitions)
	p.JournalBytesPerPartition = p.BytesPerPartition / journalShare
	return p, nil
}

// ForMemory is the inverse of [Solve]: the plan for the most elements whose filters, of
// all partitions together, take at most bytes. w has neither Elements nor Rate; the plan's
// workload has the Elements found. Journals and the rest of the process come on top.
func ForMemory(w Workload, bytes uint64) (Plan, error) {
	errs := w.validateShape()
	if w.Elements != 0 || w.Rate != 0 {
		errs = append(errs, fmt.Errorf("Elements is %d and Rate is %g, want neither where the memory is given", w.Elements, w.Rate))
	}
	if err := errors.Join(errs...); err != nil {
		return Plan{}, fmt.Errorf("plan for %d bytes: %w", bytes, err)
	}
	w.Elements = 1
	best, err := Solve(w)
	if err != nil {
		return Plan{}, err
	}
	if best.Bytes > bytes {
		return Plan{}, fmt.Errorf("plan for %d bytes: the smallest filters for %s take %d bytes", bytes, partitionCount(w.Partitions), best.Bytes)
	}
	// More elements never take less, so halving the range between what fits and
	// what does not finds the border. What cannot be planned at all does not fit.
	fits, tooMany := uint64(1), uint64(1)<<54
	for tooMany-fits > 1 {
		w.Elements = fits + (tooMany-fits)/2
		p, err := Solve(w)
		if err != nil || p.Bytes > bytes {
			tooMany = w.Elements
			continue
		}
		best, fits = p, w.Elements
	}
	return best, nil
}

// NewSet builds the set of one partition. Its owner closes it.
func (p Plan) NewSet() (filter.Set, error) {
	switch p.Workload.Kind {
	case Classic:
		return newSet(filter.NewClassic(p.Classic))
	case Single:
		return newSet(filter.NewSingle(p.Single))
	}
	return newSet(filter.NewSliced(p.Sliced))
}

// GrowthLimit is what filters may grow to where nobody says it, in times the plan.
const GrowthLimit = 2

// NewGrowingSet builds the set of one partition, which may grow to its share of limit bytes
// for all partitions. A classic one cannot grow. Its owner closes it.
func (p Plan) NewGrowingSet(limit uint64) (filter.Set, error) {
	if p.Workload.Kind == Classic {
		return nil, errors.New("a ring of classic filters cannot grow")
	}
	return newSet(filter.NewGrowing(filter.GrowingConfig{
		Sliced: p.Sliced, Single: p.Single, FPR: p.Workload.FPR,
		GenerationCapacity: p.GenerationCapacity, MaxBytes: limit / uint64(p.Workload.Partitions),
	}))
}

// newSet is set, or nothing at all after an error: a nil pointer must not get into
// the interface.
func newSet[S filter.Set](set S, err error) (filter.Set, error) {
	if err != nil {
		return nil, err
	}
	return set, nil
}

// model is what the geometry of a partition's filter says of it.
func (p Plan) model() filter.Model {
	switch p.Workload.Kind {
	case Classic:
		return p.Classic
	case Single:
		return p.Single
	}
	return p.Sliced
}

// FPRAt is the model's false-positive rate of a partition whose generations hold
// loads[i] unique IDs each, in any order. It takes about a microsecond.
func (p Plan) FPRAt(loads [filter.Generations]uint64) float64 { return p.model().FPRAt(loads) }

// BitsPerElement is the memory as allocated over the elements of the window.
func (p Plan) BitsPerElement() float64 { return float64(p.Bytes) * 8 / float64(p.Elements) }

// RatePerSecond is how many new IDs come a second, on average over the window.
func (p Plan) RatePerSecond() float64 {
	if p.Workload.Rate != 0 {
		return p.Workload.Rate
	}
	return float64(p.Elements) / p.Workload.Window.Seconds()
}

// LinesPerLookup is how many cache lines looking a new ID up and adding it touches on
// average, with all generations full: those of its key for a sliced filter, which answers
// for all generations at once and adds into the same lines, and for a single one. A
// classic ring asks each generation until a bit is missing, (1-f^k)/(1-f) lines at a fill
// of f, and sets k bits.
func (p Plan) LinesPerLookup() float64 {
	switch p.Workload.Kind {
	case Sliced:
		return float64(p.Sliced.LinesPerKey)
	case Single:
		return filter.SingleLinesPerKey
	}
	k := float64(p.Classic.Hashes)
	empty := math.Exp(-k * float64(p.GenerationCapacity) / float64(p.Classic.Bits))
	asked := -math.Expm1(k*math.Log1p(-empty)) / empty
	return filter.Generations*asked + k
}

// FalsePositivesPerDay is how many new IDs a day are taken for seen, at most, while the
// load is the workload's average: new IDs times the rate at the window's worst moment.
// It is less than the workload's FPR allows where Peak or Skew leave room.
func (p Plan) FalsePositivesPerDay() float64 {
	const day = 24 * 60 * 60
	average := uint64(math.Ceil(float64(p.Elements) / float64(p.Workload.Partitions)))
	return p.RatePerSecond() * day * p.model().FPR(average)
}

func partitionCount(n int) string {
	if n == 1 {
		return "1 partition"
	}
	return fmt.Sprintf("%d partitions", n)
}
