package kafkaio

import (
	"context"
	"fmt"

	"github.com/streamdedup/streamdedup/pipeline"
)

// Delivery is what is promised of the output.
type Delivery uint8

const (
	// ExactlyOnce: a reader of committed records sees each accepted record once.
	ExactlyOnce Delivery = iota
	// AtLeastOnce: no accepted record is lost, and what was written when a process
	// died, or a write failed, may be written again. Nothing waits for transactions.
	AtLeastOnce
)

var deliveries = [...]string{"exactly-once", "at-least-once"}

func (d Delivery) String() string { return deliveries[d] }

// ParseDelivery reads what String gives.
func ParseDelivery(s string) (Delivery, error) {
	for d, name := range deliveries {
		if s == name {
			return Delivery(d), nil
		}
	}
	return 0, fmt.Errorf("unknown value %q: want %s or %s", s, ExactlyOnce, AtLeastOnce)
}

// delivery is how one member makes a cycle's output and positions durable. All
// else about a cycle is the same for all of them.
type delivery interface {
	// begin begins a cycle: records are produced from now on.
	begin() error
	// before is called when all output was sent, and acknowledged by none.
	before(positions []pipeline.Position)
	// commit makes the positions durable. All output was acknowledged.
	commit(ctx context.Context, positions []pipeline.Position) (pipeline.CommitResult, error)
	// takeBack ends the cycle without its positions, so that nothing more of it is
	// written. Of its errors the first is what it met, the second why the cycle may
	// still be open.
	takeBack(ctx context.Context) (met, open error)
	// giveUp settles a cycle that could not begin, or could not be taken back. Cause
	// is what it met, open why it could not be ended.
	giveUp(ctx context.Context, cause, open error) (pipeline.CommitResult, error)
	// between is called while no cycle is open.
	between(ctx context.Context)
}
