// Package bench measures streamdedup, each time beside references in the same
// run: what the machine can do at best, the textbook's filter, an exact map, a
// plain copy of the topic.
//
// Each benchmark is a Config, a Run function and a report that prints itself for
// people and marshals to JSON for programs. A report carries what it takes to
// run it again: machine, Go version, command and seed. The package has no state
// of its own; two runs at the same time disturb each other's figures only.
package bench
