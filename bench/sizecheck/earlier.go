package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/streamdedup/streamdedup/bench"
)

// earlier is a report of now that has the results that a file has of runs before: of the
// same machine and seed, since the table names one of each, and of points as they are.
func earlier(file string, now bench.Environment) (report, error) {
	r := report{Environment: now}
	if file == "" {
		return r, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read the results of earlier points: %w", err)
	}
	var before report
	if err := json.Unmarshal(text, &before); err != nil {
		return r, fmt.Errorf("read the results of earlier points from %s: %w", file, err)
	}
	if was := before.Environment; was.Machine != now.Machine || was.Go != now.Go || was.Seed != now.Seed {
		return r, fmt.Errorf("%s has results of %s, %s, seed %d, and these are of %s, %s, seed %d: give another --json",
			file, was.Machine, was.Go, was.Seed, now.Machine, now.Go, now.Seed)
	}
	for _, x := range before.Results {
		if i := place(x.Name); i >= 0 && points[i].asks(x) {
			r.put(x)
		}
	}
	return r, nil
}

// place is where a point stands among all, or -1.
func place(name string) int {
	return slices.IndexFunc(points, func(p point) bool { return p.name == name })
}

// asks is whether a result is of this point, and not of what had its name, or was
// calculated otherwise.
func (p point) asks(x result) bool {
	said, err := p.said()
	return err == nil && x.Name == said.Name && x.Elements == said.Elements && x.FPR == said.FPR && x.Layout == said.Layout &&
		x.Partitions == said.Partitions && (p.textbook || x.Bytes == said.Bytes) && x.ProcessBytes == said.ProcessBytes
}

// put takes a result in, in the order of the points; a newer one replaces an older.
func (r *report) put(x result) {
	i, found := slices.BinarySearchFunc(r.Results, x, func(a, b result) int { return place(a.Name) - place(b.Name) })
	if found {
		r.Results[i] = x
		return
	}
	r.Results = slices.Insert(r.Results, i, x)
}

// missing are the points without a result.
func (r *report) missing() (names []string) {
	for _, p := range points {
		if !slices.ContainsFunc(r.Results, p.asks) {
			names = append(names, p.name)
		}
	}
	return names
}

func (r *report) writeJSON(file string) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
