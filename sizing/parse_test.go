package sizing

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// newRand is a source for randomised tests, of a seed that is logged and can be
// set again with STREAMDEDUP_SEED.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("STREAMDEDUP_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("parse STREAMDEDUP_SEED: %v", err)
		}
	}
	t.Logf("STREAMDEDUP_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// checkParse compares one result; wantErr is part of the error's text, and the error
// quotes what it could not read.
func checkParse[T comparable](t *testing.T, in string, got T, err error, want T, wantErr string) {
	t.Helper()
	switch {
	case wantErr == "" && (err != nil || got != want):
		t.Errorf("%q: got %v, %v; want %v", in, got, err, want)
	case wantErr != "" && err == nil:
		t.Errorf("%q: got %v, want an error with %q", in, got, wantErr)
	case wantErr != "" && (!strings.Contains(err.Error(), wantErr) || !strings.Contains(err.Error(), strconv.Quote(in))):
		t.Errorf("%q: error %q, want one that quotes it and has %q", in, err, wantErr)
	}
}

func TestCase_OPS_01(t *testing.T) {
	const day = 24 * time.Hour
	f := func(in string, want time.Duration, wantErr string) {
		t.Helper()
		got, err := ParseWindow(in)
		checkParse(t, in, got, err, want, wantErr)
	}
	f("7d", 7*day, "")
	f("1d12h", day+12*time.Hour, "")
	f("24h", day, "")
	f("1w", 7*day, "")
	f("1.5h", 90*time.Minute, "")
	f("1h30m", 90*time.Minute, "")
	f("24h0m0s", day, "")
	f("0d24h", day, "")
	f("7ms", 7*time.Millisecond, "")
	f("7000us", 7*time.Millisecond, "")
	f("106751d", 106751*day, "")
	f("90", 0, "no unit")
	f("1d12", 0, "12 has no unit")
	f("0", 0, "no unit")
	f("0s", 0, "zero")
	f("0.0d", 0, "zero")
	f("6ms", 0, "shorter than 7ms")
	f("6999999ns", 0, "shorter than 7ms")
	f("-1h", 0, "negative")
	f("1h-1m", 0, "unknown unit")
	f("1mo", 0, "length varies")
	f("1y", 0, "length varies")
	f("1x", 0, "unknown unit")
	f("1H", 0, "unknown unit")
	f("1d 12h", 0, "unknown unit")
	f("", 0, "empty")
	f("d", 0, "not a number")
	f("1.d", 0, "no unit")
	f("1e3s", 0, "unknown unit")
	f("NaNh", 0, "not a number")
	f("106752d", 0, "longer than 292 years")
	f(strings.Repeat("9", 400)+"d", 0, "longer than 292 years")
}

func TestFormatDuration(t *testing.T) {
	f := func(d time.Duration, want string) {
		t.Helper()
		if got := FormatDuration(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
	f(24*time.Hour, "24h")
	f(36*time.Hour, "36h")
	f(48*time.Hour, "2d")
	f(7*24*time.Hour, "7d")
	f(60*time.Hour, "2d12h")
	f(90*time.Minute, "1h30m")
	f(7*time.Millisecond, "7ms")
	f(1500*time.Microsecond, "1ms500us")
	f(0, "0s")
	f(-90*time.Second, "-1m30s")
	f(math.MinInt64, "-106751d23h47m16s854ms775us808ns")

	r := newRand(t)
	for range 1000 {
		d := MinWindow + time.Duration(math.Exp(r.Float64()*43))
		if got, err := ParseWindow(FormatDuration(d)); err != nil || got != d {
			t.Errorf("%d ns: %s reads back as %d, %v", d, FormatDuration(d), got, err)
		}
	}
}

// What is no window may be shorter than one: a time between commits, say.
func TestParseDuration(t *testing.T) {
	if d, err := ParseDuration("1ms"); err != nil || d != time.Millisecond {
		t.Errorf("1ms is read as %v, %v", d, err)
	}
	for _, s := range []string{"0", "0ms", "0.1ns", "-1ms", "1"} {
		if d, err := ParseDuration(s); err == nil {
			t.Errorf("%s is read as %v", s, d)
		}
	}
}

func TestParseCount(t *testing.T) {
	f := func(in string, want uint64, wantErr string) {
		t.Helper()
		got, err := ParseCount(in)
		checkParse(t, in, got, err, want, wantErr)
	}
	f("1", 1, "")
	f("1000000", 1e6, "")
	f("1,000,000", 1e6, "")
	f("1e9", 1e9, "")
	f("1E9", 1e9, "")
	f("1.5e3", 1500, "")
	f("10M", 1e7, "")
	f("10m", 1e7, "")
	f("1.5M", 1_500_000, "")
	f("3k", 3000, "")
	f("2G", 2e9, "")
	f("5000000000", 5e9, "")
	f("1.0", 1, "")
	f("9223372036854775808", 1<<63, "")
	f("18446744073709551615", math.MaxUint64, "")
	f("18446744073709551616", 0, "64 bits")
	f("1e20", 0, "64 bits")
	f("0", 0, "zero")
	f("-1", 0, "negative")
	f("1.5", 0, "not whole")
	f("0.0001k", 0, "not whole")
	f("1e-3", 0, "not whole")
	f("1,5M", 0, "not a number")
	f("10,00", 0, "not a number")
	f("1e999999999", 0, "not a number")
	f("1/2", 0, "not a number")
	f("0x10", 0, "not a number")
	f("1_000", 0, "not a number")
	f("NaN", 0, "not a number")
	f("Inf", 0, "not a number")
	f("1B", 0, "not a number")
	f("M", 0, "not a number")
	f("", 0, "not a number")
	f(" 1", 0, "not a number")

	r := newRand(t)
	for range 1000 {
		n := r.Uint64()>>r.IntN(64) | 1
		if got, err := ParseCount(FormatCount(n)); err != nil || got != n {
			t.Errorf("%d: %s reads back as %d, %v", n, FormatCount(n), got, err)
		}
	}
}

func TestParseSize(t *testing.T) {
	f := func(in string, want uint64, wantErr string) {
		t.Helper()
		got, err := ParseSize(in)
		checkParse(t, in, got, err, want, wantErr)
	}
	f("1GiB", 1<<30, "")
	f("1gib", 1<<30, "")
	f("512MB", 512e6, "")
	f("2g", 2<<30, "")
	f("2G", 2<<30, "")
	f("1.5 GiB", 3<<29, "")
	f("1TiB", 1<<40, "")
	f("1tb", 1e12, "")
	f("64k", 64<<10, "")
	f("64kB", 64000, "")
	f("100", 100, "")
	f("100B", 100, "")
	f("1e9", 1e9, "")
	f("0.0001B", 0, "not whole")
	f("0", 0, "zero")
	f("0GiB", 0, "zero")
	f("-1GiB", 0, "negative")
	f("16777216TiB", 0, "64 bits")
	f("1PB", 0, "not a number")
	f("GiB", 0, "not a number")
	f("1,5GiB", 0, "not a number")
	f("", 0, "not a number")
}

func TestParseRate(t *testing.T) {
	f := func(in string, want float64, wantErr string) {
		t.Helper()
		got, err := ParseRate(in)
		checkParse(t, in, got, err, want, wantErr)
	}
	f("50k", 50e3, "")
	f("1.5M", 1.5e6, "")
	f("50k/s", 50e3, "")
	f("0.2", 0.2, "")
	f("1e3", 1000, "")
	f("0", 0, "it is 0")
	f("-5", 0, "negative")
	f("50/m", 0, "not a number")
	f("NaN", 0, "not a number")
	f("", 0, "not a number")
	f(strings.Repeat("9", 400), 0, "it is +Inf")
}

func TestParseRatio(t *testing.T) {
	f := func(in string, want float64, wantErr string) {
		t.Helper()
		got, err := ParseRatio(in)
		checkParse(t, in, got, err, want, wantErr)
	}
	f("0.0001", 0.0001, "")
	f("1e-4", 0.0001, "")
	f("1%", 0.01, "")
	f("0.01%", 0.0001, "")
	f("99.9%", 0.999, "")
	f("1", 0, "it is 1, want more than 0 and less than 1")
	f("100%", 0, "it is 1")
	f("1.5", 0, "it is 1.5")
	f("0", 0, "it is 0")
	f("0%", 0, "it is 0")
	f("-1", 0, "negative")
	f("NaN", 0, "not a number")
	f("0,01", 0, "not a number")
	f("%", 0, "not a number")
	f("1%%", 0, "not a number")
	f("1 %", 0, "not a number")
	f("", 0, "not a number")
}

func TestFormatBytes(t *testing.T) {
	f := func(n uint64, want string) {
		t.Helper()
		if got := FormatBytes(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
	f(0, "0 bytes")
	f(1023, "1023 bytes")
	f(1024, "1.02 kB (1.00 KiB)")
	f(2_111_547_520, "2.11 GB (1.97 GiB)")
	f(263_943_440, "264 MB (252 MiB)")
	f(math.MaxUint64, "18446744 TB (16777216 TiB)")
}

// Whatever the text, the parsers return and never both refuse and answer.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "1", "7d", "1d12h", "1e9", "1,000", "1.5GiB", "50k/s", "1%", "1e99", "-1", "9mo"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseWindow(s); (err == nil) != (d >= MinWindow) {
			t.Errorf("ParseWindow(%q) = %d, %v", s, d, err)
		}
		if n, err := ParseCount(s); (err == nil) != (n > 0) {
			t.Errorf("ParseCount(%q) = %d, %v", s, n, err)
		}
		if n, err := ParseSize(s); (err == nil) != (n > 0) {
			t.Errorf("ParseSize(%q) = %d, %v", s, n, err)
		}
		if r, err := ParseRate(s); (err == nil) != (r > 0 && r <= math.MaxFloat64) {
			t.Errorf("ParseRate(%q) = %g, %v", s, r, err)
		}
		if r, err := ParseRatio(s); (err == nil) != (r > 0 && r < 1) {
			t.Errorf("ParseRatio(%q) = %g, %v", s, r, err)
		}
	})
}

// TestCase_BLOOM_05 is nonsense as people type it. A share in percent is a hundredth of
// what it would be as a number; it is never read as 1.
func TestCase_BLOOM_05(t *testing.T) {
	for in, want := range map[string]uint64{"1": 1, "5e9": 5_000_000_000, "5,000,000,000": 5_000_000_000} {
		got, err := ParseCount(in)
		checkParse(t, in, got, err, want, "")
	}
	for _, in := range []string{"0", "-1", "9223372036854775808", "1e300"} {
		w := billion
		n, err := ParseCount(in)
		if w.Elements = n; err == nil {
			_, err = Solve(w)
		}
		if err == nil {
			t.Errorf("%s elements were planned for", in)
		}
	}
	for in, want := range map[string]float64{"1%": 0.01, "0.99": 0.99} {
		got, err := ParseRatio(in)
		checkParse(t, in, got, err, want, "")
	}
	for _, in := range []string{"0", "1", "100%", "1.5", "-1", "NaN", "1e-18", "10.1", "2%%"} {
		w := billion
		p, err := ParseRatio(in)
		if w.FPR = p; err == nil {
			_, err = Solve(w)
		}
		if err == nil {
			t.Errorf("a rate of %s was planned for", in)
		}
	}
	w := billion
	w.Elements, w.FPR = 1, 0.99
	if p := solve(t, w); p.Bytes*8 < 64 {
		t.Errorf("one ID at 0.99 has %d bytes", p.Bytes)
	}
}
