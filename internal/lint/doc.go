// Package lint holds the house rules that a test can check: which package may
// import which, what the core must not contain, how long a file may be, what a
// text must not say, and that documents name things that exist.
//
// It has tests only. Each rule is a function that returns what it found, and
// has a test of its own that shows it bite.
package lint
