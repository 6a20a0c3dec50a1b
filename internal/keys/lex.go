package keys

import "math/bits"

// The functions here read one token of JSON (RFC 8259) from b at i and return
// the index behind it, or malformed.

const malformed = -1

// at is the byte of b at i, or zero, which no token allows, at the end.
func at(b []byte, i int) byte {
	if uint(i) < uint(len(b)) {
		return b[i]
	}
	return 0
}

const spaces = 1<<' ' | 1<<'\t' | 1<<'\n' | 1<<'\r'

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && uint64(spaces)>>b[i]&1 != 0 {
		i++
	}
	return i
}

const eachByte = 0x0101010101010101

// word is the eight bytes of b from i on, little endian. A slice of them would put
// the arithmetic of its base between one token and the next: 3.4 GB/s instead of
// 6.0 in a long string.
func word(b []byte, i int) uint64 {
	return uint64(b[i]) | uint64(b[i+1])<<8 | uint64(b[i+2])<<16 | uint64(b[i+3])<<24 |
		uint64(b[i+4])<<32 | uint64(b[i+5])<<40 | uint64(b[i+6])<<48 | uint64(b[i+7])<<56
}

// special has the high bit set for the first byte of x that ends a run of plain
// text in a string: a quote, a backslash or a control character. Bits above that
// one mean nothing, since borrows run upwards.
//
// Flipping bit 1 makes the quote 0x20 and moves no other byte across 0x21, so that
// one subtraction finds quotes and control characters; only ASCII can be special.
func special(x uint64) uint64 {
	quoteOrControl := (x ^ 0x02*eachByte) - 0x21*eachByte
	backslash := (x ^ '\\'*eachByte) - eachByte
	return (quoteOrControl | backslash) &^ x & (0x80 * eachByte)
}

// skipString takes the index behind the opening quote and returns that of the
// closing one.
func skipString(b []byte, i int) (end int, escaped bool) {
	for {
		// In this form the compiler proves the loads in bounds and makes them one.
		for i >= 0 && i <= len(b)-8 {
			m := special(word(b, i))
			if m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		if i >= 0 && i > len(b)-8 && i < len(b) && len(b) >= 8 {
			// The last word, without what is before i. The zeros that come in are special,
			// so that i is no more than the end of b.
			last := len(b) - 8
			i += bits.TrailingZeros64(special(word(b, last)>>(8*(i-last)))) / 8
		}
		switch c := at(b, i); {
		case c == '"':
			return i, escaped
		case c == '\\':
			escaped = true
			if i = skipEscape(b, i+1); i < 0 {
				return malformed, false
			}
		case c < ' ': // or the end of b
			return malformed, false
		default: // fewer than eight bytes are left
			i++
		}
	}
}

// skipEscape takes the index behind the backslash.
func skipEscape(b []byte, i int) int {
	switch at(b, i) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		if i+5 <= len(b) && hexDigit[b[i+1]]&hexDigit[b[i+2]]&hexDigit[b[i+3]]&hexDigit[b[i+4]]&isHex != 0 {
			return i + 5
		}
	}
	return malformed
}

// skipScalar reads a number, true, false or null, whose kind it returns.
func skipScalar(b []byte, i int) (end int, k kind) {
	switch at(b, i) {
	case 't':
		return skipLiteral(b, i, "true"), boolean
	case 'f':
		return skipLiteral(b, i, "false"), boolean
	case 'n':
		return skipLiteral(b, i, "null"), absent
	}
	return skipNumber(b, i), number
}

func skipLiteral(b []byte, i int, literal string) int {
	if len(b)-i < len(literal) || string(b[i:i+len(literal)]) != literal {
		return malformed
	}
	return i + len(literal)
}

func skipNumber(b []byte, i int) int {
	if at(b, i) == '-' {
		i++
	}
	if at(b, i) == '0' {
		i++
	} else if i = skipDigits(b, i); i < 0 {
		return malformed
	}
	if at(b, i) == '.' {
		if i = skipDigits(b, i+1); i < 0 {
			return malformed
		}
	}
	if c := at(b, i); c == 'e' || c == 'E' {
		i++
		if c := at(b, i); c == '+' || c == '-' {
			i++
		}
		i = skipDigits(b, i)
	}
	return i
}

// skipDigits wants at least one.
func skipDigits(b []byte, i int) int {
	start := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return malformed
	}
	return i
}

// delimited reports whether a number or literal may end at i inside an array or
// object. Where the text was cut off it may not: the rest could be digits.
func delimited(b []byte, i int) bool {
	switch at(b, i) {
	case ',', ']', '}', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

// skipColon reads the colon behind the name of a member and the spaces around it.
func skipColon(b []byte, i int) int {
	if at(b, i) == ':' && at(b, i+1) > ' ' {
		return i + 1
	}
	return skipSpacedColon(b, i) // apart, so that this is inlined
}

func skipSpacedColon(b []byte, i int) int {
	if i = skipSpace(b, i); at(b, i) != ':' {
		return malformed
	}
	return skipSpace(b, i+1)
}

// skipName reads the name of a member up to the member's value.
func skipName(b []byte, i int) int {
	if at(b, i) != '"' {
		return malformed
	}
	end, _ := skipString(b, i+1)
	if end < 0 {
		return malformed
	}
	return skipColon(b, end+1)
}
