package kafkaio

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLog passes on what the Kafka client says. What it calls info are its own
// steps, and its errors are retried, and said again each time: for us both are one
// level lower.
type clientLog struct{ *warner }

// Level implements kgo.Logger.
func (l clientLog) Level() kgo.LogLevel {
	ctx := context.Background()
	switch {
	case l.log.Enabled(ctx, slog.LevelDebug):
		return kgo.LogLevelInfo
	case l.log.Enabled(ctx, slog.LevelInfo):
		return kgo.LogLevelError
	}
	return kgo.LogLevelNone
}

// Log implements kgo.Logger.
func (l clientLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	if level == kgo.LogLevelError {
		l.say(slog.LevelInfo, "kafka client: "+msg, keyvals...)
		return
	}
	l.log.Debug("kafka client: "+msg, keyvals...)
}

// warnInterval is how often one warning is repeated at most.
const warnInterval = time.Minute

// warner warns, and repeats itself rarely. It is safe for concurrent use.
type warner struct {
	log  *slog.Logger
	mu   sync.Mutex
	last map[string]time.Time
	kept map[string]int
}

func newWarner(log *slog.Logger) *warner {
	return &warner{log: log, last: map[string]time.Time{}, kept: map[string]int{}}
}

// warn logs msg unless it was logged just now; then it says how often it was not.
func (w *warner) warn(msg string, args ...any) { w.say(slog.LevelWarn, msg, args...) }

func (w *warner) say(level slog.Level, msg string, args ...any) {
	w.mu.Lock()
	now := time.Now()
	if last, ok := w.last[msg]; ok && now.Sub(last) < warnInterval {
		w.kept[msg]++
		w.mu.Unlock()
		return
	}
	w.last[msg] = now
	if n := w.kept[msg]; n > 0 {
		args = append(args, "log_lines_suppressed", n)
		w.kept[msg] = 0
	}
	w.mu.Unlock()
	w.log.Log(context.Background(), level, msg, args...)
}
