package pipeline

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/streamdedup/streamdedup/filter"
)

// BenchmarkCopyStep is what a step of a checkpoint takes from a worker, in processor
// time of its thread: the wall clock would count whoever else uses the machine.
func BenchmarkCopyStep(b *testing.B) {
	const size = 256 << 20
	rules := engineConfig().Rules
	rules.NewSet = func() (filter.Set, error) {
		return filter.NewSliced(filter.Params{Lines: size / filter.LineBytes, LinesPerKey: 4, CellsPerLine: 4})
	}
	shard, err := NewShard(rules, p0, false)
	if err != nil {
		b.Fatal(err)
	}
	defer shard.Close()
	teach(shard.set, size/filter.LineBytes)

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	buffers := make([][]byte, copyBuffers)
	for i := range buffers {
		buffers[i] = make([]byte, 0, copyStep)
	}
	var took []time.Duration
	b.SetBytes(copyStep)
	for step := uint64(0); b.Loop(); step++ {
		from := step * copyStep % size
		t := task{op: opCopy, shard: shard, buf: buffers[step%copyBuffers], from: from, to: from + copyStep}
		began := threadTime(b)
		err := t.do()
		took = append(took, threadTime(b)-began)
		if err != nil || len(t.buf) != copyStep {
			b.Fatalf("%d bytes, %v", len(t.buf), err)
		}
	}
	slices.Sort(took)
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	b.ReportMetric(micros(took[len(took)/2]), "cpu-µs/step-median")
	b.ReportMetric(micros(took[len(took)*99/100]), "cpu-µs/step-p99")
	b.ReportMetric(micros(took[len(took)-1]), "cpu-µs/step-max")
}

// teach adds n hashes, so that no page of a set is the system's page of zeros.
func teach(set filter.Set, n int) {
	rng := rand.New(rand.NewPCG(1, 2))
	hashes, learn, ages := make([]filter.Hash, 1024), make([]bool, 1024), make([]uint8, 1024)
	for i := range learn {
		learn[i] = true
	}
	for range n / len(hashes) {
		for i := range hashes {
			hashes[i] = filter.Hash(rng.Uint64())
		}
		set.TestAndAdd(hashes, learn, uint64(len(hashes)), ages)
		set.Seal()
		set.Commit()
	}
}

// threadTime is the processor time of the calling thread, the system's included. That
// of getrusage comes in ticks of milliseconds on some kernels.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}
