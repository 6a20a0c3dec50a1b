package pipeline

import (
	"context"
	"math"
)

// What a partition may ask of the others: that all wait for it, whatever their
// time, or that they go on as if it were not there.
const (
	nobody   = math.MinInt64
	everyone = math.MaxInt64
)

// foreign is a partition of the survey: another instance has it, or nobody yet.
type foreign struct {
	Source
	state RouteState
}

// route sends what is read in the order of stream time, as far as nobody is left
// more than a slice behind. It reports whether anything was sent.
func (r *Router) route(ctx context.Context) (sent bool) {
	r.hear()
	r.blocked = false
	for r.open.failed == nil {
		l, limit := r.first()
		if l == nil {
			break
		}
		n, stop := l.upTo(limit)
		if n == 0 && stop == nil && len(l.queue[0].times) > 0 {
			r.blocked = true // the first of ours must wait for another's
			break
		}
		r.send(ctx, l, n, stop)
		sent = true
	}
	if r.open.failed == nil {
		r.hold()
	}
	return sent
}

// hear takes over a new survey.
func (r *Router) hear() {
	survey := r.session.Survey(r.blocked)
	if survey == nil || survey == r.survey {
		return
	}
	r.survey = survey
	r.foreign = r.foreign[:0]
	for _, s := range survey.Sources {
		if l := r.lanes[s.Partition]; l != nil {
			l.hear(s.Stable)
		}
		state, err := ParseRouteState(s.Metadata)
		if err != nil {
			state = RouteState{Unread: true} // whoever gets it will say more
		}
		r.foreign = append(r.foreign, foreign{s, state})
	}
}

// first is the lane whose next record is the earliest, nil where nothing is read,
// and the stream time that it must not pass.
func (r *Router) first() (first *lane, limit int64) {
	for _, l := range r.order {
		if l.held() && (first == nil || l.waits() < first.waits()) {
			first = l
		}
	}
	if first == nil || r.slice == 0 {
		return first, everyone
	}
	slowest := r.slowestForeign()
	for _, l := range r.order {
		if l != first && l.located {
			slowest = min(slowest, l.waits())
		}
	}
	if slowest == nobody || slowest > everyone-r.slice {
		return first, slowest
	}
	return first, slowest + r.slice
}

// waits is the stream time that others must not leave more than a slice behind.
func (l *lane) waits() int64 {
	state := l.now.state
	switch {
	case l.halted != nil:
		return everyone
	case l.held():
		state.Next = l.queue[0].next(state.Time)
		state.Unread = true // what has no time goes first, and then it is known
		return state.waits()
	case l.now.next < l.stable:
		return state.waits()
	}
	return everyone
}

// next is what the stream time would be after the first record.
func (c *cargo) next(time int64) int64 {
	if len(c.times) == 0 {
		return time
	}
	return max(time, c.times[0])
}

// slowestForeign is the least that a partition which is not ours waits with.
func (r *Router) slowestForeign() int64 {
	if r.survey == nil {
		return nobody
	}
	slowest := int64(everyone)
	for i := range r.foreign {
		f := &r.foreign[i]
		if l := r.lanes[f.Partition]; l != nil && l.located || f.Next >= f.Stable {
			continue
		}
		slowest = min(slowest, f.state.waits())
	}
	return slowest
}

// hold stops fetching the partitions that wait, and goes on with those that do not.
func (r *Router) hold() {
	for _, l := range r.order {
		l.now.state.Next = 0
		if l.held() {
			l.now.state.Next = l.queue[0].next(l.now.state.Time)
			// Should it be read again, its first time is still to come.
			l.now.state.Unread = l.now.state.Unread || l.now.state.Time == 0
		}
		switch {
		case l.held() && !l.paused:
			r.session.Pause(l.name)
			l.paused = true
		case !l.held() && l.paused && l.halted == nil:
			r.session.Continue(l.name)
			l.paused = false
		}
	}
}
