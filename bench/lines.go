package bench

import (
	"fmt"
	"time"
	"unsafe"
)

const (
	lineBytes = 64
	hugePage  = 2 << 20
	// The random lines are measured in rounds, whose median counts: long enough to
	// fill the second level of the TLB, short enough for an interrupt to spoil one only.
	lineRounds = 9
	lineRound  = 25 * time.Millisecond
	// linesStep is how many lines are touched between two looks at the clock.
	linesStep = 1 << 16
	// What the machine itself takes from a thread at times is watched for at most so long,
	// in steps that are about as long as a batch.
	watchFor  = 5 * time.Second
	watchStep = 1 << 12
)

// randomLines is what the machine can do at best: the time to read, change and
// write one line of 64 bytes at a random place of as much memory. It is a plain
// loop without prefetch; the processor overlaps as many steps as it can. The longest is
// that of watchStep lines, of all that were touched in the time to watch: much longer than
// those take, it is the machine's doing, and a shard's longest step may be, too. The
// rounds are nanoseconds a line.
func randomLines(bytes, seed uint64, watch time.Duration) (rounds []float64, longest time.Duration, err error) {
	memory, free, err := hugeMemory(int(bytes))
	if err != nil {
		return nil, 0, fmt.Errorf("measure random lines: %w", err)
	}
	lines := unsafe.Slice((*[lineBytes / 8]uint64)(unsafe.Pointer(unsafe.SliceData(memory))), len(memory)/lineBytes)
	rounds = make([]float64, lineRounds)
	for i := range rounds {
		touched := 0
		began := threadTime()
		for threadTime()-began < lineRound {
			seed = touchLines(lines, seed, linesStep)
			touched += linesStep
		}
		rounds[i] = float64((threadTime() - began).Nanoseconds()) / float64(touched)
	}
	began := threadTime()
	for last := began; last-began < watch; {
		seed = touchLines(lines, seed, watchStep)
		now := threadTime()
		longest, last = max(longest, now-last), now
	}
	return rounds, longest, free()
}

// touchLines touches so many of the lines. Its places come from an xorshift generator,
// which inlines to a handful of instructions.
func touchLines(lines [][lineBytes / 8]uint64, x uint64, steps int) uint64 {
	n := uint64(len(lines))
	for range steps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		l := &lines[x>>32*n>>32]
		l[x&7] ^= x
	}
	return x
}
