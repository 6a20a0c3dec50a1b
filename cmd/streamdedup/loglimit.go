package main

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// limitInterval and limitLines are how often the log repeats itself: so many lines
	// of a kind in each interval. What warns in a loop must not fill a disk, and must
	// not hide the other lines.
	limitInterval = time.Minute
	limitLines    = 10
	// limitDebug is for who asked for detail.
	limitDebug = 60
)

// logLimit is a [slog.Handler] that counts the lines of a kind that are too many, and
// then says how many it kept. A kind is a message and the partition that it is about,
// so what happens to one partition hides nothing of another.
type logLimit struct {
	slog.Handler
	shared *lineCounts
	// with are the attributes that all its lines have.
	with string
}

// lineCounts is what a handler and those derived from it have in common.
type lineCounts struct {
	root  slog.Handler
	mu    sync.Mutex
	kinds map[lineKind]*lineCount // whose interval is not over
}

type lineKind struct {
	level                    slog.Level
	message, with, partition string
}

// lineCount is what became of the lines of a kind in an interval.
type lineCount struct {
	since       time.Time
	shown, kept int
}

// keptLines are lines of a kind that are not in the log.
type keptLines struct {
	lineKind
	n int
}

// line counts a line, and returns whether it is shown, and what ended before it.
func (c *lineCounts) line(kind lineKind, now time.Time) (shown bool, ended []keptLines) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ended = c.sweep(now)
	count := c.kinds[kind]
	if count == nil {
		count = &lineCount{since: now}
		c.kinds[kind] = count
	}
	most := limitLines
	if kind.level < slog.LevelInfo {
		most = limitDebug
	}
	if count.shown == most {
		count.kept++
		return false, ended
	}
	count.shown++
	return true, ended
}

// sweep forgets the intervals that are over, and returns what they kept, by name.
func (c *lineCounts) sweep(now time.Time) []keptLines {
	var ended []keptLines
	for kind, count := range c.kinds {
		if now.Sub(count.since) < limitInterval {
			continue
		}
		delete(c.kinds, kind)
		if count.kept > 0 {
			ended = append(ended, keptLines{kind, count.kept})
		}
	}
	slices.SortFunc(ended, func(a, b keptLines) int {
		return cmp.Or(strings.Compare(a.message, b.message), strings.Compare(a.partition, b.partition), strings.Compare(a.with, b.with))
	})
	return ended
}

func newLogLimit(to slog.Handler) *logLimit {
	return &logLimit{Handler: to, shared: &lineCounts{root: to, kinds: map[lineKind]*lineCount{}}}
}

// Handle implements [slog.Handler]. The line's own time is the clock.
func (h *logLimit) Handle(ctx context.Context, r slog.Record) error {
	kind := lineKind{level: r.Level, message: r.Message, with: h.with}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "partition" {
			kind.partition = a.Value.String()
		}
		return kind.partition == ""
	})
	shown, ended := h.shared.line(kind, r.Time)
	if err := h.tell(ctx, ended, r.Time); err != nil || !shown {
		return err
	}
	return h.Handler.Handle(ctx, r)
}

// tell says how many lines are not in the log. Records are never what is missing, and
// the words must not sound like it.
func (h *logLimit) tell(ctx context.Context, ended []keptLines, now time.Time) error {
	for _, kept := range ended {
		r := slog.NewRecord(now, kept.level, "log line suppressed", 0)
		r.AddAttrs(slog.String("line", kept.message), slog.Int("times", kept.n))
		if kept.partition != "" {
			r.AddAttrs(slog.String("partition", kept.partition))
		}
		if kept.with != "" {
			r.AddAttrs(slog.String("with", kept.with))
		}
		if err := h.shared.root.Handle(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// flush says what is not said yet, at the end.
func (h *logLimit) flush(now time.Time) {
	h.shared.mu.Lock()
	kept := h.shared.sweep(now.Add(limitInterval))
	h.shared.mu.Unlock()
	_ = h.tell(context.Background(), kept, now) // a log that cannot be written has nobody to tell
}

// WithAttrs implements [slog.Handler].
func (h *logLimit) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := h.with
	for _, a := range attrs {
		with = strings.TrimSpace(with + " " + a.String())
	}
	return &logLimit{h.Handler.WithAttrs(attrs), h.shared, with}
}

// WithGroup implements [slog.Handler].
func (h *logLimit) WithGroup(name string) slog.Handler {
	return &logLimit{h.Handler.WithGroup(name), h.shared, h.with + name + "."}
}
