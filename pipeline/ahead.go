package pipeline

import "context"

// The output of a cycle takes a while to be acknowledged, which is no time of the
// processor's: at full speed a fifth of a commit interval. Meanwhile the engine reads
// on and lets the workers judge what belongs to the next cycle. None of that is
// delivered before the cycle has ended and the session has told of a change of
// assignment, and a rollback takes back both cycles, the later one first.

// What is read ahead is held beside all that the cycle holds.
const (
	aheadBatches = ringSize / 2
	aheadMemory  = maxMemory / 4
)

// readAhead reads and judges until the output is answered. Its error is fatal.
func (e *Engine) readAhead(ctx context.Context, answered <-chan struct{}) error {
	if !e.mayReadAhead() {
		return nil
	}
	for memory := int64(0); len(e.flying) < aheadBatches && memory < aheadMemory && e.open.failed == nil && ctx.Err() == nil; {
		select {
		case <-answered:
			return nil
		default:
		}
		polled, err := e.session.Poll(ctx, e.cfg.CommitInterval)
		if err != nil && ctx.Err() == nil {
			return err
		}
		e.assign(ctx, polled)
		for _, b := range polled.Batches {
			if e.away == ringSize {
				e.takeBack(len(e.flying) - e.away + 1)
			}
			e.launch(b)
			memory += b.Memory
		}
	}
	return nil
}

// mayReadAhead is false for a cycle that could not be larger, and while the copy of a
// shard is made or due: that must hold nothing that is not committed.
func (e *Engine) mayReadAhead() bool {
	return !e.full() && e.copying == nil && (e.cfg.Checkpoints == nil || e.dueForCopy() == nil)
}
