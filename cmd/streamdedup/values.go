package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
)

// value is a flag of any type that a function can read. The text of the zero
// value is empty, so that help does not show a default where there is none.
type value[T comparable] struct {
	to     *T
	kind   string // what help shows as the value's name
	parse  func(string) (T, error)
	format func(T) string
}

func (v *value[T]) Set(s string) (err error) {
	*v.to, err = v.parse(s)
	return err
}

func (v *value[T]) String() string { return v.format(*v.to) }
func (v *value[T]) Type() string   { return v.kind }

// kindOf is a type of flag: how it is named, read and written.
type kindOf[T comparable] struct {
	name   string
	parse  func(string) (T, error)
	format func(T) string
}

// add defines a flag of this kind whose default is what to holds.
func (k kindOf[T]) add(fs *pflag.FlagSet, to *T, name, usage string) {
	fs.Var(&value[T]{to: to, kind: k.name, parse: k.parse, format: k.format}, name, usage)
}

// The kinds of flags that commands share.
var (
	durationFlag = kindOf[time.Duration]{"DUR", sizing.ParseDuration, func(d time.Duration) string {
		return textUnlessZero(d, sizing.FormatDuration)
	}}
	windowFlag = kindOf[time.Duration]{"DUR", sizing.ParseWindow, durationFlag.format}
	countFlag  = kindOf[uint64]{"N", sizing.ParseCount, func(n uint64) string {
		return textUnlessZero(n, sizing.FormatCount)
	}}
	rateFlag = kindOf[float64]{"RATE", sizing.ParseRate, formatFloat}
	sizeFlag = kindOf[uint64]{"SIZE", sizing.ParseSize, func(n uint64) string {
		return textUnlessZero(n, formatSize)
	}}
	shareFlag     = kindOf[float64]{"P", sizing.ParseRatio, formatFloat}
	factorFlag    = kindOf[float64]{"X", parseFactor, formatFloat}
	kindFlag      = kindOf[sizing.Kind]{"KIND", sizing.ParseKind, sizing.Kind.String}
	layoutFlag    = kindOf[filter.Layout]{"LAYOUT", filter.ParseLayout, filter.Layout.String}
	policyFlag    = kindOf[pipeline.Policy]{"POLICY", pipeline.ParsePolicy, pipeline.Policy.String}
	duplicateFlag = kindOf[pipeline.DuplicatePolicy]{"POLICY", pipeline.ParseDuplicatePolicy, pipeline.DuplicatePolicy.String}
	onFullFlag    = kindOf[fullPolicy]{"POLICY", parseFullPolicy, fullPolicy.String}
	seedFlag      = kindOf[seed]{"N", parseSeed, seed.String}
)

// numberFlag is a flag that counts other things than IDs.
func numberFlag(of string) kindOf[uint64] {
	return kindOf[uint64]{"N", func(s string) (uint64, error) {
		n, err := sizing.ParseCount(s)
		if err != nil {
			return 0, fmt.Errorf("parse number %q: %w, want a number of %s such as 5 or 10k", s, errors.Unwrap(err), of)
		}
		return n, nil
	}, countFlag.format}
}

// formatSize writes a size in the largest unit that it is a whole number of.
func formatSize(n uint64) string {
	for _, unit := range []struct {
		name  string
		shift int
	}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if n>>unit.shift<<unit.shift == n {
			return strconv.FormatUint(n>>unit.shift, 10) + unit.name
		}
	}
	return strconv.FormatUint(n, 10)
}

// plural is "1 partition", "2 partitions".
func plural(n int, of string) string {
	if n != 1 {
		of += "s"
	}
	return strconv.Itoa(n) + " " + of
}

// choiceFlag is a flag whose value is one of a few words.
func choiceFlag(name string, choices ...string) kindOf[string] {
	return kindOf[string]{name, func(s string) (string, error) {
		for _, c := range choices {
			if s == c {
				return s, nil
			}
		}
		return "", fmt.Errorf("unknown value %q: want %s", s, oneOf(choices))
	}, func(s string) string { return s }}
}

// oneOf is "a", "a or b", "a, b or c".
func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func textUnlessZero[T comparable](v T, format func(T) string) string {
	var zero T
	if v == zero {
		return ""
	}
	return format(v)
}

func formatFloat(f float64) string {
	return textUnlessZero(f, func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) })
}

// parseFactor reads how many times more: a plain number, at least 1.
func parseFactor(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 1 && f <= 1e6) {
		return 0, fmt.Errorf("parse factor %q: want a number of at least 1, such as 2 or 1.25", s)
	}
	return f, nil
}

// seed is a hash seed that may be given or not.
type seed struct {
	n     uint64
	given bool
}

func (s seed) String() string {
	if !s.given {
		return ""
	}
	return strconv.FormatUint(s.n, 10)
}

func parseSeed(text string) (seed, error) {
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return seed{}, fmt.Errorf("parse seed %q: want a whole number of 64 bits, decimal or 0x hexadecimal", text)
	}
	return seed{n, true}, nil
}

// readSecretFile reads a value that stands alone in a file.
func readSecretFile(flag, path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read --%s: %w", flag, err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", fmt.Errorf("read --%s %s: %w", flag, path, errors.New("the file is empty"))
	}
	return text, nil
}
