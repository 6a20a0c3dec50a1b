package pipeline

import (
	"github.com/streamdedup/streamdedup/filter"
)

// Aside is newSet, whose set, if it grows, has memory made and given back in goroutines of
// their own meanwhile: see [filter.Growing.WorkAside].
func Aside(newSet func() (filter.Set, error)) func() (filter.Set, error) {
	return asideOn(func(work func()) { work() }, newSet)
}

// asideOn is Aside with work done by on.
func asideOn(on func(work func()), newSet func() (filter.Set, error)) func() (filter.Set, error) {
	return func() (filter.Set, error) {
		set, err := newSet()
		if g, grows := set.(*filter.Growing); grows && err == nil {
			g.WorkAside(newAside(on))
		}
		return set, err
	}
}

// aside is a [filter.Aside]. Its goroutines last as long as they have work: a set that is
// never closed leaves none behind.
type aside struct {
	on   func(work func())
	last chan struct{} // closed when all work is done
}

func newAside(on func(work func())) *aside {
	a := &aside{on: on, last: make(chan struct{})}
	close(a.last)
	return a
}

// Run implements [filter.Aside].
func (a *aside) Run(work func()) {
	before, done := a.last, make(chan struct{})
	a.last = done
	go func() {
		defer close(done)
		<-before
		a.on(work)
	}()
}

// Idle implements [filter.Aside].
func (a *aside) Idle() bool {
	select {
	case <-a.last:
		return true
	default:
		return false
	}
}

// Wait implements [filter.Aside].
func (a *aside) Wait() { <-a.last }
