package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// beside asks beside an engine, or a router, for what each of its partitions needs
// before it is read: a partition that waits for its answer holds nobody up.
type beside[T any] struct {
	answers chan answer[T]
	group   *sync.WaitGroup
	pending int
}

// answer is the end of one question.
type answer[T any] struct {
	assigned Assigned
	is       T
	err      error
	took     time.Duration
}

// maxAnswers bounds how many answers wait to be taken; more questions wait.
const maxAnswers = 64

func newBeside[T any]() beside[T] {
	return beside[T]{answers: make(chan answer[T], maxAnswers), group: &sync.WaitGroup{}}
}

// start asks for one partition. The returned function gives up.
func (b *beside[T]) start(ctx context.Context, a Assigned, ask func(context.Context) (T, error)) context.CancelFunc {
	ctx, cancel := context.WithCancel(ctx)
	b.pending++
	b.group.Go(func() {
		began := time.Now()
		is, err := guarded(func() (T, error) { return ask(ctx) })
		b.answers <- answer[T]{assigned: a, is: is, err: err, took: time.Since(began)}
	})
	return cancel
}

// next is an answer, if there is one.
func (b *beside[T]) next() (answer[T], bool) {
	select {
	case done := <-b.answers:
		b.pending--
		return done, true
	default:
		return answer[T]{}, false
	}
}

// wait waits for those who were all told to give up, and gives free what they made.
func (b *beside[T]) wait(free func(T)) {
	go func() {
		b.group.Wait()
		close(b.answers)
	}()
	for done := range b.answers {
		free(done.is)
	}
}

// failed is the error that an answer ends everything with: what was asked says itself
// which partition it is about, but for a panic.
func failed(what string, p Partition, err error, log *slog.Logger) error {
	if bug := (*panicError)(nil); errors.As(err, &bug) {
		bug.log(log, p)
		return fmt.Errorf("%s %s: %w", what, p, err)
	}
	return err
}
