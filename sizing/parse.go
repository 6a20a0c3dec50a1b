package sizing

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// MinWindow gives each of the sealed generations a millisecond, the resolution of
// record times.
const MinWindow = filter.Sealed * time.Millisecond

// number is a plain decimal with an exponent of at most two digits: anything
// longer is a typing error, and exact arithmetic with it could take forever.
var number = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?$`)

// grouped is a whole number with commas between all of its thousands, so that a
// decimal comma ("1,5M") is not taken for one.
var grouped = regexp.MustCompile(`^[0-9]{1,3}(,[0-9]{3})+$`)

// ParseCount reads how many IDs: "1000000", "1,000,000", "1e6", "1M", "1.5M" with k, M
// and G for powers of a thousand, in either case. Zero, negative numbers, fractions of
// an ID and what does not fit into 64 bits are refused.
func ParseCount(s string) (uint64, error) {
	text, scale := cutThousands(s)
	if grouped.MatchString(text) {
		text = strings.ReplaceAll(text, ",", "")
	}
	n, err := wholeNumber(text, scale)
	if err != nil {
		return 0, fmt.Errorf("parse count %q: %w, want a number of IDs such as 1000000, 1e6 or 1M", s, err)
	}
	return n, nil
}

// ParseRate reads how many new IDs a second: "50000", "50k", "1.5M", "0.2", each also
// with "/s" behind it. Suffixes are those of [ParseCount]. Zero and negative
// rates are refused.
func ParseRate(s string) (float64, error) {
	text, scale := cutThousands(strings.TrimSuffix(s, "/s"))
	n, err := exactNumber(text)
	if err != nil {
		return 0, fmt.Errorf("parse rate %q: %w, want new IDs a second such as 50000, 50k or 1.5M", s, err)
	}
	rate, _ := n.Mul(n, new(big.Rat).SetInt64(scale)).Float64()
	if rate == 0 || math.IsInf(rate, 0) {
		return 0, fmt.Errorf("parse rate %q: it is %g, want new IDs a second such as 50000, 50k or 1.5M", s, rate)
	}
	return rate, nil
}

// sizeUnits are the units of [ParseSize] in lower case, longest first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40},
	{"b", 1},
}

// ParseSize reads an amount of memory in bytes: "1073741824", "1GiB", "512MB", "2g",
// "1.5 GiB", in either case. KiB and its like are powers of 1024, kB and its like of
// 1000, and a bare letter is a power of 1024 as container tools and the JVM read it.
// Zero, negative sizes, fractions of a byte and what does not fit into 64 bits are refused.
func ParseSize(s string) (uint64, error) {
	text, scale := s, int64(1)
	for _, unit := range sizeUnits {
		if len(s) > len(unit.name) && strings.EqualFold(s[len(s)-len(unit.name):], unit.name) {
			text, scale = strings.TrimSuffix(s[:len(s)-len(unit.name)], " "), unit.bytes
			break
		}
	}
	n, err := wholeNumber(text, scale)
	if err != nil {
		return 0, fmt.Errorf("parse size %q: %w, want bytes such as 1GiB, 512MB or 2g", s, err)
	}
	return n, nil
}

// ParseRatio reads a share between 0 and 1, both excluded: "0.0001", "1e-4", or percent
// "1%", which is 0.01. A bare "1" is refused: it would be everything, and who
// writes it means one percent.
func ParseRatio(s string) (float64, error) {
	text, percent := strings.CutSuffix(s, "%")
	n, err := exactNumber(text)
	if err != nil {
		return 0, fmt.Errorf("parse ratio %q: %w, want a share such as 0.0001 or 0.01%%", s, err)
	}
	if percent {
		n.Quo(n, new(big.Rat).SetInt64(100))
	}
	ratio, _ := n.Float64()
	if ratio <= 0 || ratio >= 1 {
		return 0, fmt.Errorf("parse ratio %q: it is %g, want more than 0 and less than 1, such as 0.0001 or 0.01%%", s, ratio)
	}
	return ratio, nil
}

// durationUnits in the order in which [FormatDuration] writes them.
var durationUnits = []struct {
	name   string
	length time.Duration
}{
	{"w", 7 * 24 * time.Hour},
	{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second},
	{"ms", time.Millisecond}, {"us", time.Microsecond}, {"ns", time.Nanosecond},
}

var durationPart = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([^0-9.]*)`)

// ParseWindow reads how long a window is, as [ParseDuration] does, and refuses what
// is shorter than [MinWindow].
func ParseWindow(s string) (time.Duration, error) {
	d, err := ParseDuration(s)
	if err == nil && d < MinWindow {
		return 0, fmt.Errorf("parse window %q: it is shorter than %s", s, FormatDuration(MinWindow))
	}
	return d, err
}

// ParseDuration reads a length of time: "24h", "7d", "1d12h", "90m", "1.5h", of weeks,
// days of 24 hours, hours, minutes, seconds and their thousandths (w, d, h, m, s, ms, us,
// ns). A number without a unit is refused, as its reader would have to guess; so are
// calendar units, whose length varies, and zero.
func ParseDuration(s string) (time.Duration, error) {
	fail := func(format string, args ...any) (time.Duration, error) {
		return 0, fmt.Errorf("parse duration %q: %s, want one such as 24h, 7d or 1d12h", s, fmt.Sprintf(format, args...))
	}
	switch {
	case s == "":
		return fail("it is empty")
	case s[0] == '-':
		return fail("it is negative")
	}
	total := new(big.Rat)
	for rest := s; rest != ""; {
		part := durationPart.FindStringSubmatch(rest)
		if part == nil {
			return fail("%q is not a number with a unit", rest)
		}
		rest = rest[len(part[0]):]
		length, err := unitLength(part[2])
		if err != nil {
			return fail("%s %v", part[1], err)
		}
		n, err := exactNumber(part[1])
		if err != nil {
			return fail("%v", err)
		}
		total.Add(total, n.Mul(n, new(big.Rat).SetInt64(int64(length))))
	}
	if total.Cmp(new(big.Rat).SetInt64(math.MaxInt64)) > 0 {
		return fail("it is longer than 292 years")
	}
	d := time.Duration(new(big.Int).Quo(total.Num(), total.Denom()).Int64())
	if d == 0 {
		return fail("it is zero")
	}
	return d, nil
}

func unitLength(name string) (time.Duration, error) {
	for _, unit := range durationUnits {
		if name == unit.name {
			return unit.length, nil
		}
	}
	switch name {
	case "":
		return 0, fmt.Errorf("has no unit")
	case "mo", "mon", "month", "months", "M", "y", "yr", "year", "years":
		return 0, fmt.Errorf("has the unit %q, whose length varies; say how many days", name)
	}
	return 0, fmt.Errorf("has the unknown unit %q", name)
}

// FormatDuration writes d the way people say it and [ParseDuration] reads it: "24h",
// "7d", "1h30m". Two days and more are counted in days.
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	if d < 0 {
		b.WriteByte('-')
	}
	for _, unit := range durationUnits {
		// Weeks are read, never written.
		if unit.name == "w" || unit.name == "d" && d.Abs() < 2*unit.length {
			continue
		}
		if n := d / unit.length; n != 0 {
			fmt.Fprintf(&b, "%d%s", n.Abs(), unit.name)
			d -= n * unit.length
		}
	}
	return b.String()
}

// cutThousands takes a suffix of k, M or G off a number.
func cutThousands(s string) (text string, scale int64) {
	if s != "" {
		switch s[len(s)-1] {
		case 'k', 'K':
			return s[:len(s)-1], 1e3
		case 'm', 'M':
			return s[:len(s)-1], 1e6
		case 'g', 'G':
			return s[:len(s)-1], 1e9
		}
	}
	return s, 1
}

// exactNumber reads a decimal without the rounding of a float.
func exactNumber(s string) (*big.Rat, error) {
	if strings.HasPrefix(s, "-") {
		return nil, fmt.Errorf("it is negative")
	}
	if !number.MatchString(s) {
		return nil, fmt.Errorf("%q is not a number", s)
	}
	n, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("BUG: a decimal number is not rational: " + strconv.Quote(s))
	}
	return n, nil
}

// wholeNumber reads s times scale as a positive integer.
func wholeNumber(s string, scale int64) (uint64, error) {
	n, err := exactNumber(s)
	if err != nil {
		return 0, err
	}
	n.Mul(n, new(big.Rat).SetInt64(scale))
	switch {
	case n.Sign() == 0:
		return 0, fmt.Errorf("it is zero")
	case !n.IsInt():
		return 0, fmt.Errorf("it is not whole")
	case !n.Num().IsUint64():
		return 0, fmt.Errorf("it does not fit into 64 bits")
	}
	return n.Num().Uint64(), nil
}
