package window

import "github.com/streamdedup/streamdedup/filter"

// Peek is what [Window.Observe] would say of a record if it were the next one, for a
// caller who must know before it is judged. It changes nothing.
func (w *Window) Peek(t, now int64, h filter.Hash) (ages uint8, marks Marks) {
	before := w.core
	defer func() { w.core = before }()
	times, marked := [1]int64{t}, [1]Marks{}
	_, why := w.follow(&Batch{Times: times[:], Marks: marked[:], Now: now}, 0, 1)
	switch why {
	case endBatch:
		return w.set.Test(h), marked[0]
	case endLate:
		return w.set.Test(h), MarkLate
	}
	m, mark := now, distrust(t, now+w.maxAhead)
	if mark == 0 {
		m = t
	}
	if w.begun == 0 {
		return 0, mark
	}
	passed := floorDiv(m, w.slice) - w.number // follow may have changed the number
	if passed > 1 && (w.believed || mark == 0) {
		mark |= MarkJump
	}
	return w.set.Test(h) << passed, mark
}
