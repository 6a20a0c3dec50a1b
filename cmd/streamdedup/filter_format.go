package main

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/streamdedup/streamdedup/internal/files"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
)

// The formats of an input.
const (
	formatAuto   = "auto"
	formatNDJSON = "ndjson"
	formatLines  = "lines"
	formatCSV    = "csv"
	formatTSV    = "tsv"
)

var inputFormats = []string{formatAuto, formatNDJSON, formatLines, formatCSV, formatTSV}

// formatOfSuffix is what the name of a file says.
var formatOfSuffix = map[string]string{
	".ndjson": formatNDJSON, ".jsonl": formatNDJSON, ".csv": formatCSV, ".tsv": formatTSV,
}

// check refuses what filter cannot do, before anything is read, and decides what
// is to be found out.
func (s *filterSettings) check(inputs []string) error {
	if err := s.decideFormat(inputs); err != nil {
		return err
	}
	s.ids.Table.Kind = map[string]keys.TableKind{formatCSV: keys.CSV, formatTSV: keys.TSV}[s.format]
	if err := s.idSettings.check(); err != nil {
		return err
	}
	for _, spec := range s.keys {
		if err := s.checkSpec("--key", spec); err != nil {
			return err
		}
	}
	if s.time == "record" {
		return withHint(usagef("--time record: a line has no time of its own"),
			"use json:NAME or column:NAME for a field of it, arrival, or none")
	}
	if err := s.checkSpec("--time", s.time); err != nil {
		return err
	}
	if s.header && s.format == formatNDJSON {
		return usagef("--header: ndjson has none: leave it out, or give --format")
	}
	if err := s.checkPolicies(); err != nil {
		return err
	}
	if s.header {
		return nil // the names of its columns are not known yet
	}
	return s.judging.check()
}

// decideFormat takes the format from a preset, else from the names of the files, else
// from the key and the time.
func (s *filterSettings) decideFormat(inputs []string) error {
	if s.format != formatAuto {
		return nil
	}
	if s.ids.Table.Kind != keys.NoTable {
		s.format = s.ids.Table.Kind.String()
		return nil
	}
	from := ""
	for _, name := range inputs {
		format, known := formatOfSuffix[suffix(name)]
		switch {
		case !known:
		case s.format == formatAuto:
			s.format, from = format, name
		case format != s.format:
			return withHint(usagef("%s is %s and %s is %s: the files of one stream have one format", from, s.format, name, format),
				"--format says which")
		}
	}
	if s.format != formatAuto {
		return nil
	}
	s.format, s.guessed = formatLines, true
	for _, spec := range append(slices.Clone(s.keys), s.time) {
		switch kindOfSpec(spec) {
		case "json":
			s.format = formatNDJSON
		case "column":
			s.format = formatCSV
		}
	}
	return nil
}

// suffix is that of a name, or the one before .gz or .zst.
func suffix(name string) string {
	ext := filepath.Ext(name)
	if files.Compressed(name) {
		ext = filepath.Ext(strings.TrimSuffix(name, ext))
	}
	return strings.ToLower(ext)
}

// kindOfSpec is the part of a key spec that says what it looks at.
func kindOfSpec(spec string) string {
	if spec == "sha256:json" {
		return "json"
	}
	kind, _, _ := strings.Cut(spec, ":")
	return kind
}

// checkSpec refuses a key or time spec for which the format has nothing. A column
// that is named is in a header.
func (s *filterSettings) checkSpec(flag, spec string) error {
	table := s.ids.Table.Kind != keys.NoTable
	switch kindOfSpec(spec) {
	case "key", "header":
		return withHint(usagef("%s %s: a line has a value only", flag, spec), "use value, or json:NAME for a field of it")
	case "json":
		if table {
			return withHint(usagef("%s %s: a row of %s has columns", flag, spec, s.format), "use column:NAME or column:NUMBER")
		}
		if s.format == formatLines {
			return usagef("%s %s: with --format lines the ID is the whole line: leave one of the two out", flag, spec)
		}
	case "column":
		if !table {
			return withHint(usagef("%s %s: %s has no columns", flag, spec, s.format), "--format csv or tsv has them")
		}
		if _, err := strconv.Atoi(strings.TrimPrefix(spec, "column:")); err != nil {
			s.header = true
		}
	}
	return nil
}

// checkTimeless refuses what does nothing where no line has a time.
func (s *filterSettings) checkTimeless() error {
	switch {
	case s.onLate != pipeline.Pass:
		return usagef("--on-late %s: without --time no line is late", s.onLate)
	case s.refresh:
		return usagef("--refresh: without --time no ID is forgotten")
	case s.timeFormat != "auto":
		return usagef("--time-format %s: without --time no line has a time", s.timeFormat)
	}
	return nil
}

// checkPolicies refuses to divert to nowhere, and what can never happen: who asks for
// it believes that it does.
func (s *filterSettings) checkPolicies() error {
	if s.time == pipeline.TimeNone {
		if err := s.checkTimeless(); err != nil {
			return withHint(err, "--time json:NAME or column:NAME says where the time of a line is")
		}
	}
	diverts := false
	for _, p := range []struct {
		flag    string
		diverts bool
	}{
		{"missing", s.onMissing == pipeline.Divert}, {"invalid", s.onInvalid == pipeline.Divert}, {"late", s.onLate == pipeline.Divert},
		{"duplicate", s.onDuplicate == pipeline.DivertDuplicates},
	} {
		if p.diverts && s.divert == "" {
			return withHint(usagef("--on-%s divert: it is not said where to", p.flag), "--divert FILE takes them")
		}
		diverts = diverts || p.diverts
	}
	switch {
	case s.divert != "" && !diverts:
		return withHint(usagef("--divert %s: no policy diverts", s.divert),
			"--on-missing, --on-invalid, --on-late or --on-duplicate divert sends lines there")
	case s.duplicates != "" && s.onDuplicate == pipeline.DivertDuplicates:
		return withHint(usagef("--duplicates %s: --on-duplicate divert sends all of them to --divert %s", s.duplicates, s.divert),
			"--duplicates is for those that --on-duplicate drop or tag is about")
	}
	return nil
}
