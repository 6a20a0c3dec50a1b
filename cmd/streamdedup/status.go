package main

import (
	"fmt"
	"io"
	"time"
)

// status is a line on a terminal that says what a long command does right now.
// Its zero value shows nothing.
type status struct {
	to    io.Writer
	start time.Time
	shown bool
}

// status shows on stderr, if that is a terminal.
func (a *app) status() *status {
	if !isTerminal(a.stderr) {
		return &status{}
	}
	return &status{to: a.stderr, start: time.Now()}
}

// show replaces the line.
func (s *status) show(format string, args ...any) {
	if s.to == nil || time.Since(s.start) < progressAfter {
		return
	}
	s.shown = true
	fmt.Fprintf(s.to, "\r%s\x1b[K", fmt.Sprintf(format, args...))
}

// clear takes the line away.
func (s *status) clear() {
	if s.shown {
		fmt.Fprint(s.to, "\r\x1b[K")
	}
}
