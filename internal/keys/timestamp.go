package keys

import (
	"errors"
	"math"
	"math/bits"
)

type timeFormat uint8

const (
	autoFormat timeFormat = iota
	rfc3339
	unixSeconds
	unixMillis
	unixMicros
	unixNanos
)

func parseTimeFormat(s string) (timeFormat, error) {
	switch s {
	case "", "auto":
		return autoFormat, nil
	case "rfc3339":
		return rfc3339, nil
	case "unix":
		return unixSeconds, nil
	case "unix-ms":
		return unixMillis, nil
	case "unix-us":
		return unixMicros, nil
	case "unix-ns":
		return unixNanos, nil
	}
	return 0, errors.New("known are auto, rfc3339, unix, unix-ms, unix-us and unix-ns")
}

// unit is the power of ten that turns the format's numbers into milliseconds.
func (f timeFormat) unit() int {
	switch f {
	case unixSeconds:
		return 3
	case unixMillis:
		return 0
	case unixMicros:
		return -3
	case unixNanos:
		return -6
	}
	panic("BUG: not a format of numbers")
}

// guessUnit names the format of a number from its size, as ParseClock says.
func guessUnit(n uint64) timeFormat {
	switch {
	case n < 1e11:
		return unixSeconds
	case n < 1e14:
		return unixMillis
	case n < 1e17:
		return unixMicros
	}
	return unixNanos
}

// readUnix reads a decimal number of the format's unit, rounded down to
// milliseconds. ok is false for other text, negative numbers and overflow.
func readUnix(s []byte, f timeFormat) (millis int64, ok bool) {
	mantissa, exponent, ok := readDecimal(s)
	if !ok {
		return 0, false
	}
	if f == autoFormat {
		whole, ok := scale(mantissa, exponent)
		if !ok {
			return 0, false
		}
		f = guessUnit(whole)
	}
	n, ok := scale(mantissa, exponent+f.unit())
	return int64(n), ok && n <= math.MaxInt64
}

// maxMantissa bounds a mantissa so that one more digit still fits 64 bits.
const maxMantissa = (math.MaxUint64 - 9) / 10

// maxExponent is more than any length of text can make up for, and far from
// overflow.
const maxExponent = 1 << 30

// readDecimal reads digits, a fraction and an exponent, as in JSON but with
// leading zeros allowed. The number is mantissa times ten to the exponent, except
// for digits that a mantissa of 64 bits leaves no room for; they are cut off.
func readDecimal(s []byte) (mantissa uint64, exponent int, ok bool) {
	digits, point := 0, false
	i := 0
	for ; i < len(s); i++ {
		c := s[i]
		if c == '.' && !point && digits > 0 {
			point, digits = true, 0 // wants digits again
			continue
		}
		if c -= '0'; c > 9 {
			break
		}
		digits++
		if mantissa > maxMantissa {
			if !point {
				exponent++
			}
			continue
		}
		mantissa = mantissa*10 + uint64(c)
		if point {
			exponent--
		}
	}
	if digits == 0 {
		return 0, 0, false
	}
	if i == len(s) {
		return mantissa, exponent, true
	}
	e, ok := readExponent(s[i:])
	return mantissa, exponent + e, ok
}

func readExponent(s []byte) (exponent int, ok bool) {
	if s[0] != 'e' && s[0] != 'E' {
		return 0, false
	}
	s = s[1:]
	negative := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		negative = s[0] == '-'
		s = s[1:]
	}
	for _, c := range s {
		if c -= '0'; c > 9 {
			return 0, false
		}
		exponent = min(exponent*10+int(c), maxExponent)
	}
	if negative {
		exponent = -exponent
	}
	return exponent, len(s) > 0
}

// scale is n times ten to the exponent, rounded down; ok is false on overflow.
func scale(n uint64, exponent int) (scaled uint64, ok bool) {
	for ; exponent < 0 && n > 0; exponent++ {
		n /= 10
	}
	for ; exponent > 0 && n > 0; exponent-- {
		hi, lo := bits.Mul64(n, 10)
		if hi != 0 {
			return 0, false
		}
		n = lo
	}
	return n, true
}

// looksLikeDate tells a date from a number, whose exponent may be negative.
func looksLikeDate(s []byte) bool { return len(s) > 4 && s[3]-'0' <= 9 && s[4] == '-' }

// readRFC3339 reads a date and time as ParseClock says, rounded down to
// milliseconds. A leap second is the first second of the next minute.
func readRFC3339(s []byte) (millis int64, ok bool) {
	const layout = "0000-00-00t00:00:00"
	if len(s) < len(layout) {
		return 0, false
	}
	for i := range len(layout) {
		switch c := s[i]; layout[i] {
		case '0':
			ok = c-'0' <= 9
		case 't':
			ok = c == 'T' || c == 't' || c == ' '
		default:
			ok = c == layout[i]
		}
		if !ok {
			return 0, false
		}
	}
	year, month, day := two(s[0:])*100+two(s[2:]), two(s[5:]), two(s[8:])
	hour, minute, second := two(s[11:]), two(s[14:]), two(s[17:])
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 60 {
		return 0, false
	}
	fraction, rest, ok := readFraction(s[len(layout):])
	if !ok {
		return 0, false
	}
	offset, ok := readOffset(rest)
	if !ok {
		return 0, false
	}
	seconds := (daysSinceEpoch(year, month, day)*24+hour)*3600 + minute*60 + second - offset
	return seconds*1000 + fraction, true
}

// two is the number of the two digits that s begins with.
func two(s []byte) int64 { return int64(s[0]-'0')*10 + int64(s[1]-'0') }

// readFraction reads a point and digits, if there are any, as milliseconds.
func readFraction(s []byte) (millis int64, rest []byte, ok bool) {
	if len(s) == 0 || s[0] != '.' {
		return 0, s, true
	}
	i := 1
	for weight := int64(100); i < len(s) && s[i]-'0' <= 9; i++ {
		millis += int64(s[i]-'0') * weight
		weight /= 10
	}
	return millis, s[i:], i > 1
}

// readOffset reads what stands at the end of a time, in seconds east of UTC.
func readOffset(s []byte) (seconds int64, ok bool) {
	if len(s) == 0 || len(s) == 1 && (s[0] == 'Z' || s[0] == 'z') {
		return 0, true
	}
	if len(s) != 6 || s[0] != '+' && s[0] != '-' || s[3] != ':' {
		return 0, false
	}
	for _, i := range [...]int{1, 2, 4, 5} {
		if s[i]-'0' > 9 {
			return 0, false
		}
	}
	hour, minute := two(s[1:]), two(s[4:])
	if hour > 23 || minute > 59 {
		return 0, false
	}
	seconds = hour*3600 + minute*60
	if s[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}

func isLeap(year int64) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func daysIn(year, month int64) int64 {
	if month == 2 && isLeap(year) {
		return 29
	}
	return int64([...]uint8{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1])
}

// daysSinceEpoch is the number of days from 1970-01-01 in the Gregorian calendar.
// Years are counted from March, so that the leap day is the last of its year and
// the days before a month are (153m+2)/5, 31 and 30 taking turns.
func daysSinceEpoch(year, month, day int64) int64 {
	year += 400 // of 146097 days each: no division of a negative number
	if month < 3 {
		year--
		month += 12
	}
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - daysToEpoch
}

// daysToEpoch is what makes day 0 of 1970-01-01: the days from March 1 of the
// year -400 on.
const daysToEpoch = 719468 + 146097
