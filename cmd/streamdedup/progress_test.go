package main

import (
	"strings"
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/internal/files"
	"github.com/streamdedup/streamdedup/pipeline"
)

// How far a filter is, is a share where the size of the input is known.
func TestProgressOfAFilter(t *testing.T) {
	f := func(read, size int64, want string) {
		t.Helper()
		var line strings.Builder
		p := &progress{status: status{to: &line, start: time.Now().Add(-time.Hour)}}
		counts := &pipeline.Counts{In: 7200}
		counts.Fates[pipeline.Out] = 7100
		p.filtered(files.Progress{Counts: counts, Read: read, Size: size})
		if !strings.Contains(line.String(), want) {
			t.Errorf("%d of %d: %q, want %q", read, size, line.String(), want)
		}
		line.Reset()
		p.filtered(files.Progress{Counts: counts, Read: read, Size: size})
		if line.Len() > 0 {
			t.Errorf("a second line at once: %q", line.String())
		}
	}
	f(500, 2000, "25% of 2.00 kB")
	f(3000, 2000, "100% of 2.00 kB")
	f(500, 0, "500 bytes: 7,200 in, 7,100 out, ")
}
