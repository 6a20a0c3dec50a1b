package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is how long signals count as one with the first: `timeout` sends two
// within microseconds, and so does a shell whose whole group is interrupted.
const sameSignal = 500 * time.Millisecond

// interruptible returns a context that the first SIGINT or SIGTERM ends, so that
// a command can finish what it began. A second one quits at once.
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go obey(ctx, signals, cancel, func() {
		fmt.Fprintln(os.Stderr, "error: a second signal: quit at once, with what was begun left unfinished")
		os.Exit(exitFailed)
	})
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

// obey calls finish at the first signal and quit at the second.
func obey(ctx context.Context, signals <-chan os.Signal, finish, quit func()) {
	select {
	case <-signals:
	case <-ctx.Done():
		return
	}
	first := time.Now()
	finish()
	for range signals {
		if time.Since(first) >= sameSignal {
			quit()
			return
		}
	}
}
