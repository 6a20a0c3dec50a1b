package files

import "bytes"

// rowScanner finds where the rows of a CSV text end (RFC 4180): at line ends
// that no quotes hold. Quotes open a field only at its start; elsewhere they are
// text, so that a stray one does not swallow the rows that follow.
//
// It is fed a text that grows: scan goes on where it was.
type rowScanner struct {
	quoted bool // the next byte is between quotes
	opened int  // where the quotes opened
	row    int  // where the row begins
}

// scan appends to ends where rows of text end, the line feed included, and
// returns how far it looked: from where to go on once text has grown.
func (s *rowScanner) scan(text []byte, from int, ends []int) ([]int, int) {
	newline, quote := from-1, from-1 // the next ones, once looked for
	for at := from; ; {
		if s.quoted {
			i := bytes.IndexByte(text[at:], '"')
			switch end := at + i + 1; {
			case i < 0:
				return ends, len(text)
			case end == len(text):
				return ends, end - 1 // closes, or is the first of two
			case text[end] == '"':
				at = end + 1
			default:
				s.quoted, at = false, end
			}
			continue
		}
		newline = next(text, at, newline, '\n')
		quote = next(text, at, quote, '"')
		if quote < newline {
			if quote == s.row || text[quote-1] == ',' {
				s.quoted, s.opened = true, quote
			}
			at = quote + 1
			continue
		}
		if newline == len(text) {
			return ends, len(text)
		}
		at = newline + 1
		s.row = at
		ends = append(ends, at)
	}
}

// next is where c stands in text from at on, len(text) if nowhere; known is the
// answer for a place before.
func next(text []byte, at, known int, c byte) int {
	if known >= at {
		return known
	}
	if i := bytes.IndexByte(text[at:], c); i >= 0 {
		return at + i
	}
	return len(text)
}

// moved says that the text now begins n bytes later.
func (s *rowScanner) moved(n int) {
	s.row -= n
	s.opened -= n
}
