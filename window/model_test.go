package window

import (
	"fmt"

	"github.com/streamdedup/streamdedup/filter"
)

// model is what the package promises, with Go maps and without undo: it follows
// the records one by one after they are committed and says whether the verdicts
// were right.
type model struct {
	cfg                   Config
	span, slice, maxAhead int64

	begun, believed bool
	m               int64
	number          int64 // of the filling generation
	rotations       int64 // so far
	moved           int64 // how far the stream has moved in all
	load            uint64

	firsts map[filter.Hash]reading // where a hash was learned

	falsePositives int
	heldLonger     int // hashes that a rebuild learned from a repeat
	heldShorter    int // hashes that it learned before the window did
}

// reading is where the stream was when a record was read.
type reading struct {
	rotation, moved int64
	byClock         bool // M was the wall clock
}

func newModel(cfg Config) *model {
	return &model{
		cfg: cfg, span: cfg.Span.Milliseconds(), slice: cfg.Slice(), maxAhead: cfg.maxAheadMillis(),
		firsts: map[filter.Hash]reading{},
	}
}

// time follows the record's time and returns its marks.
func (p *model) time(rec record) (marks Marks) {
	usable := rec.time > 0 && rec.time <= 1<<62
	ahead := usable && rec.time > rec.now+p.maxAhead
	switch {
	case !usable || ahead:
		if ahead {
			marks |= MarkAhead
		} else {
			marks |= MarkNoTime
		}
		if !p.believed && (!p.begun || rec.now > p.m) {
			p.moveTo(rec.now)
		}
	case !p.believed:
		p.believed = true
		if p.begun {
			p.m, p.number = rec.time, floorDiv(rec.time, p.slice)
		} else {
			p.moveTo(rec.time)
		}
	case rec.time < p.m-p.span:
		marks |= MarkLate
	case rec.time > p.m:
		if p.moveTo(rec.time) > 1 {
			marks |= MarkJump
		}
	}
	return marks
}

// moveTo moves the stream to m and returns past how many generations.
func (p *model) moveTo(m int64) (generations int64) {
	number := floorDiv(m, p.slice)
	if p.begun {
		generations = number - p.number
		p.moved += m - p.m
	}
	if generations > 0 {
		p.load = 0
	}
	p.begun, p.m, p.number = true, m, number
	p.rotations += generations
	return generations
}

// check compares the verdict on the next record with the promise and returns
// where the stream was. A false positive is taken as it is: the window did not
// learn, so neither does the model.
func (p *model) check(rec record, got verdict) (here reading, err error) {
	marks := p.time(rec)
	here = reading{p.rotations, p.moved, !p.believed}
	first, known := p.firsts[rec.hash]
	known = known && !rec.noID
	generations, moved := here.rotation-first.rotation, here.moved-first.moved
	held := known && generations < filter.Generations

	switch {
	case held && got.ages&(1<<generations) == 0:
		return here, fmt.Errorf("hash learned %d generations ago: %v", generations, got)
	case known && !held && moved <= p.span-p.changeOfClock(first, here):
		return here, fmt.Errorf("forgotten after the stream moved by %d of %d ms", moved, p.span)
	case held && moved > p.span+p.slice+filter.Sealed-1+p.changeOfClock(first, here):
		return here, fmt.Errorf("held when the stream had moved by %d of %d ms", moved, p.span)
	case rec.noID && got.ages != 0:
		return here, fmt.Errorf("a record without an ID has ages: %v", got)
	case got.ages != 0 && !held:
		p.falsePositives++
	}

	learned := !rec.noID && !rec.noLearn && (p.cfg.LearnLate || marks&MarkLate == 0) && got.ages == 0
	if learned && p.load == p.cfg.GenerationCapacity {
		learned = false
		marks |= MarkUnlearned
	}
	if learned {
		p.load++
		p.firsts[rec.hash] = here
	}
	if got.marks != marks || got.learned != learned {
		return here, fmt.Errorf("got %v, want marks %v, learned %v", got, marks, learned)
	}
	return here, nil
}

// changeOfClock is what a hash can be held shorter or longer when the first
// believed time came in between and moved M within its slice.
func (p *model) changeOfClock(first, here reading) int64 {
	if first.byClock && !here.byClock {
		return p.slice
	}
	return 0
}

// rebuild is a restart that has re-read the records of the live generations: of
// each hash it holds the first of these, which need not be the one that the
// window learned.
func (p *model) rebuild(records []record, at []reading) {
	firsts := map[filter.Hash]reading{}
	for i, rec := range records {
		if _, ok := firsts[rec.hash]; ok || rec.noID || rec.noLearn {
			continue
		}
		firsts[rec.hash] = at[i]
		switch original := p.firsts[rec.hash].rotation; {
		case original < at[i].rotation:
			p.heldLonger++
		case original > at[i].rotation:
			p.heldShorter++
		}
	}
	p.firsts = firsts
}
