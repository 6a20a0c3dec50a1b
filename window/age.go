package window

import (
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// Age is that of the generation in which a run was learned, for a window with this
// state: 0 is the one filling, and [filter.Generations] or more is forgotten. By
// rotations where the slice has not changed since, else by time. In doubt the run
// is held longer.
func (s State) Age(run Run) int {
	if len(s.Generations) == 0 {
		return filter.Generations
	}
	return ageOfRun(run, s.Rotation, s.Generations[len(s.Generations)-1].Number, s.Slice)
}

// ageOfRun is Age for a window whose filling generation has that rotation and number.
func ageOfRun(run Run, rotation uint64, number, slice int64) int {
	switch {
	case run.Rotation>>lineageShift == rotation>>lineageShift:
		if run.Rotation > rotation {
			return 0 // learned after the state was noted
		}
		return int(min(rotation-run.Rotation, filter.Generations))
	case run.Until == NoTime:
		return 0
	}
	return ageIn(run.Until, number, slice)
}

// ageIn is the age of the generation that a stream time lies in, at least 0.
func ageIn(t, number, slice int64) int {
	return int(min(max(0, number-floorDiv(t, slice)), filter.Generations))
}

// AgeAt is the age of the generation that a stream time lies in, 0 for one after
// the last, and [filter.Generations] or more for one that is forgotten.
func (s State) AgeAt(t int64) int {
	if len(s.Generations) == 0 {
		return filter.Generations
	}
	return ageIn(t, s.Generations[len(s.Generations)-1].Number, s.Slice)
}

// Stretch is the generation of an age as a stretch of stream time, from and up to
// but without, in milliseconds. A state without generations has none: it panics.
func (s State) Stretch(age int) (from, to int64) {
	number := s.Generations[len(s.Generations)-1].Number - int64(age)
	return number * s.Slice, (number + 1) * s.Slice
}

// Coverage is how much of a span a window with this state knows, as [Window.Coverage].
func (s State) Coverage(span time.Duration) float64 {
	return coverage(s.KnownFrom, s.StreamTime, span.Milliseconds())
}

// Taught is the state of a window that was taught from outside what a stream had shown
// from stream time knownFrom up to m, which is believed: all of its generations have
// begun, at the offset at which reading begins.
func Taught(slice, m, knownFrom, first int64) State {
	s := State{
		StreamTime: m, Believed: true, KnownFrom: known(knownFrom), Slice: slice,
		Rotation: filter.Sealed, Generations: make([]Generation, filter.Generations),
	}
	for i := range s.Generations {
		s.Generations[i] = Generation{Number: floorDiv(m, slice) - filter.Sealed + int64(i), FirstOffset: first}
	}
	return s
}
