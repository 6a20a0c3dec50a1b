package kafkaio

import (
	"context"
	"fmt"
	"time"
)

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// backoff is the pause after the n-th failure in a row.
func backoff(n int) time.Duration { return min(50*time.Millisecond<<min(n, 10), 5*time.Second) }

// maxPatience bounds the pauses of persist: what it waits for, a leader or a
// coordinator, is elected in a moment, and partitions wait.
const maxPatience = 500 * time.Millisecond

// persist tries until it succeeds, until a broker says what will not change, or
// until ctx ends.
func persist(ctx context.Context, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		if err == nil || isFinal(err) {
			return err
		}
		if p := pause(ctx, min(backoff(n), maxPatience)); p != nil {
			return fmt.Errorf("%w, after: %w", p, err)
		}
	}
}
