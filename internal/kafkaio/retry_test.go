package kafkaio

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// What may never come is waited for, and said: which question it is, since when, and
// what the brokers answer.
func TestPersistIsSilentForAMomentOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		wait time.Duration
		said int
	}{
		{"a moment", quiet, 0},
		{"longer", quiet + time.Second, 1},
		{"for long", quiet + 3*warnInterval, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &logged{}
				w := newWarner(slog.New(slog.NewTextHandler(log, nil)))
				ctx, cancel := context.WithTimeout(t.Context(), c.wait)
				defer cancel()
				ctx = w.aloud(ctx, "not yet", "partition", "clicks-3")
				err := persist(ctx, func() error { return kerr.UnknownTopicOrPartition })
				if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, kerr.UnknownTopicOrPartition) {
					t.Errorf("it ended with %v", err)
				}
				if said := strings.Count(log.String(), "not yet"); said != c.said {
					t.Errorf("it was said %d times, want %d:\n%s", said, c.said, log)
				}
				if c.said > 0 {
					log.has(t, "level=WARN", "partition=clicks-3", "since=5s", "UNKNOWN_TOPIC_OR_PARTITION")
				}
			})
		})
	}
}
