package pipeline

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
)

// panicError is a panic that must end in an abort and a message, not in a process
// that dies in the middle of a transaction. Its text is one line; the stack is for
// the log.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	first, _, _ := strings.Cut(fmt.Sprint(e.value), "\n")
	return "panic: " + first
}

// log writes what a report of the bug needs.
func (e *panicError) log(to *slog.Logger, p Partition) {
	to.Error("panic, which is a bug: please report it with this line",
		"partition", p.String(), "panic", fmt.Sprint(e.value), "stack", string(e.stack))
}

// guarded turns a panic of f into a [*panicError].
func guarded[T any](f func() (T, error)) (result T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{r, debug.Stack()}
		}
	}()
	return f()
}
