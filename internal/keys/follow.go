package keys

import "math/bits"

// follow reads the text along the shapes that are remembered: what stood between
// the values is compared, the values are read. It reports false for a text with
// none of these shapes, of which the walk has to judge.
func (s *scanner) follow() bool {
	b := s.text
	for i, n := 0, s.shapes.first; n != nil; {
		if i >= 0 && i <= len(b)-16 {
			if (word(b, i)^n.word[0])&n.mask[0]|(word(b, i+8)^n.word[1])&n.mask[1] != 0 || n.size > 16 && !s.has(i, n) {
				n = n.other
				continue
			}
		} else if !s.has(i, n) {
			n = n.other
			continue
		}
		v := i + int(n.size)
		c, end, escaped := at(b, v), v, false
		// Most strings and whole numbers are read by loops of their own here, since
		// calls would be a third of the time.
		switch {
		case n.step == nothing:
			if skipSpace(b, v) < len(b) {
				end = malformed
			}
		case c == '"':
			for end++; end >= 0 && end <= len(b)-8; end += 8 {
				if m := special(word(b, end)); m != 0 {
					end += bits.TrailingZeros64(m) / 8
					break
				}
			}
			if at(b, end) == '"' {
				end++
			} else if end, escaped = skipString(b, end); end >= 0 {
				end++
			}
		case c-'1' < 9:
			for ; end >= 0 && end <= len(b)-8; end += 8 {
				if m := noDigit(word(b, end)); m != 0 {
					end += bits.TrailingZeros64(m) / 8
					break
				}
			}
			if next := at(b, end); next != ',' && next != '}' {
				end = skipNumber(b, v)
			}
		case c == '[' && n.step == anyValue:
			end = s.skipNested(v)
		default:
			end, _ = skipScalar(b, v)
		}
		if n.takes != 0 && end >= 0 {
			if c == '"' {
				s.note(n.takes, v, part{text, escaped, b[v+1 : end-1]})
			} else {
				end = s.take(v, n.takes)
			}
		}
		if end < 0 {
			n = n.other
			continue
		}
		if n.step >= lastValue {
			return true
		}
		i, n = end, n.next
	}
	return false
}

// has reports whether the literal of n stands in the text at i.
func (s *scanner) has(i int, n *node) bool {
	size := int(n.size)
	return size <= len(s.text)-i && string(s.text[i:i+size]) == string(s.shapes.literals[n.literal:][:size])
}

// noDigit has the high bit set for the bytes of x that are no digits.
func noDigit(x uint64) uint64 {
	x ^= '0' * eachByte
	return (x&(0x7f*eachByte) + (0x80-10)*eachByte | x) & (0x80 * eachByte)
}
