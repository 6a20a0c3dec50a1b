package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/streamdedup/streamdedup/internal/admin"
	"github.com/streamdedup/streamdedup/pipeline"
)

const (
	// lookEvery is how often the checks of the health page are made for the log.
	lookEvery = 5 * time.Second
	// warnEvery is how often one of them speaks in the log at most.
	warnEvery = time.Minute
)

// spoken are the checks that only the watcher puts into the log. What stops, stands
// still or is not restored as a whole is said there where it happens, and a full
// filter with the number of its records, by [watcher.unlearned].
var spoken = []admin.Check{
	admin.CheckRate, admin.CheckEstimate, admin.CheckMeasured, admin.CheckClashes, admin.CheckHot, admin.CheckNoID, admin.CheckNoTime, admin.CheckAhead,
}

// watcher puts into the log what looks wrong, each thing once a minute for as long as
// it does: a line that was said once, days ago, is found by nobody.
type watcher struct {
	log *slog.Logger
	// more is the flag to raise when IDs do not fit.
	more     string
	warnings func() []admin.Warning

	mu   sync.Mutex
	last map[about]time.Time
	// lost are the IDs that were not remembered and that the log does not have yet.
	lost map[pipeline.Partition]uint64
}

// about is what a warning is about.
type about struct {
	check     admin.Check
	partition pipeline.Partition
}

func newWatcher(log *slog.Logger, more string, warnings func() []admin.Warning) *watcher {
	return &watcher{
		log: log, more: more, warnings: warnings,
		last: map[about]time.Time{}, lost: map[pipeline.Partition]uint64{},
	}
}

// watch adds the watcher to the events of an engine.
func (w *watcher) watch(e pipeline.Events) pipeline.Events {
	settled := e.Settled
	e.Settled = func(how pipeline.Settlement, took time.Duration, counts *pipeline.Counts, oldest int64) {
		settled(how, took, counts, oldest)
		if n := counts.Verdicts[pipeline.Duplicate]; n > 0 {
			w.log.Debug("duplicates found", "records", n, "of", counts.In)
		}
	}
	e.Unlearned = func(p pipeline.Partition, records uint64) { w.unlearned(time.Now(), p, records) }
	return e
}

// start looks beside the engine until it is told to stop; then it looks once more, for
// a run that was short.
func (w *watcher) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				w.look(now)
			case <-ctx.Done():
				w.look(time.Now())
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// look says what looks wrong now.
func (w *watcher) look(now time.Time) {
	for _, found := range w.warnings() {
		if !slices.Contains(spoken, found.Check) || !w.due(now, about{found.Check, found.Partition}) {
			continue
		}
		w.log.Warn(found.Text)
	}
}

// unlearned warns that IDs of a partition do not fit, with how many since it last did.
func (w *watcher) unlearned(now time.Time, p pipeline.Partition, records uint64) {
	w.lost[p] += records
	if !w.due(now, about{admin.CheckFull, p}) {
		return
	}
	w.log.Warn("the filter is full: new IDs pass without being remembered, and so do their repeats: raise "+w.more,
		"partition", p.String(), "records", w.lost[p])
	delete(w.lost, p)
}

// due is whether something may be said again.
func (w *watcher) due(now time.Time, what about) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.last[what]; ok && now.Sub(last) < warnEvery {
		return false
	}
	w.last[what] = now
	return true
}
