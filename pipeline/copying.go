package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// A checkpoint is copied in steps between cycles: then all that a shard remembers
// is committed, so a copy can never hold a trace of a transaction that did not
// commit. The shard's own worker copies, so a step never sees half of a change.

const (
	// copyStep is how much a worker copies in one go, in less than a tenth of a
	// millisecond.
	copyStep = 1 << 20
	// copyBuffers is how many steps the disk may be behind: most of what a cycle
	// copies, which the disk writes until the next.
	copyBuffers = 16
	// maxCopyTime is how much of one cycle goes into copying, and copyShare bounds
	// it for short cycles.
	maxCopyTime = 3 * time.Millisecond
	copyShare   = 50
)

// copying is the checkpoint that is being made.
type copying struct {
	part     *part
	began    time.Time
	begin    int64
	logBegin int64
	rotation uint64
	loads    [filter.Generations]uint64 // by age at that rotation
	slabs    uint64                     // how often their number had changed
	at, end  uint64                     // of the filter's body
	out      *bodyWriter

	sampleAt, sampleEnd uint64 // parts of the audit's sample, which follows the body
	sampleBytes         uint64 // that were copied of it
}

// whole is whether all of it is copied.
func (c *copying) whole() bool { return c.at == c.end && c.sampleAt == c.sampleEnd }

// step is the next one, into buf.
func (c *copying) step(buf []byte) task {
	if c.at < c.end {
		return task{op: opCopy, shard: c.part.shard, buf: buf, from: c.at, to: min(c.end, c.at+copyStep)}
	}
	return task{op: opCopySample, shard: c.part.shard, buf: buf, from: c.sampleAt}
}

// stepped takes note of a step that was done.
func (c *copying) stepped(t *task) {
	if t.op == opCopy {
		c.at = t.to
	} else {
		c.sampleAt = t.to
		c.sampleBytes += uint64(len(t.buf))
	}
	c.out.write(t.buf)
}

// checkpoint goes on with the checkpoint that is being made, or begins the next
// one that is due. It runs between cycles and never waits for the disk.
func (e *Engine) checkpoint() {
	if e.cfg.Checkpoints == nil {
		return
	}
	if e.copying == nil {
		e.beginCheckpoint()
	}
	stop := time.Now().Add(min(maxCopyTime, e.cfg.CommitInterval/copyShare))
	for e.copying != nil && e.copyOne() && time.Now().Before(stop) {
	}
}

// dueForCopy is the partition that has waited longest for a checkpoint, if one is
// due: its interval is over and it has moved.
func (e *Engine) dueForCopy() (due *part) {
	for _, p := range e.parts {
		if p.shard == nil || time.Since(p.checkpointed) < e.cfg.CheckpointInterval || p.shard.Next() == p.checkpointNext {
			continue
		}
		if due == nil || p.checkpointed.Before(due.checkpointed) ||
			p.checkpointed.Equal(due.checkpointed) && p.name.compare(due.name) < 0 {
			due = p
		}
	}
	return due
}

// beginCheckpoint begins the checkpoint that is due, unless a shard has judged
// something since the last commit.
func (e *Engine) beginCheckpoint() {
	due := e.dueForCopy()
	if due == nil || len(e.flying) > 0 {
		return
	}
	e.left = slices.DeleteFunc(e.left, func(w *bodyWriter) bool {
		ended, _ := w.ended() // it was said why, or nobody is left whom it concerns
		return ended
	})
	due.checkpointed = time.Now()
	e.copying = &copying{
		part: due, began: due.checkpointed,
		begin: due.shard.Next(), logBegin: due.logged,
		rotation: due.shard.State().Window.Rotation, loads: due.stats().Loads,
		slabs: due.shard.slabs(), end: due.shard.set.BodyBytes(), sampleEnd: due.shard.sample.parts(),
		out: startBodyWriter(e.cfg.Checkpoints, due.name),
	}
}

// copyOne does one step. It reports whether another one may follow now.
func (e *Engine) copyOne() bool {
	c := e.copying
	if ended, err := c.out.ended(); ended {
		e.checkpointed(c, err)
		return false
	}
	if c.whole() {
		return false // the disk has it to end
	}
	if c.part.shard.slabs() != c.slabs {
		// What is copied is in other places of the body by now. The next one begins at once.
		e.stopCopying(errors.New("the filter grew, or went back to its plan, while it was copied"))
		c.part.checkpointed = time.Time{}
		return false
	}
	if passed := c.part.shard.State().Window.Rotation - c.rotation; passed > c.part.shard.set.BodySpan() {
		e.stopCopying(fmt.Errorf("the window moved on by %d generations while it was copied", passed))
		return false
	}
	buf := c.out.buffer()
	if buf == nil {
		return false
	}
	c.part.worker.in.put(c.step(buf[:0]))
	t := c.part.worker.out.take()
	e.result(t)
	if t.err != nil {
		e.stopCopying(t.err)
		return false
	}
	c.stepped(&t)
	if c.whole() {
		head := c.head()
		c.part.checkpointNext = head.Next
		c.out.finish(&head)
	}
	return true
}

// head is what the checkpoint says of a body that is copied by now. What was learned
// meanwhile is in the changelog from the beginning on, and is counted there.
func (c *copying) head() CheckpointHead {
	head := c.part.shard.checkpointHead()
	head.BodyBytes += c.sampleBytes
	head.Begin, head.LogBegin, head.LogEnd = c.begin, c.logBegin, c.part.logged
	if passed := head.State.Window.Rotation - c.rotation; passed < filter.Generations {
		copy(head.Added[passed:], c.loads[:])
	}
	return head
}

// checkpointed takes note of how a checkpoint ended.
func (e *Engine) checkpointed(c *copying, err error) {
	e.copying = nil
	took := time.Since(c.began)
	if err != nil {
		c.part.checkpointNext = -1 // to be tried again
		e.cfg.Logger.Warn("no checkpoint: a restart would restore from an older one, or from the changelog",
			"partition", c.part.name.String(), "error", err)
	} else {
		e.cfg.Logger.Debug("checkpoint", "partition", c.part.name.String(), "bytes", c.end,
			"took", took.Round(time.Millisecond))
	}
	if e.cfg.Events.Checkpointed != nil {
		e.cfg.Events.Checkpointed(c.part.name, took, c.end, err)
	}
}

// stopCopying gives the checkpoint that is being made up.
func (e *Engine) stopCopying(why error) {
	c := e.copying
	c.out.abort()
	e.left = append(e.left, c.out)
	e.checkpointed(c, why)
}

// forgetCopy gives it up for a partition that is no longer ours, unless the whole
// of it is on its way to the disk: then it is as true as ever.
func (e *Engine) forgetCopy(p *part) {
	c := e.copying
	if c == nil || c.part != p {
		return
	}
	e.copying = nil
	if !c.whole() {
		c.out.abort()
	}
	e.left = append(e.left, c.out)
}

// bodyWriter is the goroutine that writes a checkpoint.
type bodyWriter struct {
	full, free chan []byte
	head       chan *CheckpointHead
	done       chan struct{}
	err        error // once done is closed
}

var errGivenUp = errors.New("given up")

func startBodyWriter(to Checkpoints, p Partition) *bodyWriter {
	w := &bodyWriter{
		full: make(chan []byte, copyBuffers), free: make(chan []byte, copyBuffers),
		head: make(chan *CheckpointHead, 1), done: make(chan struct{}),
	}
	for range copyBuffers {
		w.free <- make([]byte, 0, copyStep)
	}
	go func() {
		defer close(w.done)
		_, w.err = guarded(func() (struct{}, error) { return struct{}{}, w.run(to, p) })
	}()
	return w
}

// run writes until the body has ended, or is given up.
func (w *bodyWriter) run(to Checkpoints, p Partition) error {
	out, err := to.Create(p)
	if err != nil {
		return err
	}
	for buf := range w.full {
		if _, err := out.Write(buf); err != nil {
			out.Abort()
			return err
		}
		w.free <- buf
	}
	head := <-w.head
	if head == nil {
		out.Abort()
		return errGivenUp
	}
	return out.Finish(head)
}

// buffer is an empty buffer, nil while the disk is behind.
func (w *bodyWriter) buffer() []byte {
	select {
	case buf := <-w.free:
		return buf
	default:
		return nil
	}
}

// write takes a buffer that came from buffer, so there is room for it.
func (w *bodyWriter) write(buf []byte) { w.full <- buf }

func (w *bodyWriter) finish(h *CheckpointHead) {
	close(w.full)
	w.head <- h
}

// abort leaves nothing of the checkpoint, once it is done.
func (w *bodyWriter) abort() {
	close(w.full)
	close(w.head)
}

// ended is how it ended, if it has.
func (w *bodyWriter) ended() (ended bool, err error) {
	select {
	case <-w.done:
		return true, w.err
	default:
		return false, nil
	}
}
