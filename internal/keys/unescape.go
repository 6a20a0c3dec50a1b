package keys

import (
	"bytes"
	"unicode/utf8"
)

// maxChar is the longest encoding of one decoded escape.
const maxChar = utf8.UTFMax

// nextPiece decodes the first piece of s, the well-formed text between the
// quotes of a JSON string: a run without escapes, which is a view of s, or one
// escape, which is written to char. It is empty only when s is.
func nextPiece(s []byte, char *[maxChar]byte) (piece, rest []byte) {
	n := bytes.IndexByte(s, '\\')
	if n < 0 {
		return s, nil
	}
	if n > 0 {
		return s[:n], s[n:]
	}
	switch c := s[1]; c {
	case 'b':
		char[0] = '\b'
	case 'f':
		char[0] = '\f'
	case 'n':
		char[0] = '\n'
	case 'r':
		char[0] = '\r'
	case 't':
		char[0] = '\t'
	case 'u':
		r, size := codePoint(s)
		return char[:encode(char, r)], s[size:]
	default: // the quote, the slash and the backslash are themselves
		char[0] = c
	}
	return char[:1], s[2:]
}

const (
	highSurrogate = 0xd800
	lowSurrogate  = 0xdc00
	endSurrogate  = 0xe000
)

// codePoint decodes the \u escape that s begins with, or the two that make a
// surrogate pair, and says how long it is. A lone surrogate is its own number.
func codePoint(s []byte) (r rune, size int) {
	r = hex4(s[2:])
	if r < highSurrogate || r >= lowSurrogate || len(s) < 12 || s[6] != '\\' || s[7] != 'u' {
		return r, 6
	}
	low := hex4(s[8:])
	if low < lowSurrogate || low >= endSurrogate {
		return r, 6
	}
	return (r-highSurrogate)<<10 + (low - lowSurrogate) + 0x10000, 12
}

func hex4(s []byte) (r rune) {
	for _, c := range s[:4] {
		r = r<<4 | rune(hexDigit[c]&0xf)
	}
	return r
}

// encode is [utf8.EncodeRune], except that a surrogate keeps its number instead
// of becoming U+FFFD.
func encode(char *[maxChar]byte, r rune) int {
	if r < highSurrogate || r >= endSurrogate {
		return utf8.EncodeRune(char[:], r)
	}
	char[0] = 0xe0 | byte(r>>12)
	char[1] = 0x80 | byte(r>>6)&0x3f
	char[2] = 0x80 | byte(r)&0x3f
	return 3
}

// equal reports whether s, the text of a well-formed JSON string, decodes to name.
func equal(s []byte, name string, char *[maxChar]byte) bool {
	for piece, rest := nextPiece(s, char); len(piece) > 0; piece, rest = nextPiece(rest, char) {
		if len(piece) > len(name) || string(piece) != name[:len(piece)] {
			return false
		}
		name = name[len(piece):]
	}
	return name == ""
}

// isHex marks the valid entries of hexDigit.
const isHex = 0x80

// hexDigit is the value of a hexadecimal digit, with isHex set; else zero.
var hexDigit = func() (t [256]byte) {
	for i, c := range []byte("0123456789abcdef") {
		t[c] = isHex | byte(i)
		t[bytes.ToUpper([]byte{c})[0]] = isHex | byte(i)
	}
	return t
}()
