package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamdedup/streamdedup/bench"
)

// resultOf is one of a point, told apart by its rate.
func resultOf(t *testing.T, p point, measured float64) result {
	t.Helper()
	x, err := p.said()
	if err != nil {
		t.Fatal(err)
	}
	x.Rate.Measured = measured
	return x
}

// Points that are measured in several runs, in any order, come to one report.
func TestEarlier(t *testing.T) {
	t.Parallel()
	now := bench.NewEnvironment("go run ./bench/sizecheck", 3)
	file := filepath.Join(t.TempDir(), "a.json")
	runs := [][]int{{4, 2}, {}, {2, 9, 0}, {1, 3, 5, 6, 7, 8}}
	last := map[string]float64{} // the rate of each point's last run
	for i, run := range runs {
		r, err := earlier(file, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range run {
			x := resultOf(t, points[n], float64(100*i+n))
			last[x.Name] = x.Rate.Measured
			r.put(x)
			if err := r.writeJSON(file); err != nil {
				t.Fatal(err)
			}
		}
		if missing := r.missing(); len(missing) != len(points)-len(last) {
			t.Fatalf("run %d: %v are missing", i, missing)
		}
	}
	r, err := earlier(file, now)
	if err != nil {
		t.Fatal(err)
	}
	if missing := r.missing(); len(missing) != 0 || len(r.Results) != len(points) {
		t.Fatalf("%d results, %v are missing", len(r.Results), missing)
	}
	for i, x := range r.Results {
		if x.Name != points[i].name || x.Rate.Measured != last[x.Name] {
			t.Errorf("result %d is %s with %g, want %s with %g", i, x.Name, x.Rate.Measured, points[i].name, last[points[i].name])
		}
	}
}

// What is not of this machine, this seed or a point as it is now is not taken for it.
func TestEarlier_Another(t *testing.T) {
	t.Parallel()
	now := bench.NewEnvironment("go run ./bench/sizecheck", 3)
	other, gone, old, less := now, resultOf(t, points[1], 1), resultOf(t, points[2], 1), resultOf(t, points[3], 1)
	other.Machine, gone.Name = "another, 64 CPUs", "2e6"
	old.Elements++
	less.ProcessBytes-- // by another calculator
	dir := t.TempDir()
	keep := func(e bench.Environment, results ...result) string {
		file := filepath.Join(dir, "a.json")
		r := report{Environment: e, Results: results}
		if err := r.writeJSON(file); err != nil {
			t.Fatal(err)
		}
		return file
	}
	if _, err := earlier(keep(other, resultOf(t, points[0], 1)), now); err == nil || !strings.Contains(err.Error(), "64 CPUs") {
		t.Errorf("another machine's: %v", err)
	}
	if _, err := earlier(keep(bench.NewEnvironment("", 4), resultOf(t, points[0], 1)), now); err == nil || !strings.Contains(err.Error(), "seed 4") {
		t.Errorf("another seed's: %v", err)
	}
	if r, err := earlier(keep(now, resultOf(t, points[0], 1), gone, old, less), now); err != nil || len(r.Results) != 1 || r.Results[0].Name != points[0].name {
		t.Errorf("with points that are no more: %+v, %v", r.Results, err)
	}
	file := keep(now)
	write(t, file, "no JSON")
	if _, err := earlier(file, now); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("no JSON: %v", err)
	}
	if r, err := earlier("", now); err != nil || len(r.missing()) != len(points) {
		t.Errorf("without a file: %v, %v", r, err)
	}
}
