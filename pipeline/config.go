package pipeline

import (
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/window"
)

// Policy says what happens to a record that is odd in some way.
type Policy uint8

// The policies. Pass is the default: in doubt a record passes and is counted.
const (
	Pass Policy = iota
	Drop
	Divert
	Fail
)

var policyNames = [...]string{"pass", "drop", "divert", "fail"}

// String is the name that [ParsePolicy] reads.
func (p Policy) String() string { return policyNames[p] }

// ParsePolicy reads "pass", "drop", "divert" or "fail".
func ParsePolicy(s string) (Policy, error) {
	for i, name := range policyNames {
		if s == name {
			return Policy(i), nil
		}
	}
	return 0, fmt.Errorf(`parse policy %q: want "pass", "drop", "divert" or "fail"`, s)
}

// DuplicatePolicy says what becomes of a duplicate.
type DuplicatePolicy uint8

const (
	// DropDuplicates keeps them from the output.
	DropDuplicates DuplicatePolicy = iota
	// DivertDuplicates sends them where diverted records go.
	DivertDuplicates
	// TagDuplicates lets them out like any other record, and says so in the outcome's
	// reason: it shows what would be dropped before anything is, and it switches the
	// dropping off without losing the memory.
	TagDuplicates
)

var duplicatePolicyNames = [...]string{"drop", "divert", "tag"}

// String is the name that [ParseDuplicatePolicy] reads.
func (p DuplicatePolicy) String() string { return duplicatePolicyNames[p] }

// ParseDuplicatePolicy reads "drop", "divert" or "tag".
func ParseDuplicatePolicy(s string) (DuplicatePolicy, error) {
	for i, name := range duplicatePolicyNames {
		if s == name {
			return DuplicatePolicy(i), nil
		}
	}
	return 0, fmt.Errorf(`parse duplicate policy %q: want "drop", "divert" or "tag"`, s)
}

// IDOptions say what key specs take for an ID, and how they read a value.
type IDOptions = keys.Options

// TimeNone as [Config.Time] makes the whole input one window: no record's time
// is looked at and nothing is ever forgotten.
const TimeNone = "none"

// Config says how records are judged. It is the same for every shard.
type Config struct {
	// Keys are the key specs, one for each part of the ID.
	Keys []string
	// IDs says what the specs take for an ID, and how they read a value.
	IDs IDOptions
	// Seed goes into every hash. All instances of a deployment use the same.
	Seed uint64
	// Time is where a record's time comes from: "record", "arrival", a key spec of
	// a field of the value, or [TimeNone]. TimeFormat says how a field is read.
	Time, TimeFormat string
	// Window is how long and how much a shard remembers. LearnLate and StopAtLate
	// follow from OnLate and are not set here.
	Window window.Config

	// OnMissing, OnInvalid and OnLate say what becomes of records without an ID,
	// of those malformed before it, and of those more than the window behind.
	OnMissing, OnInvalid, OnLate Policy
	// OnDuplicate says what becomes of duplicates.
	OnDuplicate DuplicatePolicy
	// Diverts says that there is an output for diverted records. Records too large
	// for the output go there; without it the partition stops before them.
	Diverts bool

	// ShowIDs lets a shard name an ID by its text, and not by its hash alone. An ID
	// may be personal data, which should not be in logs unasked.
	ShowIDs bool

	// Allow are the hashes of IDs of which one more copy is let through, although
	// the memory says that they were seen. What is let through is remembered, so of
	// several copies it is the next.
	Allow []filter.Hash

	// LogChanges makes a shard keep what it learns in a cycle, for a changelog.
	LogChanges bool

	// Scope says among which records the copies of an ID are. It is part of the
	// fingerprint: what a shard knows under one scope is not what it must know under
	// the other.
	Scope Scope

	// Kind names the filter, for the fingerprint: a state of one kind is no state
	// of the other.
	Kind string
	// NewSet makes the empty memory of one shard.
	NewSet func() (filter.Set, error)
}

// Validate reports every fault at once, each with the name of its field.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("pipeline.Config."+format, args...))
	}
	if _, err := keys.Parse(c.Keys, c.Seed, c.IDs); err != nil {
		fault("Keys: %w", err)
	}
	if c.Time != TimeNone {
		if _, err := keys.ParseClock(c.Time, c.TimeFormat, c.IDs.Table); err != nil {
			fault("Time: %w", err)
		}
	}
	if err := c.window().Validate(); err != nil {
		fault("Window: %w", err)
	}
	for _, p := range []struct {
		name   string
		policy Policy
	}{{"OnMissing", c.OnMissing}, {"OnInvalid", c.OnInvalid}, {"OnLate", c.OnLate}} {
		if p.policy > Fail {
			fault("%s is %d: want Pass, Drop, Divert or Fail", p.name, p.policy)
		} else if p.policy == Divert && !c.Diverts {
			fault("%s is divert: there is no output for diverted records", p.name)
		}
	}
	if c.OnDuplicate > TagDuplicates {
		fault("OnDuplicate is %d: want DropDuplicates, DivertDuplicates or TagDuplicates", c.OnDuplicate)
	} else if c.OnDuplicate == DivertDuplicates && !c.Diverts {
		fault("OnDuplicate is divert: there is no output for diverted records")
	}
	if c.NewSet == nil {
		fault("NewSet is nil: a shard needs a memory")
	}
	return errors.Join(faults...)
}

// window is the window's configuration with the policies worked in: what a
// policy keeps from the output must not teach.
func (c Config) window() window.Config {
	w := c.Window
	w.LearnLate = c.OnLate == Pass
	w.StopAtLate = c.OnLate == Fail
	return w
}

// Fingerprint is 16 hexadecimal digits for what decides which records are the
// same event and how they are remembered: key spec, seed, scope and filter kind,
// not the filter's size. State of another fingerprint is refused.
func (c Config) Fingerprint() (string, error) {
	extractor, err := keys.Parse(c.Keys, c.Seed, c.IDs)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("keys %s\nseed %d\nscope %s\nfilter %s\n", extractor, c.Seed, c.Scope, c.Kind)
	return fmt.Sprintf("%016x", xxhash.Sum64String(text)), nil
}
