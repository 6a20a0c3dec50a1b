//go:build ignore

// This program writes GEOMETRY.md: what the lines a key and the cells a line of a sliced
// filter cost. It takes some minutes and 4 GiB of memory on Linux.
package main

import (
	"log"
	"os"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/filter/internal/geometry"
	"github.com/streamdedup/streamdedup/filter/internal/simulate"
)

const (
	seed = 1
	// round is how many events are between two looks at the clock.
	round = 4096
	// cycle is how many are between two commits.
	cycle = 1 << 17

	hugePage = 2 << 20
)

func main() {
	runtime.LockOSThread() // the clock is that of the thread
	reference, err := newLines()
	if err != nil {
		log.Fatalf("map memory: %v", err)
	}
	table, err := geometry.Table(reference.measure)
	if err != nil {
		log.Fatalf("measure geometries: %v", err)
	}
	if err := os.WriteFile("GEOMETRY.md", []byte(table), 0o644); err != nil {
		log.Fatalf("write table: %v", err)
	}
}

func (reference lines) measure(r geometry.Row) (geometry.Measured, error) {
	var m geometry.Measured
	var err error
	if m.Rate, m.Deviation, err = (simulate.Row{Target: r.Target, Geometry: r.Params}).Measure(seed); err != nil {
		return m, err
	}
	p := r.Params
	p.Lines = geometry.Bytes / filter.LineBytes
	set, err := filter.NewSliced(p)
	if err != nil {
		return m, err
	}
	elements := p.Capacity(r.Target)
	set.Saturate(elements, seed)
	set.Rotate(1)
	var events, touches []time.Duration
	feed, at := newFeed(), uint64(seed)
	for done := uint64(0); done < elements/filter.Sealed; done += round {
		feed.next()
		began := threadTime()
		set.TestAndAdd(feed.hashes, feed.learn, round, feed.ages)
		if done%cycle == 0 {
			set.Seal()
			set.Commit()
		}
		events = append(events, threadTime()-began)
		if len(events)%64 != 0 {
			continue
		}
		for i := range 16 {
			began := threadTime()
			at = reference.touch(at)
			if i >= 4 { // by then the processor remembers the pages
				touches = append(touches, threadTime()-began)
			}
		}
	}
	line := middle(touches)
	m.NS = cleaned(events)
	m.Lines = m.NS / line
	log.Printf("%g, %d lines, %d cells: rate %.3g, %.1f ns, a random line %.1f ns", r.Target, p.LinesPerKey, p.CellsPerLine, m.Rate, m.NS, line)
	return m, set.Close()
}

// middle is the median, in nanoseconds for each of a round.
func middle(rounds []time.Duration) float64 {
	slices.Sort(rounds)
	return float64(rounds[len(rounds)/2]) / round
}

// cleaned is the mean of the medians of 64 stretches: what an event takes differs over
// a generation, as its first events find all lines to be cleaned, and a median rids
// each stretch of what else the machine did.
func cleaned(rounds []time.Duration) float64 {
	const stretches = 64
	var sum float64
	for i := range stretches {
		sum += middle(rounds[i*len(rounds)/stretches : (i+1)*len(rounds)/stretches])
	}
	return sum / stretches
}

// threadTime is the processor time of this thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		log.Fatalf("read the thread's clock: %v", err)
	}
	return time.Duration(t.Nano())
}

// feed makes rounds of hashes, nine new ones and a copy in turn.
type feed struct {
	hashes []filter.Hash
	learn  []bool
	ages   []uint8
	ids    *simulate.IDs
	old    [1 << 14]filter.Hash // to copy: no cache holds their lines any more
	copies int
}

func newFeed() *feed {
	f := &feed{hashes: make([]filter.Hash, round), learn: make([]bool, round), ages: make([]uint8, round), ids: simulate.NewIDs(seed << 40)}
	for i := range f.learn {
		f.learn[i] = true
	}
	return f
}

func (f *feed) next() {
	f.ids.Next(f.hashes)
	for i := 9; i < round; i += 10 {
		old := &f.old[f.copies%len(f.old)]
		f.hashes[i], *old = *old, f.hashes[i-9]
		f.copies++
	}
}

// lines are what random lines are measured in: memory like that of a filter.
type lines [][filter.LineBytes / 8]uint64

func newLines() (lines, error) {
	memory, err := unix.Mmap(-1, 0, geometry.Bytes+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	memory = memory[-uintptr(unsafe.Pointer(&memory[0]))&(hugePage-1):][:geometry.Bytes]
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	return unsafe.Slice((*[filter.LineBytes / 8]uint64)(unsafe.Pointer(&memory[0])), len(memory)/filter.LineBytes), nil
}

// touch reads, changes and writes a round of lines, in a plain loop.
func (l lines) touch(x uint64) uint64 {
	n := uint64(len(l))
	for range round {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		to := &l[x>>32*n>>32]
		to[x&7] ^= x
	}
	return x
}
