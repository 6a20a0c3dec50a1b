package bench

import (
	"fmt"
	"slices"
	"strings"
)

// Workload is a kind of stream to measure the engine by.
type Workload uint8

const (
	// Duplicates: one record in ten is a copy of an earlier one.
	Duplicates Workload = iota
	// Unique: every ID is new.
	Unique
	// Hot: every second record has the same ID, the others are new.
	Hot
	// Disorder: as Duplicates, with times scattered over the length of a generation.
	Disorder
)

var workloadNames = [...]string{"duplicates", "unique", "hot", "disorder"}

// Workloads are all of them.
func Workloads() []Workload { return []Workload{Duplicates, Unique, Hot, Disorder} }

// String is the name that [ParseWorkload] reads.
func (w Workload) String() string { return workloadNames[w] }

// ParseWorkload reads a name of a workload.
func ParseWorkload(s string) (Workload, error) {
	if i := slices.Index(workloadNames[:], s); i >= 0 {
		return Workload(i), nil
	}
	return 0, fmt.Errorf("parse workload %q: want one of %s", s, strings.Join(workloadNames[:], ", "))
}

const (
	// copyEvery record is a copy of an earlier one.
	copyEvery = 10
	// hotEvery record has the hot ID.
	hotEvery = 2
	// hotID is its number. New IDs never get there.
	hotID = 1 << 60
)

// repeats says that the i-th record of a batch repeats an ID.
func (w Workload) repeats(i int) bool {
	switch w {
	case Unique:
		return false
	case Hot:
		return i%hotEvery == hotEvery-1
	}
	return i%copyEvery == copyEvery-1
}
