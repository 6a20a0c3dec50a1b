package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
	"github.com/streamdedup/streamdedup/window"
)

const (
	defaultWindow = 24 * time.Hour
	defaultFPR    = 0.0001
	// defaultCapacity is what commands take that may guess: a topic's size, which
	// decides how many first copies false positives withhold, is not guessed.
	defaultCapacity = 10_000_000
)

// memorySettings say how much is remembered, and for how long.
type memorySettings struct {
	window   time.Duration
	fpr      float64
	capacity uint64
	rate     float64
	memory   uint64
	peak     float64
	skew     float64
	kind     sizing.Kind
	layout   filter.Layout
}

func defaultMemory() memorySettings {
	return memorySettings{
		window: defaultWindow,
		fpr:    defaultFPR,
		peak:   sizing.DefaultPeak,
		skew:   sizing.DefaultSkew,
		kind:   sizing.Sliced,
		layout: filter.Compact,
	}
}

// bind defines the flags; the defaults are what m holds.
func (m *memorySettings) bind(fs *pflag.FlagSet) {
	windowFlag.add(fs, &m.window, "window", "how long an ID is remembered, such as 24h, 7d or 1d12h")
	shareFlag.add(fs, &m.fpr, "fpr", "share of new records of the whole window that may be taken for seen")
	countFlag.add(fs, &m.capacity, "capacity", "new IDs in a window, such as 10M or 1e9 (also --elements)")
	rateFlag.add(fs, &m.rate, "rate", "or: new IDs a second, such as 50k or 1.5M")
	sizeFlag.add(fs, &m.memory, "memory", "or: what all filters together may take, such as 2GiB")
	factorFlag.add(fs, &m.peak, "peak", "how much fuller than average a generation may get before it is full")
	factorFlag.add(fs, &m.skew, "skew", "how much more than its share of the IDs a partition may get")
	kindFlag.add(fs, &m.kind, "filter", "what remembers the IDs: sliced or classic")
	layoutFlag.add(fs, &m.layout, "layout", "of the sliced filter: compact (less memory) or fast (fewer cache lines)")
}

// amounts are the flags of which one says how much is remembered.
var amounts = []string{"capacity", "rate", "memory"}

// plan calculates the filters for as many partitions.
func (m *memorySettings) plan(partitions int) (sizing.Plan, error) {
	if err := m.checkAmount(); err != nil {
		return sizing.Plan{}, err
	}
	return m.solve(m.workload(partitions))
}

// checkAmount refuses to guess how much is to be remembered, and to choose.
func (m *memorySettings) checkAmount() error {
	given := 0
	for _, set := range []bool{m.capacity != 0, m.rate != 0, m.memory != 0} {
		if set {
			given++
		}
	}
	switch given {
	case 0:
		return withHint(usagef("how many IDs are to be remembered? give --capacity, --rate or --memory"),
			"`streamdedup size --rate 50k --window 24h` calculates what a plan takes and prints the flags for it")
	case 1:
		return nil
	}
	return usagef("--capacity, --rate and --memory say the same in three ways: give one of them")
}

// workload is what the flags say of a topic of as many partitions. With --memory it has
// no number of IDs.
func (m *memorySettings) workload(partitions int) sizing.Workload {
	return sizing.Workload{
		Elements: m.capacity, Rate: m.rate,
		Window: m.window, FPR: m.fpr, Peak: m.peak, Skew: m.skew,
		Partitions: partitions, Kind: m.kind, Layout: m.layout,
	}
}

// solve plans a workload, or what of it fits into --memory.
func (m *memorySettings) solve(w sizing.Workload) (plan sizing.Plan, err error) {
	if m.memory != 0 {
		plan, err = sizing.ForMemory(w, m.memory)
	} else {
		plan, err = sizing.Solve(w)
	}
	switch {
	case err != nil && m.rate != 0:
		return sizing.Plan{}, withHint(&usageError{err}, "--rate is new IDs a second over all of --window, each planned for --peak and --skew times its share")
	case err != nil && m.memory != 0:
		return sizing.Plan{}, withHint(&usageError{err}, "--memory is for the filters of all partitions together")
	case err != nil:
		return sizing.Plan{}, &usageError{err}
	}
	return plan, nil
}

// amount is the flag that says how much is remembered.
func (m *memorySettings) amount() string {
	switch {
	case m.rate != 0:
		return "--rate"
	case m.memory != 0:
		return "--memory"
	}
	return "--capacity"
}

// judging says how records are judged: what run and filter share.
type judging struct {
	memorySettings
	idSettings
	time        string
	timeFormat  string
	maxAhead    time.Duration
	onMissing   pipeline.Policy
	onLate      pipeline.Policy
	onInvalid   pipeline.Policy
	onDuplicate pipeline.DuplicatePolicy
	refresh     bool
	onFull      fullPolicy
	limit       uint64 // of the filters that grow, 0 where it is not said
	seed        seed
	seedFile    string
	allowFile   string
	summary     string
}

func defaultJudging() judging {
	return judging{memorySettings: defaultMemory(), timeFormat: "auto", onFull: fullPolicy{OnFull: window.GrowWhenFull}, summary: summaryText}
}

// choices are what a command's help says that it can do.
type choices struct {
	times    string // instead of a field's key spec
	policies string
	seed     string // where none is given
}

// bind defines the flags; the defaults are what j holds.
func (j *judging) bind(fs *pflag.FlagSet, can choices) {
	j.idSettings.bind(fs)
	j.memorySettings.bind(fs)
	fs.StringVar(&j.time, "time", j.time, "where a record's time comes from: "+can.times+" or the key `SPEC` of a field")
	choiceFlag("FORMAT", "auto", "unix", "unix-ms", "unix-us", "unix-ns", "rfc3339").
		add(fs, &j.timeFormat, "time-format", "how a field is read as a time: unix, unix-ms, unix-us, unix-ns, rfc3339 or auto")
	durationFlag.add(fs, &j.maxAhead, "max-ahead", "times further ahead of the wall clock are not believed (default a seventh of the window, at most 5m)")
	policyFlag.add(fs, &j.onMissing, "on-missing", "records without an ID: "+can.policies)
	policyFlag.add(fs, &j.onLate, "on-late", "records more than the window behind: "+can.policies)
	policyFlag.add(fs, &j.onInvalid, "on-invalid", "records malformed before their ID: "+can.policies)
	duplicateFlag.add(fs, &j.onDuplicate, "on-duplicate", "records whose ID was seen within the window: drop, divert or tag (pass, marked)")
	fs.BoolVar(&j.refresh, "refresh", false, "remember an ID for a window from its last copy on, not from its first: one that is repeated all the time never passes again (default false)")
	onFullFlag.add(fs, &j.onFull, "on-full", "new IDs when a generation is full: grow (the filter, up to --memory-limit, then pass), pass (not remembered, counted) or fail; a classic filter passes")
	sizeFlag.add(fs, &j.limit, "memory-limit", "what all filters together may grow to, for 16 times the planned IDs at most (default twice what the plan takes)")
	seedFlag.add(fs, &j.seed, "hash-seed", "64-bit seed of the hash (default "+can.seed+")")
	fs.StringVar(&j.seedFile, "hash-seed-file", "", "`FILE` with the seed")
	fs.StringVar(&j.allowFile, "allow-id", "", "`FILE` with IDs, one a line, of which one more copy passes: for a first copy that was withheld")
	choiceFlag("FORMAT", summaryText, summaryJSON, summaryNone).
		add(fs, &j.summary, "summary", "what to print on stderr at the end: text, json or none")
}

// rules are how a shard of the plan judges.
func (j *judging) rules(p sizing.Plan, seed uint64, diverts bool) (pipeline.Config, error) {
	newSet, err := j.newSet(p)
	if err != nil {
		return pipeline.Config{}, err
	}
	c := pipeline.Config{
		Keys: j.keys, IDs: j.ids, Seed: seed,
		Time: j.time, TimeFormat: j.timeFormat,
		Window: window.Config{
			Span: j.window, MaxAhead: j.maxAhead,
			GenerationCapacity: p.GenerationCapacity, OnFull: j.whenFull(), Refresh: j.refresh,
		},
		OnMissing: j.onMissing, OnInvalid: j.onInvalid, OnLate: j.onLate, OnDuplicate: j.onDuplicate,
		Diverts: diverts,
		Kind:    j.kind.String(),
		NewSet:  newSet,
	}
	if err := c.Validate(); err != nil {
		return pipeline.Config{}, &usageError{inFlags{err}}
	}
	if j.allowFile != "" {
		if c.Allow, err = readAllowed(j.allowFile, j.keys, seed, j.ids); err != nil {
			return pipeline.Config{}, err
		}
	}
	return c, nil
}

// givenSeed is the seed that flags name, if they do.
func (j *judging) givenSeed() (seed, error) {
	switch {
	case j.seedFile == "":
		return j.seed, nil
	case j.seed.given:
		return seed{}, usagef("--hash-seed and --hash-seed-file both name a seed: give one of them")
	}
	text, err := readSecretFile("hash-seed-file", j.seedFile)
	if err != nil {
		return seed{}, err
	}
	s, err := parseSeed(text)
	if err != nil {
		return seed{}, usagef("--hash-seed-file %s: %w", j.seedFile, err)
	}
	return s, nil
}

// alias lets a flag be called by another name too.
func alias(fs *pflag.FlagSet, other, name string) {
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, n string) pflag.NormalizedName {
		if n == other {
			n = name
		}
		return pflag.NormalizedName(n)
	})
}
