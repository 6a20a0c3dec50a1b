package keys

import "math/bits"

// maxPaths is how many paths a scanner can follow: a bit each in a word.
const maxPaths = 64

// segment is one step of a path: the member of that name or, where element is
// not negative, also the element of that number of an array.
type segment struct {
	name    string
	element int
}

// scanner finds the values at some paths in one pass over a JSON text.
//
// Its walk goes down only where a path leads, at most as deep as the longest path,
// and skips the rest without recursion. A set of paths is a word with a bit for each.
// Texts of a shape that was walked before are not walked (see [shapes]).
//
// It has one owner: no method may run concurrently with another.
type scanner struct {
	paths [][]segment
	// ends[d] is the set of paths of d segments.
	ends []uint64
	// lengths[d] has a bit for each length of a name in segment d: most members are
	// known by it not to match.
	lengths []uint64

	text []byte
	// open is the set of paths whose place has not been seen.
	open uint64
	// found is what the value has for each path, places where that is in the text.
	found  []part
	places []int
	// outer holds, a bit each, whether the containers around the innermost 64
	// are objects (see skip).
	outer  []uint64
	char   [maxChar]byte
	shapes shapes
}

func newScanner(paths [][]segment) *scanner {
	longest := 0
	for _, p := range paths {
		longest = max(longest, len(p))
	}
	s := &scanner{
		paths: paths, ends: make([]uint64, longest+1), lengths: make([]uint64, longest+1),
		found: apart[part](len(paths)), places: apart[int](len(paths)),
	}
	s.shapes.literals, s.shapes.led = make([]byte, 0, mostLiterals), make([]int, 0, mostLed)
	for i, p := range paths {
		s.ends[len(p)] |= 1 << i
		for d, seg := range p {
			s.lengths[d] |= 1 << min(len(seg.name), longName)
		}
	}
	return s
}

// apart makes a slice in lines of cache of its own. The allocator sets small arrays side
// by side, and what one worker writes for each record would then be in the line that
// another reads. Eight of whatever is made of words fill whole lines.
func apart[T any](n int) []T { return make([]T, (n+7)/8*8)[:n] }

// longName is the bit for names of that length and more.
const longName = 63

// finished is what the walk returns once it has seen the place of every path.
const finished = -2

// registryPrefix is the length of what a schema registry's serialiser puts before
// the text: a zero byte and the schema's number.
const registryPrefix = 5

// scan fills found with what value holds at each path. It reports false when the
// text is malformed before the last place it had to see; found is then of no use.
// An empty value, null or not, has nothing anywhere.
func (s *scanner) scan(value []byte) bool {
	s.reset()
	if len(value) == 0 {
		return true
	}
	if value[0] == 0 {
		value = value[min(registryPrefix, len(value)):]
	}
	s.text = value
	if s.shapes.tried() {
		if s.follow() {
			s.shapes.hits++
			return true
		}
		s.reset()
	}
	s.shapes.led = s.shapes.led[:0]
	s.open = 1<<len(s.paths) - 1 // all 64 where the shift overflows to zero
	i := s.walk(skipSpace(value, 0), s.open, 0)
	ok := i == finished || i >= 0 && skipSpace(value, i) == len(value)
	if s.shapes.missed() && ok {
		s.learn(i)
	}
	return ok
}

// reset forgets what was found.
func (s *scanner) reset() {
	for i := range s.found {
		s.found[i].kind = absent
		s.places[i] = malformed
	}
}

// walk reads the value at i, which is where the first depth segments of the paths
// in set lead, and returns the index behind it, malformed or finished.
func (s *scanner) walk(i int, set uint64, depth int) int {
	here := set & s.ends[depth]
	deeper := set &^ here
	if here != 0 {
		end := s.take(i, here)
		if end < 0 {
			return end
		}
		if s.open == 0 {
			return finished
		}
		if end > i { // not a container
			return end
		}
	}
	if deeper != 0 {
		s.shapes.lead(i)
		switch at(s.text, i) {
		case '{':
			return s.object(i, deeper, depth)
		case '[':
			return s.array(i, deeper, depth)
		}
	}
	return s.skip(i)
}

// take notes the value at i as found for the paths in set. It returns the index
// behind a scalar and i itself for a container.
func (s *scanner) take(i int, set uint64) int {
	p, end := part{kind: nested}, i
	switch at(s.text, i) {
	case '{', '[':
	case '"':
		close, escaped := skipString(s.text, i+1)
		if close < 0 {
			return malformed
		}
		p, end = part{text, escaped, s.text[i+1 : close]}, close+1
	default:
		if end, p.kind = skipScalar(s.text, i); end < 0 || !delimited(s.text, end) {
			return malformed
		}
		p.bytes = s.text[i:end]
	}
	s.note(set, i, p)
	return end
}

// note has p, which is at i, found for the paths in set.
func (s *scanner) note(set uint64, i int, p part) {
	if p.kind == text && len(p.bytes) == 0 {
		p.kind = absent
	}
	s.open &^= set
	for ; set != 0; set &= set - 1 {
		at := bits.TrailingZeros64(set)
		s.found[at], s.places[at] = p, i
	}
}

// object reads the object at i, whose members may match segment depth of the
// paths in set.
func (s *scanner) object(i int, set uint64, depth int) int {
	b := s.text
	lengths := s.lengths[depth]
	if i = skipSpace(b, i+1); at(b, i) == '}' {
		return i + 1
	}
	for {
		// What follows is skipName and skip, spelled out: calls are a tenth of the time.
		if at(b, i) != '"' {
			return malformed
		}
		end, escaped := skipString(b, i+1)
		if end < 0 {
			return malformed
		}
		name := b[i+1 : end]
		if i = skipColon(b, end+1); i < 0 {
			return malformed
		}
		var hit uint64
		if escaped || lengths>>min(len(name), longName)&1 != 0 {
			hit = s.match(name, escaped, set, depth)
		}
		switch {
		case hit != 0:
			set &^= hit // the first of equal names counts
			i = s.walk(i, hit, depth+1)
		case at(b, i) == '"':
			if i, _ = skipString(b, i+1); i >= 0 {
				i++
			}
		default:
			i = s.skip(i)
		}
		if i < 0 {
			return i
		}
		if at(b, i) != ',' {
			if i = skipSpace(b, i); at(b, i) == '}' {
				return i + 1
			} else if at(b, i) != ',' {
				return malformed
			}
		}
		i = skipSpace(b, i+1)
	}
}

// match is the set of those paths in set whose segment depth has the name.
func (s *scanner) match(name []byte, escaped bool, set uint64, depth int) (hit uint64) {
	for ; set != 0; set &= set - 1 {
		p := bits.TrailingZeros64(set)
		want := s.paths[p][depth].name
		if string(name) == want && !escaped || escaped && equal(name, want, &s.char) {
			hit |= 1 << p
		}
	}
	return hit
}

// array reads the array at i, whose elements may match segment depth of the
// paths in set.
func (s *scanner) array(i int, set uint64, depth int) int {
	b := s.text
	if i = skipSpace(b, i+1); at(b, i) == ']' {
		return i + 1
	}
	for n := 0; ; n++ {
		var hit uint64
		for m := set; m != 0; m &= m - 1 {
			if p := bits.TrailingZeros64(m); s.paths[p][depth].element == n {
				hit |= 1 << p
			}
		}
		if hit != 0 {
			i = s.walk(i, hit, depth+1)
		} else {
			i = s.skip(i)
		}
		if i < 0 {
			return i
		}
		switch i = skipSpace(b, i); at(b, i) {
		case ']':
			return i + 1
		case ',':
			i = skipSpace(b, i+1)
		default:
			return malformed
		}
	}
}

// skip reads the value at i, of any depth.
func (s *scanner) skip(i int) int {
	switch at(s.text, i) {
	case '"':
		end, _ := skipString(s.text, i+1)
		if end < 0 {
			return malformed
		}
		return end + 1
	case '{', '[':
		return s.skipNested(i)
	}
	end, _ := skipScalar(s.text, i)
	return end
}

// skipNested reads the array or object at i. What is open is a stack of bits, one
// for each container: is it an object? The innermost 64 are in a word, whole
// words of the others in s.outer, so the memory for a depth of n is n/8 bytes.
func (s *scanner) skipNested(i int) int {
	b := s.text
	var inner uint64
	depth := 0
	for {
		// A value begins at i.
		switch c := at(b, i); c {
		case '{', '[':
			if depth%64 == 0 && depth > 0 {
				s.outer = append(s.outer[:depth/64-1], inner)
			}
			depth++
			inner <<= 1
			i = skipSpace(b, i+1)
			if c == '[' {
				if at(b, i) != ']' {
					continue
				}
			} else {
				inner |= 1
				if at(b, i) != '}' {
					if i = skipName(b, i); i < 0 {
						return malformed
					}
					continue
				}
			}
		case '"':
			if i, _ = skipString(b, i+1); i < 0 {
				return malformed
			}
			i++
		default:
			if i, _ = skipScalar(b, i); i < 0 {
				return malformed
			}
		}
		// A value ended at i, or the container that was opened last is empty.
		for {
			i = skipSpace(b, i)
			c := at(b, i)
			i++
			if c == ',' {
				break
			}
			if c != "]}"[inner&1] {
				return malformed
			}
			depth--
			inner >>= 1
			if depth == 0 {
				return i
			}
			if depth%64 == 0 {
				inner = s.outer[depth/64-1]
			}
		}
		i = skipSpace(b, i)
		if inner&1 != 0 {
			if i = skipName(b, i); i < 0 {
				return malformed
			}
		}
	}
}
