package main

import (
	"slices"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

// seenID is an ID and when it was seen, in stream time.
type seenID struct {
	hash filter.Hash
	time int64
}

// importedIDs are those of each partition.
type importedIDs [][]seenID

// lesson puts the IDs of a partition into the generations of their times. One that
// has no generation yet gets those that a stream up to the newest ID would have.
func (t *teacher) lesson(a *kafkaio.Account, next int64) lesson {
	ids := t.ids[a.Partition]
	l := lesson{state: pipeline.State{Fingerprint: t.print, Window: window.State{Slice: t.slice}}}
	if a.State != nil {
		l.state = *a.State
	}
	if len(ids) == 0 {
		return l
	}
	w := &l.state.Window
	if len(w.Generations) == 0 {
		oldest, newest := ids[0].time, ids[0].time
		for _, id := range ids {
			oldest, newest = min(oldest, id.time), max(newest, id.time)
		}
		*w = window.Taught(w.Slice, newest, oldest, next)
		if newest > t.newest {
			t.newest, t.newestIn = newest, a.Partition
		}
	}
	var ahead uint64
	var hashes [filter.Generations][]filter.Hash
	for _, id := range ids {
		if id.time > w.StreamTime {
			ahead++
		}
		age := w.AgeAt(id.time)
		if age >= filter.Generations {
			l.old++
			continue
		}
		// A window that is younger than the ID keeps it longer than it must.
		age = min(age, len(w.Generations)-1)
		hashes[age] = append(hashes[age], id.hash)
	}
	if ahead > 0 && (t.ahead == 0 || w.StreamTime < t.behind) {
		t.behind, t.behindIn = w.StreamTime, a.Partition
	}
	t.ahead += ahead
	change := &pipeline.Change{Begin: next, Next: next, State: l.state}
	for age, learned := range slices.Backward(hashes[:]) {
		slices.Sort(learned) // and once each
		if learned = slices.Compact(learned); len(learned) == 0 {
			continue
		}
		from, to := w.Stretch(age)
		if n := uint64(len(learned)); t.room > 0 && n > t.room {
			t.warn("partition %d: the generation from %s to %s gets %s IDs, and the plan has room for %s: run grows for the others as far as its --memory-limit goes, and repeats of the rest pass",
				a.Partition, stamp(from), stamp(to), formatIDs(n), formatIDs(t.room))
		}
		l.taught += uint64(len(learned))
		change.Learned = append(change.Learned, pipeline.Learned{
			Rotation: w.Rotation - uint64(age), Until: min(to-1, w.StreamTime), Hashes: learned,
		})
	}
	if l.taught > 0 {
		l.change = change
	}
	return l
}

// tell says what the times of the IDs mean for records that are still to come.
func (t *teacher) tell() {
	if t.newest > 0 {
		t.warn("records that are older than the newest ID of their partition by more than the window will be late, which run's --on-late is about: in partition %d those from before %s",
			t.newestIn, stamp(t.newest-t.span))
	}
	if t.ahead > 0 {
		t.warn("%s IDs are newer than the stream time of their partition, which in partition %d is %s: they are held for a window from that on, not from their own times",
			formatIDs(t.ahead), t.behindIn, stamp(t.behind))
	}
}
