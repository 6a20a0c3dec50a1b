package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
)

// How soon a progress line comes, and how often.
const (
	progressAfter = 2 * time.Second
	progressEvery = 250 * time.Millisecond
)

// progress is a line on a terminal that says how far a long command is. Its zero
// value shows nothing.
type progress struct {
	to    io.Writer
	start time.Time
	shown time.Time
}

// progress shows on stderr if that is a terminal and the output goes elsewhere:
// the two would mix.
func (a *app) progress() *progress {
	stdout := a.stdout
	if w, ok := stdout.(stdoutWriter); ok {
		stdout = w.Writer
	}
	if !isTerminal(a.stderr) || isTerminal(stdout) {
		return &progress{}
	}
	return &progress{to: a.stderr, start: time.Now()}
}

// isTerminal also takes other character devices for one, such as /dev/null, where
// it does no harm.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// show replaces the line, if it is time to.
func (p *progress) show(c *pipeline.Counts) {
	if p.to == nil {
		return
	}
	now := time.Now()
	took := now.Sub(p.start)
	if took < progressAfter || now.Sub(p.shown) < progressEvery {
		return
	}
	p.shown = now
	fmt.Fprintf(p.to, "\r%s in, %s out, %s/s\x1b[K", sizing.FormatCount(c.In), sizing.FormatCount(c.Fates[pipeline.Out]),
		sizing.FormatCount(uint64(float64(c.In)/took.Seconds())))
}

// clear takes the line away.
func (p *progress) clear() {
	if !p.shown.IsZero() {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}
