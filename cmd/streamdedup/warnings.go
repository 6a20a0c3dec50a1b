package main

import (
	"log/slog"
	"time"

	"github.com/streamdedup/streamdedup/internal/admin"
	"github.com/streamdedup/streamdedup/pipeline"
)

const (
	// enoughRecords is from how many records on a share of them says something.
	enoughRecords = 1000
	// keyWarningEvery is how often a key that looks wrong is spoken of at most.
	keyWarningEvery = time.Minute
)

// wrongKey says that so many records have no ID that --key is likely wrong, or
// "". Few records say it only when not one has an ID.
func wrongKey(c *pipeline.Counts) string {
	if c.In < enoughRecords && c.Verdicts[pipeline.Missing]+c.Verdicts[pipeline.Invalid] < c.In {
		return ""
	}
	return admin.WithoutID(c)
}

// watcher logs what commits say about the configuration. It belongs to the
// engine's goroutine.
type watcher struct {
	log *slog.Logger
	// more is the flag to raise when IDs do not fit.
	more string

	recent   pipeline.Counts
	warnedAt time.Time
	full     map[pipeline.Partition]bool
}

func newWatcher(log *slog.Logger, more string) *watcher {
	return &watcher{log: log, more: more, full: map[pipeline.Partition]bool{}}
}

// watch adds the watcher to the events of an engine.
func (w *watcher) watch(e pipeline.Events) pipeline.Events {
	settled := e.Settled
	e.Settled = func(how pipeline.Settlement, took time.Duration, counts *pipeline.Counts, oldest int64) {
		w.settled(counts, time.Now())
		settled(how, took, counts, oldest)
	}
	e.Unlearned = w.unlearned
	return e
}

// settled looks at the committed records by the thousand.
func (w *watcher) settled(counts *pipeline.Counts, now time.Time) {
	w.recent.Plus(counts)
	if w.recent.In < enoughRecords {
		return
	}
	text := wrongKey(&w.recent)
	w.recent = pipeline.Counts{}
	if text == "" || now.Sub(w.warnedAt) < keyWarningEvery {
		return
	}
	w.warnedAt = now
	w.log.Warn(text)
}

// unlearned warns once of each partition.
func (w *watcher) unlearned(p pipeline.Partition, records uint64) {
	if w.full[p] {
		return
	}
	w.full[p] = true
	w.log.Warn("the filter is full: new IDs pass without being remembered, and so do their repeats: raise "+w.more,
		"partition", p.String(), "records", records)
}
