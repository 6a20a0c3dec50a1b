// Package sizing calculates how much memory a window of distinct IDs takes, and how
// many IDs a window fits into some memory.
//
// A [Workload] says what is to be remembered and how often new records may be taken
// for seen. [Solve] turns it into a [Plan], [ForMemory] finds the largest one for an
// amount of memory, and [Plan.NewSet] builds what was planned, so that the calculator and
// the process that runs cannot differ. A [Report] is a plan for people and programs.
//
// The formulas are those of package filter, next to the filters they describe; here
// they are divided over partitions. Everything is a pure function of its arguments and
// safe for concurrent use.
package sizing

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// Kind is what a partition remembers its IDs in.
type Kind uint8

const (
	// Sliced is the sliced Bloom filter, [filter.Sliced].
	Sliced Kind = iota
	// Classic is the ring of textbook Bloom filters, [filter.Classic].
	Classic
	// Single is the filter of one generation, [filter.Single]: for an input that is one
	// window as a whole. It never forgets, so it is no choice for a stream that moves on
	// and [ParseKind] does not read its name.
	Single
)

// String is the kind's name as [ParseKind] reads it.
func (k Kind) String() string {
	switch k {
	case Sliced:
		return "sliced"
	case Classic:
		return "classic"
	case Single:
		return "single"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// ParseKind reads the name of a kind that remembers a window.
func ParseKind(s string) (Kind, error) {
	switch s {
	case "sliced":
		return Sliced, nil
	case "classic":
		return Classic, nil
	}
	return 0, fmt.Errorf("parse filter kind %q: want sliced or classic", s)
}

const (
	// DefaultPeak leaves room for a day's busiest hours: a generation may get twice its
	// share of the window before it counts as full.
	DefaultPeak = 2.0
	// DefaultSkew leaves room for a partition that gets a quarter more than its share,
	// which hashing of keys seldom exceeds and a few hot keys do not cause: a repeat
	// is no load.
	DefaultSkew = 1.25
)

// Workload is what is to be remembered. Of Elements and Rate one is set; the other
// fields have no default here.
type Workload struct {
	Elements   uint64        // distinct new IDs in one window, over all partitions
	Rate       float64       // or: distinct new IDs a second, over all partitions
	Window     time.Duration // how long an ID is remembered, at least MinWindow; a single filter never forgets
	FPR        float64       // highest share of new IDs to be taken for seen, from filter.MinFPR
	Peak       float64       // how much fuller than average a generation may get, at least 1; a single one is all
	Skew       float64       // how much more than its share a partition may get, at least 1
	Partitions int           // at least 1
	Kind       Kind
	Layout     filter.Layout // of the sliced filter
}

// Validate reports everything that is wrong with w, each fault with its field's name.
func (w Workload) Validate() error {
	errs := w.validateShape()
	switch {
	case w.Elements != 0 && w.Rate != 0:
		errs = append(errs, fmt.Errorf("Elements is %d and Rate is %g, want one of them", w.Elements, w.Rate))
	case w.Rate == 0 && w.Elements == 0:
		errs = append(errs, errors.New("Elements and Rate are 0, want one of them"))
	case w.Elements == 0 && !(w.Rate > 0 && w.Rate <= math.MaxFloat64):
		errs = append(errs, fmt.Errorf("Rate is %g, want a positive number", w.Rate))
	}
	return errors.Join(errs...)
}

// validateShape checks what does not depend on how many IDs there are. Its
// comparisons are written so that a NaN fails.
func (w Workload) validateShape() (errs []error) {
	if w.Window < MinWindow {
		errs = append(errs, fmt.Errorf("Window is %s, want at least %s", FormatDuration(w.Window), FormatDuration(MinWindow)))
	}
	if !(w.FPR >= filter.MinFPR && w.FPR < 1) {
		errs = append(errs, fmt.Errorf("FPR is %g, want %g or more and less than 1", w.FPR, filter.MinFPR))
	}
	if !(w.Peak >= 1 && w.Peak <= math.MaxFloat64) {
		errs = append(errs, fmt.Errorf("Peak is %g, want at least 1", w.Peak))
	}
	if !(w.Skew >= 1 && w.Skew <= math.MaxFloat64) {
		errs = append(errs, fmt.Errorf("Skew is %g, want at least 1", w.Skew))
	}
	if w.Partitions < 1 {
		errs = append(errs, fmt.Errorf("Partitions is %d, want at least 1", w.Partitions))
	}
	if w.Kind > Single {
		errs = append(errs, fmt.Errorf("Kind is %v, want sliced, classic or single", w.Kind))
	}
	if w.Layout > filter.Fast {
		errs = append(errs, fmt.Errorf("Layout is %v, want compact or fast", w.Layout))
	}
	return errs
}

// elements is the number of new IDs in one window.
func (w Workload) elements() (uint64, error) {
	if w.Elements != 0 {
		return w.Elements, nil
	}
	return ceil(w.Rate*w.Window.Seconds(), "new IDs in a window")
}

// share is what one partition gets of the elements, with its skew. However skewed, no
// partition gets more than all, so that the skew of a single one counts as 1.
func (w Workload) share(elements uint64) (uint64, error) {
	skew := min(w.Skew, float64(w.Partitions))
	return ceil(float64(elements)/float64(w.Partitions)*skew, "new IDs of a partition")
}

// planned is what the filter of a partition that gets share IDs is sized for. A single
// generation holds them all, whenever they come, so that its peak counts as 1.
func (w Workload) planned(share uint64) (uint64, error) {
	if w.Kind == Single {
		return share, nil
	}
	return ceil(float64(share)*w.Peak, "new IDs of a partition at its peak")
}

// full is how many of the planned IDs fill a generation.
func (w Workload) full(planned uint64) uint64 {
	if w.Kind == Single {
		return planned
	}
	return (planned + filter.Sealed - 1) / filter.Sealed
}

// ceil rounds a number of IDs up.
func ceil(n float64, what string) (uint64, error) {
	n = math.Ceil(n)
	// Past 2^53 a float64 does not tell neighbours apart; no memory is that large.
	if n > 1<<53 {
		return 0, fmt.Errorf("plan for %g %s: the limit is %d", n, what, uint64(1<<53))
	}
	return uint64(n), nil
}
