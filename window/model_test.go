package window

import (
	"fmt"
	"math/bits"

	"github.com/streamdedup/streamdedup/filter"
)

// model is what the package promises, with Go maps and without undo: it follows
// the records one by one after they are committed and says whether the verdicts
// were right.
type model struct {
	cfg                   Config
	exact                 bool // the set has no false positives
	span, slice, maxAhead int64

	begun, believed bool
	m               int64
	number          int64 // of the filling generation
	rotations       int64 // so far
	moved           int64 // how far the stream has moved in all
	stretched       int64 // the generation that took a number ahead of M's, -1 if none
	load            uint64

	firsts map[filter.Hash]reading   // where the window last learned a hash, anew or again
	held   map[filter.Hash][]reading // what holds it: once a generation, oldest first

	falsePositives int
	refreshed      int // duplicates that were learned again
	heldLonger     int // hashes of which a rebuild learned a later copy
	unlearned      int // hashes that one could not learn and must not be blamed for
}

// reading is where the stream was when a record was read.
type reading struct {
	rotation, moved int64
	byClock         bool // M was the wall clock
}

func newModel(cfg Config, exact bool) *model {
	return &model{
		cfg: cfg, exact: exact, span: cfg.Span.Milliseconds(), slice: cfg.Slice(), maxAhead: cfg.maxAheadMillis(),
		stretched: -1,
		firsts:    map[filter.Hash]reading{}, held: map[filter.Hash][]reading{},
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
			p.believe(rec.time)
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

// believe makes t the stream time, which the filling generation must not have less
// of before it than it had before the wall clock's, if there are older ones.
func (p *model) believe(t int64) {
	number := floorDiv(t, p.slice)
	if p.rotations > 0 && (number+1)*p.slice-t < (p.number+1)*p.slice-p.m {
		number++
		p.stretched = p.rotations
	}
	p.m, p.number = t, number
}

// moveTo moves the stream to m and returns past how many generations.
func (p *model) moveTo(m int64) (generations int64) {
	number := floorDiv(m, p.slice)
	if p.begun {
		number = max(number, p.number)
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
	var want uint8
	var since int64 // the last copy that was learned
	if !rec.noID {
		want, since = p.ages(rec.hash)
	}
	first, known := p.firsts[rec.hash]

	switch {
	case want&^got.ages != 0 || p.exact && got.ages != want:
		return here, fmt.Errorf("want ages %08b: %v", want, got)
	case known && !rec.noID && want == 0 && here.moved-first.moved <= p.span:
		return here, fmt.Errorf("forgotten after the stream moved by %d of %d ms", here.moved-first.moved, p.span)
	case want != 0 && since > p.span+p.slice+filter.Sealed-1+p.changeOfClock(rec.hash):
		return here, fmt.Errorf("held when the stream had moved by %d of %d ms", since, p.span)
	case rec.noID && got.ages != 0:
		return here, fmt.Errorf("a record without an ID has ages: %v", got)
	case got.ages != 0 && want == 0:
		p.falsePositives++
	}

	held := uint8(0xff) // the ages that keep it from being learned
	if p.cfg.Refresh {
		held = 1
	}
	learned := !rec.noID && !rec.noLearn && (p.cfg.LearnLate || marks&MarkLate == 0) && got.ages&held == 0
	if learned && p.load == p.cfg.GenerationCapacity {
		learned = false
		marks |= MarkUnlearned
	}
	if learned {
		p.load++
		p.firsts[rec.hash] = here
		if got.ages == 0 {
			p.held[rec.hash] = nil
		} else {
			p.refreshed++
		}
		p.held[rec.hash] = append(p.held[rec.hash], here)
	}
	if got.marks != marks || got.learned != learned {
		return here, fmt.Errorf("got %v, want marks %v, learned %v", got, marks, learned)
	}
	return here, nil
}

// ages is the mask of ages that hold h, and how far the stream has moved since
// the copy that the youngest of them learned.
func (p *model) ages(h filter.Hash) (mask uint8, since int64) {
	for _, at := range p.held[h] {
		if age := p.rotations - at.rotation; age < filter.Generations {
			mask |= 1 << age
		}
		since = p.moved - at.moved
	}
	return mask, since
}

// changeOfClock is what h can be held longer when the first believed time came
// after it and moved M within its slice, or stretched its generation.
func (p *model) changeOfClock(h filter.Hash) int64 {
	held := p.held[h]
	if last := held[len(held)-1]; last.byClock && p.believed || last.rotation == p.stretched {
		return p.slice
	}
	return 0
}

// rebuild is a restart that has re-read the records of the live generations. It
// holds each hash in all of them that have a copy, so it must not lose one of
// those that held it before, unless it found a generation full. It returns how
// many records did.
func (p *model) rebuild(records []record, at []reading) (unlearned uint64, err error) {
	before := *p
	p.held = map[filter.Hash][]reading{}
	missed := map[filter.Hash]bool{}
	loads := map[int64]uint64{} // by rotation
	for i, rec := range records {
		held, rotation := p.held[rec.hash], at[i].rotation
		switch {
		case rec.noID || rec.noLearn || len(held) > 0 && held[len(held)-1].rotation == rotation:
		case loads[rotation] == p.cfg.GenerationCapacity:
			unlearned++
			missed[rec.hash] = true
		default:
			loads[rotation]++
			p.held[rec.hash] = append(held, at[i])
		}
	}
	p.load = loads[p.rotations]
	for h := range before.held {
		was, _ := before.ages(h)
		is, _ := p.ages(h)
		switch lost := was&^is != 0; {
		case lost && missed[h]:
			p.unlearned++
			delete(p.firsts, h)
		case lost:
			return 0, fmt.Errorf("the rebuild holds hash %x at ages %08b, the window did at %08b", h, is, was)
		case was == 0 && is != 0, was != 0 && bits.TrailingZeros8(is) < bits.TrailingZeros8(was):
			p.heldLonger++
		}
	}
	return unlearned, nil
}
