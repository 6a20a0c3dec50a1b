package kafkaio

import (
	"context"
	"fmt"
	"slices"
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

// quiet is how long waiting is nothing to talk about.
const quiet = 5 * time.Second

// waiter is what persist says of a wait that is not quiet any more.
type waiter struct {
	warn *warner
	msg  string
	args []any
}

type waiterKey struct{}

// aloud is a context under which persist warns with msg, and why it waits, when that
// takes long. A caller of many questions can so speak for all of them.
func (w *warner) aloud(ctx context.Context, msg string, args ...any) context.Context {
	return context.WithValue(ctx, waiterKey{}, waiter{w, msg, args})
}

// persist tries until it succeeds, until a broker says what will not change, or
// until ctx ends. What it waits for may never come: see aloud.
func persist(ctx context.Context, try func() error) error {
	began := time.Now()
	for n := 0; ; n++ {
		err := try()
		if err == nil || isFinal(err) {
			return err
		}
		w, told := ctx.Value(waiterKey{}).(waiter)
		if since := time.Since(began); told && since > quiet && ctx.Err() == nil {
			w.warn.warn(w.msg, append(slices.Clone(w.args), "since", since.Round(time.Second), "error", err)...)
		}
		if p := pause(ctx, min(backoff(n), maxPatience)); p != nil {
			return fmt.Errorf("%w, after: %w", p, err)
		}
	}
}
