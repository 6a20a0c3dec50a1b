package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// lost is a route session that does not find where a partition goes on.
type lost struct {
	*gate
	err error // nil for a panic
}

func (l lost) Locate(context.Context, Partition, string) (Position, error) {
	if l.err == nil {
		panic("no place")
	}
	return Position{}, l.err
}

// A question of the router that fails ends it, and one that panics leaves the stack in
// the log, as a restore does.
func TestFailedLocateEndsTheRouter(t *testing.T) {
	for want, cause := range map[string]error{
		"it is gone":                   errors.New("it is gone"),
		"locate in/0: panic: no place": nil,
	} {
		d := newDelta(t, 1)
		g := d.join(1, rules(), 0)
		log, text := logged()
		r, err := NewRouter(RouterConfig{Rules: rules(), Partitions: 1, CommitInterval: time.Nanosecond, Logger: log}, lost{g, cause})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Run(t.Context()); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
		if panicked := strings.Contains(text.String(), "stack="); panicked != (cause == nil) {
			t.Errorf("a stack in the log: %v\n%s", panicked, text)
		}
	}
}
