//go:build unix

package main

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// errBusy says that a fault cannot happen now.
var errBusy = errors.New("another fault is under way there")

// faults makes the plan happen, and returns when all is well again. After calm,
// what is away comes back at once.
func (r *run) faults(ctx context.Context, plan []fault, calm <-chan struct{}) {
	for _, f := range plan {
		if !wait(calm, f.after) || ctx.Err() != nil {
			break
		}
		r.faulting.Go(func() {
			if err := r.inject(ctx, f, calm); errors.Is(err, errBusy) {
				r.say("passed over: %v: %v", f, err)
			} else if err != nil && ctx.Err() == nil {
				r.fail("%v: %v", f, err)
			}
		})
	}
	r.faulting.Wait()
}

// wait waits for d, or until calm is closed, which gives false.
func wait(calm <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-calm:
		return false
	}
}

// inject makes one fault, and undoes it after its time.
func (r *run) inject(ctx context.Context, f fault, calm <-chan struct{}) error {
	place := place{f.kind.onNetwork(), f.target}
	switch f.kind {
	case crash:
		place.target = -1 // one broker at a time, or writes would have to wait
	case join:
		place.target = len(r.instances) // the place of the one more
	}
	if !r.occupy(place) {
		return errBusy
	}
	defer r.leave(place)
	switch {
	case f.kind == crash:
		return r.crash(ctx, f, calm)
	case f.kind == join:
		return r.join(f, calm)
	case f.kind.onNetwork():
		r.disturb(f, calm)
		return nil
	}
	return r.strike(f, calm)
}

// place is where one fault at a time can be: an instance, or its network.
type place struct {
	network bool
	target  int
}

func (r *run) occupy(p place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.occupied[p] {
		return false
	}
	r.occupied[p] = true
	return true
}

func (r *run) leave(p place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.occupied, p)
}

// strike hits the process of an instance.
func (r *run) strike(f fault, calm <-chan struct{}) error {
	in := r.instances[f.target]
	if f.kind == pause {
		l := in.running()
		if l == nil {
			return errBusy
		}
		r.happens(f, "%v: %s, pid %d, for %v", f.kind, l.name, l.cmd.Process.Pid, f.lasts)
		_ = l.cmd.Process.Signal(syscall.SIGSTOP) // one that has just ended feels nothing
		wait(calm, f.lasts)
		_ = l.cmd.Process.Signal(syscall.SIGCONT)
		r.say("SIGCONT of %s", l.name)
		return nil
	}
	l := in.take()
	if l == nil {
		return errBusy
	}
	r.happens(f, "%v: %s, pid %d, back after %v", f.kind, l.name, l.cmd.Process.Pid, f.lasts)
	var err error
	if f.kind == kill {
		l.kill()
	} else {
		err = r.ask(l)
	}
	wait(calm, f.lasts)
	r.say("start of %s", in.name)
	return errors.Join(err, in.start())
}

// ask ends a process by SIGTERM. It may have had another end at the same moment.
func (r *run) ask(l *life) error {
	err := l.stop()
	switch {
	case err == nil:
		r.count(&r.table.cleanEnds)
	case r.isExcused(l):
		r.say("%v", err)
		return nil
	}
	return err
}

// isExcused counts an end that nobody asked for; false says that it has no reason.
func (r *run) isExcused(l *life) bool {
	r.mu.Lock()
	troubled := r.calmed.IsZero() || time.Since(r.calmed) < calmAfter
	r.mu.Unlock()
	switch {
	case l.isFenced():
		r.count(&r.table.fenced)
	case l.isStillborn() && troubled:
		r.count(&r.table.stillborn)
	default:
		return false
	}
	return true
}

// join lets one more instance take part for a while.
func (r *run) join(f fault, calm <-chan struct{}) error {
	r.happens(f, "%v: %s, for %v", f.kind, r.visitor.name, f.lasts)
	if err := r.visitor.start(); err != nil {
		return err
	}
	wait(calm, f.lasts)
	l := r.visitor.take()
	if l == nil {
		return nil // it ended by itself, and its supervisor brings it back until its next visit
	}
	if f.hard {
		r.say("%s leaves by kill -9", l.name)
		l.kill()
		return nil
	}
	r.say("%s leaves by SIGTERM", l.name)
	return r.ask(l)
}

// disturb troubles the connections of an instance.
func (r *run) disturb(f fault, calm <-chan struct{}) {
	in := r.instances[f.target]
	switch f.kind {
	case slow:
		r.happens(f, "%v: %s, each frame %v late, for %v", f.kind, in.name, f.delay, f.lasts)
		in.proxy.slow(f.delay)
		defer in.proxy.slow(0)
	case freeze:
		r.happens(f, "%v: %s, for %v", f.kind, in.name, f.lasts)
		in.proxy.freeze()
		defer in.proxy.thaw()
	case cut:
		r.happens(f, "%v: %s, for %v", f.kind, in.name, f.lasts)
		in.proxy.sever()
		defer in.proxy.mend()
	}
	wait(calm, f.lasts)
	r.say("the connections of %s are well again", in.name)
}

// crash kills a broker and brings it back. The next one can be killed when this
// one has caught up: of three copies two are always there.
func (r *run) crash(ctx context.Context, f fault, calm <-chan struct{}) error {
	node := f.target + 1
	r.happens(f, "%v: broker %d, back after %v", f.kind, node, f.lasts)
	if err := r.cluster.crash(ctx, node); err != nil {
		return err
	}
	wait(calm, f.lasts)
	r.say("start of broker %d", node)
	if err := r.cluster.revive(ctx, node, r.table.count(crash)); err != nil {
		return err
	}
	for began := time.Now(); !r.cluster.whole(ctx); time.Sleep(pollEvery) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(began) > patience {
			return errors.New("the broker has not caught up")
		}
	}
	r.say("broker %d has caught up", node)
	return nil
}
