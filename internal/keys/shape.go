package keys

import (
	"slices"
	"strings"
)

// The records of a stream have few shapes: the same names in the same order, with
// other values. Where a text repeats byte for byte what stood between the values of
// one that was walked, and has a well-formed value wherever that one had one, a walk
// would take the same steps and find its values in the same places. So the scanner
// remembers the shapes that it has met, and a text of one of them needs no walk:
// its names, colons, commas and brackets are compared and not read.
//
// What is remembered decides how fast a text is read, and never what is found.

// shapes is what the scanner remembers: a tree, since shapes begin alike. It does
// not grow, and forgets everything when it is too small.
type shapes struct {
	first    *node // what a text may begin with
	nodes    [mostNodes]node
	used     int
	literals []byte
	// led has the places in the last text walked where a path led on: into an array,
	// too, so that not any array may stand there.
	led []int

	hits, misses int
	rest         int // for how many more texts no shape is tried or learned
}

const (
	mostNodes    = 128
	mostLiterals = 4096
	mostLed      = 16
)

// A miss costs up to a second walk and the learning. So where fewer than leastHits
// come with mostMisses, it is no stream of few shapes, and walking it is cheaper.
const (
	mostMisses = 64
	leastHits  = 4 * mostMisses
	longRest   = 8192
)

// node is the literal text that stands between two values, and what is behind it:
// the second value or, in the last one of a shape, the end.
type node struct {
	word, mask [2]uint64 // the first bytes of the literal, and where words hold them
	literal    uint16    // where it is in the literals
	size       uint16
	step       step
	takes      uint64 // the paths that end at the value
	next       *node  // what may follow
	other      *node  // what may stand here instead
}

// step says what is behind a literal.
type step uint8

const (
	anyValue    step = iota // except an object: those are in the literals
	scalarValue             // no array either, since a path would lead into it
	takenValue              // a scalar of which paths have the place
	lastValue               // one that finishes them
	nothing                 // the end of the text
)

// lead notes that a path leads into the value at i.
func (sh *shapes) lead(i int) {
	if len(sh.led) < mostLed {
		sh.led = append(sh.led, i)
	}
}

// tried reports whether the next text is to be read along the shapes.
func (sh *shapes) tried() bool { return sh.first != nil && sh.rest == 0 }

// missed counts a text that had to be walked, and reports whether to learn from it.
func (sh *shapes) missed() bool {
	if sh.rest > 0 {
		sh.rest--
		return false
	}
	if sh.misses++; sh.misses < mostMisses {
		return true
	}
	if sh.hits < leastHits {
		sh.forget()
		sh.rest = longRest
	}
	sh.hits, sh.misses = 0, 0
	return sh.rest == 0
}

func (sh *shapes) forget() {
	sh.first, sh.used, sh.literals = nil, 0, sh.literals[:0]
}

// learn remembers the shape of the text, which was found to be well-formed: to its
// end or, where the paths were finished before, up to the last value they took.
func (s *scanner) learn(end int) {
	b, sh := s.text, &s.shapes
	last := malformed
	for p := range s.found {
		if s.found[p].kind == nested {
			return
		}
		last = max(last, s.places[p])
	}
	if len(sh.led) == mostLed {
		return // there may have been more
	}
	link, from := &sh.first, 0
	for i := 0; i < len(b); {
		start := i
		if strings.IndexByte("{}[]:, \t\r\n", b[i]) >= 0 && (b[i] != '[' || slices.Contains(sh.led, i)) {
			i++
			continue
		}
		n := s.nodeAt(start)
		if end == finished && start == last {
			n.step = lastValue
			sh.add(link, n, b[from:start])
			return
		}
		if i = s.skip(i); b[start] == '"' && at(b, skipSpace(b, i)) == ':' {
			continue // a name
		}
		if link = sh.add(link, n, b[from:start]); link == nil {
			return
		}
		from = i
	}
	sh.add(link, node{step: nothing}, b[from:])
}

// nodeAt is what to do with the value at i, which is not an object.
func (s *scanner) nodeAt(i int) (n node) {
	for p, place := range s.places {
		if place == i {
			n.takes |= 1 << p
		}
	}
	switch {
	case n.takes != 0:
		n.step = takenValue
	case slices.Contains(s.shapes.led, i):
		n.step = scalarValue
	}
	return n
}

// add puts n with its literal at the link, or among the others there, and returns
// the link to what follows. Without room it forgets everything and returns nil.
func (sh *shapes) add(link **node, n node, literal []byte) **node {
	for ; *link != nil; link = &(*link).other {
		m := *link
		if m.step == n.step && m.takes == n.takes && string(sh.literals[m.literal:][:m.size]) == string(literal) {
			return &m.next
		}
	}
	if sh.used == mostNodes || len(literal) > mostLiterals-len(sh.literals) {
		sh.forget()
		return nil
	}
	n.literal, n.size = uint16(len(sh.literals)), uint16(len(literal))
	for i, c := range literal[:min(len(literal), 16)] {
		n.word[i/8] |= uint64(c) << (i % 8 * 8)
		n.mask[i/8] |= 0xff << (i % 8 * 8)
	}
	sh.literals = append(sh.literals, literal...)
	sh.nodes[sh.used] = n
	*link = &sh.nodes[sh.used]
	sh.used++
	return &(*link).next
}
