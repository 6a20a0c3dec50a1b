package sizing

import (
	"fmt"
	"strconv"
)

// formatFloat is the shortest text that reads back as f, without an exponent where
// people would not write one.
func formatFloat(f float64) string {
	if f >= 1e-6 && f < 1e15 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// FormatBytes writes a size in both of its usual units: "2.11 GB (1.97 GiB)". It is
// for people; [ParseSize] does not read it.
func FormatBytes(n uint64) string {
	decimal, binary := scaled(n, 1000, "kB", "MB", "GB", "TB"), scaled(n, 1024, "KiB", "MiB", "GiB", "TiB")
	if binary == "" {
		return fmt.Sprintf("%d bytes", n)
	}
	return decimal + " (" + binary + ")"
}

// scaled writes n with three digits in the largest of units that it fills.
func scaled(n uint64, base float64, units ...string) string {
	text, f := "", float64(n)
	for _, unit := range units {
		if f < base {
			break
		}
		f /= base
		digits := 0
		if f < 100 {
			digits = 1
		}
		if f < 10 {
			digits = 2
		}
		text = strconv.FormatFloat(f, 'f', digits, 64) + " " + unit
	}
	return text
}

// FormatCount writes a number with commas between its thousands. [ParseCount] reads it.
func FormatCount(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// rounded writes f in the four digits that matter to a reader.
func rounded(f float64) string {
	text := strconv.FormatFloat(f, 'g', 4, 64)
	if f >= 1000 && f < 1e15 {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic("BUG: a formatted number does not parse: " + text)
		}
		return FormatCount(uint64(n))
	}
	return text
}

// decimal is a size in its decimal unit alone, for the middle of a sentence.
func decimal(n uint64) string {
	if text := scaled(n, 1000, "kB", "MB", "GB", "TB"); text != "" {
		return text
	}
	return fmt.Sprintf("%d bytes", n)
}

// rounded2 writes f in the two digits that a measurement on another machine is good for.
func rounded2(f float64) string {
	return rounded(significant(f, 2))
}

func significant(f float64, digits int) float64 {
	n, err := strconv.ParseFloat(strconv.FormatFloat(f, 'g', digits, 64), 64)
	if err != nil {
		panic("BUG: a formatted number does not parse")
	}
	return n
}
