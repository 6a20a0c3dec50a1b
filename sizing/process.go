package sizing

import (
	"math"
	"time"

	"github.com/streamdedup/streamdedup/filter"
)

// IO is what passes through one process. A zero field stands for run's default.
type IO struct {
	// Partitions are those that the process holds of the plan's; 0 is all of them.
	Partitions int
	// RecordsPerSecond is the most that it reads, duplicates included; 0 is as fast as
	// one process is while it catches up.
	RecordsPerSecond float64
	// RecordBytes are key, value and headers of an average record; 0 is DefaultRecordBytes.
	RecordBytes int
	// CommitInterval is the time between two commits; 0 is 200 ms.
	CommitInterval time.Duration
	// Shares says that the process first shares its input out by IDs (--scope topic): each
	// record then goes through Kafka twice, and through this process.
	Shares bool
}

// DefaultRecordBytes is a record where nobody said how large they are: a click with an
// ID, a time and some members more, in JSON.
const DefaultRecordBytes = 230

// Process is the memory of one process that runs a plan: what it takes at its peak,
// while it catches up.
type Process struct {
	Filters  uint64 `json:"filters"`  // of its partitions, as allocated, outside of Go's heap
	Journals uint64 `json:"journals"` // undo of the open cycle, on Go's heap
	Kafka    uint64 `json:"kafka"`    // what was read and what is written, on Go's heap
	Heap     uint64 `json:"heap"`     // the rest of what lives: code, stacks, tables, samples
	Garbage  uint64 `json:"garbage"`  // what lies on Go's heap until it is collected
}

// Bytes is the peak of the whole process.
func (p Process) Bytes() uint64 { return p.Filters + p.live() + p.Garbage }

// live is all but the filters that is in use at once.
func (p Process) live() uint64 { return p.Journals + p.Kafka + p.Heap }

// GoLimit is what makes the peak true: the soft limit of Go's memory (GOMEMLIMIT) that
// leaves room for the filters, which Go does not see, and for the program itself. A
// process that catches up comes near it, however its garbage is collected.
func (p Process) GoLimit() uint64 { return p.Bytes() - p.Filters - codeBytes }

const (
	// catchingUp is what one process reads a second while there is more to read.
	catchingUp = 1e6
	// cycleRecords and cycleBytes are the most that a cycle holds before it commits
	// early, and aheadBytes what is read of the next one meanwhile; package pipeline
	// has the same.
	cycleRecords, cycleBytes, aheadBytes = 1 << 20, 128 << 20, 32 << 20
	// recordOverhead is what a record takes besides its own bytes, from the client's
	// record to its outcome.
	recordOverhead = 320
	// minJournal is what a cycle may always journal, however small the filters.
	minJournal = 8 << 20
	// fetched is what lies in answers of the brokers, and written what the client keeps
	// of records on their way to the output.
	fetched, written = 32 << 20, 16 << 20
	// codeBytes is what of the program itself is resident, and counted by nobody in Go.
	codeBytes = 14 << 20
	// baseHeap is a process with nothing to do: code, runtime, connections, metrics.
	baseHeap = 32 << 20
	// partitionHeap is what a partition takes besides its filter, however large that is:
	// the window's shape, buffers of the changelog and of a checkpoint.
	partitionHeap = 256 << 10
	// An ID of sampledOf is in the audit's sample, which takes sampledBytes for each of
	// them; package pipeline has the same.
	sampledOf, sampledBytes = 1024, 32
)

// Process is the memory of a process that runs the plan with so much passing through.
// The plan's journal is a bound; a cycle of few records does not come near it.
func (p Plan) Process(io IO) Process {
	if io.Partitions == 0 {
		io.Partitions = p.Workload.Partitions
	}
	if io.RecordsPerSecond == 0 {
		io.RecordsPerSecond = catchingUp
	}
	if io.RecordBytes == 0 {
		io.RecordBytes = DefaultRecordBytes
	}
	if io.CommitInterval == 0 {
		io.CommitInterval = 200 * time.Millisecond
	}
	held := uint64(io.Partitions)
	records := math.Min(io.RecordsPerSecond*io.CommitInterval.Seconds(), cycleRecords)
	record := float64(io.RecordBytes + recordOverhead)
	cycle := math.Min(records*record, cycleBytes)
	ahead := math.Min(cycle, aheadBytes)
	journal := (cycle + ahead) / record * float64(p.journalBytesAnID())
	all := Process{
		Filters:  held * p.BytesPerPartition,
		Journals: min(held*max(p.JournalBytesPerPartition, minJournal), uint64(journal)),
		Kafka:    fetched + written + uint64(cycle+ahead),
		Heap:     baseHeap + held*(partitionHeap+p.sampleBytes()),
	}
	if io.Shares {
		all.Kafka *= 2
	}
	// The collector runs when the heap has grown to twice what lives: less memory would
	// make it run more often than a copy of the records can afford.
	all.Garbage = all.live() - codeBytes
	return all
}

// sampleBytes is the audit's sample of one partition whose generations are all full.
func (p Plan) sampleBytes() uint64 {
	ids := p.GenerationCapacity
	if p.Workload.Kind != Single {
		ids *= filter.Generations
	}
	return ids / sampledOf * sampledBytes
}

// journalBytesAnID is the most that undoing one new ID takes: the old bytes of each of
// its lines, which right after a rotation are all cleaned, and the bits that it set.
func (p Plan) journalBytesAnID() uint64 {
	const word = 8
	switch p.Workload.Kind {
	case Sliced:
		return uint64(p.Sliced.LinesPerKey)*(filter.LineBytes+word) + 2*word
	case Single:
		return 2 * word
	}
	return uint64(p.Classic.Hashes) * word
}
