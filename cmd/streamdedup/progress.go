package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/streamdedup/streamdedup/internal/files"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
)

// How soon a progress line comes, and how often.
const (
	progressAfter = 2 * time.Second
	progressEvery = 250 * time.Millisecond
)

// progress is a status line that counts records.
type progress struct {
	status
	shownAt time.Time
}

// progress shows on stderr if that is a terminal and the output goes elsewhere:
// the two would mix. Elsewhere says that it does, whatever stdout is.
func (a *app) progress(elsewhere bool) *progress {
	stdout := a.stdout
	if w, ok := stdout.(stdoutWriter); ok {
		stdout = w.Writer
	}
	if !elsewhere && isTerminal(stdout) {
		return &progress{}
	}
	return &progress{status: *a.status()}
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

// filtered replaces the line with how far a filter is, if it is time to.
func (p *progress) filtered(f files.Progress) {
	if p.to == nil || time.Since(p.shownAt) < progressEvery {
		return
	}
	p.shownAt = time.Now()
	read := sizing.FormatBytes(uint64(f.Read))
	if f.Size > 0 {
		read = fmt.Sprintf("%d%% of %s", min(100*f.Read/f.Size, 100), sizing.FormatBytes(uint64(f.Size)))
	}
	c := f.Counts
	p.status.show("%s: %s in, %s out, %s/s", read, sizing.FormatCount(c.In), sizing.FormatCount(c.Fates[pipeline.Out]),
		sizing.FormatCount(uint64(float64(c.In)/time.Since(p.start).Seconds())))
}
