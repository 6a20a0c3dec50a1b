//go:build !race

// The race detector takes memory of its own for each byte of the program's.

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
)

// highWater is the most memory that a process has had, in bytes.
func highWater(t *testing.T, p *piped) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(line, ":"); name == "VmHWM" {
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no VmHWM in %q, %v", status, err)
	return 0
}

// A filter has the memory of its plan, its own of some tens of megabytes, and for
// long lines a few times the longest.
func TestFilterHasTheMemoryOfItsPlan(t *testing.T) {
	const own = 48 << 20
	f := func(name, capacity string, more int, lines func(w io.Writer)) {
		t.Helper()
		p := pipe(t, "--capacity", capacity, "--fpr", "0.01", "--summary", "json")
		go func() {
			w := bufio.NewWriter(p.in)
			lines(w)
			_, _ = w.WriteString("last\n")
			_ = w.Flush() // else the other end misses the last line
		}()
		for last := false; !last; {
			line, err := p.out.ReadSlice('\n')
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				t.Fatalf("%s: %v; stderr:\n%s", name, err, p.stderr.String())
			}
			last = string(line) == "last\n"
		}
		had := highWater(t, p)
		if err := errors.Join(p.in.Close(), p.Wait()); err != nil {
			t.Fatalf("%s: %v; stderr:\n%s", name, err, p.stderr.String())
		}
		var sum summary
		if err := json.Unmarshal(p.stderr.Bytes(), &sum); err != nil {
			t.Fatalf("%s: %v: %s", name, err, p.stderr.String())
		}
		plan := int(sum.MemoryBytes)
		if had > plan+own+more {
			t.Errorf("%s: %d MB of memory, want %d for the plan, at most %d, and %d for long lines", name, had>>20, plan>>20, own>>20, more>>20)
		}
		t.Logf("%s: %d MB of memory, %d of them the plan", name, had>>20, plan>>20)
	}
	f("short lines", "100M", 0, func(w io.Writer) {
		for i := range 300_000 {
			fmt.Fprintf(w, "%d is a line\n", i)
		}
	})
	const long = 16 << 20
	f("long lines", "1M", 5*long, func(w io.Writer) {
		pad := strings.Repeat("x", long)
		for i := range 12 {
			fmt.Fprintf(w, "%d%s\n", i, pad)
			for j := range 5000 {
				fmt.Fprintf(w, "%d and %d\n", i, j)
			}
		}
	})
}
