package pipeline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/window"
)

// Change is what one cycle taught a shard. The changes of a partition, one after
// the other, are its memory: they are what the changelog keeps.
type Change struct {
	// Begin and Next are the offsets of the input before and after the cycle.
	Begin, Next int64
	// Acknowledged says that the change was written after the output and before the
	// offsets, not in one transaction with both: then a committed offset from Begin
	// up to Next means that the offsets were not written any more, and the output was.
	Acknowledged bool
	// Gap says that the changelog had lost its end when this change was written: what
	// the records between the change before and Begin taught is not in it, though they
	// were judged. Without it nobody judged them.
	Gap bool
	// State is the shard's at the end.
	State State
	// Learned is what was learned, in order. The shard owns the memory until the
	// cycle is settled.
	Learned []Learned
}

// Learned is a run of hashes that were learned in one generation.
type Learned struct {
	// Rotation is that of the generation, see [window.State].
	Rotation uint64
	// Until is the stream time at the end, [window.NoTime] while that was the wall
	// clock's.
	Until int64
	// Hashes are in the order of their records.
	Hashes []filter.Hash
}

// ChangeVersion is the format version of a changelog record.
//
// A change is one record or several; who writes them gives them a key that says which
// input they are about. A record is, with the numbers as in the binary form of a
// [State]:
//
//	1 byte   version
//	1 byte   flags: 1 last record of its change, 2 acknowledged, 4 gap
//	8 bytes  fingerprint, little-endian
//	uvarint  number of runs, and for each
//	uvarint    rotation
//	varint     until: stream time at its end, ms
//	uvarint    number of hashes
//	8 bytes    each hash, little-endian
//
// and, in the last record of a change only:
//
//	varint   begin, an offset of the input
//	uvarint  next, as its distance from begin
//	         the state, in its binary form without the fingerprint
const ChangeVersion = 1

const (
	flagLast         = 1 << 0
	flagAcknowledged = 1 << 1
	flagGap          = 1 << 2
	knownFlags       = flagLast | flagAcknowledged | flagGap
)

// maxHashes keeps a record below 512 KiB, the batch limit of a topic with default
// settings in mind.
const maxHashes = 65_000

// AppendRecords appends the change as the values of changelog records.
func (c *Change) AppendRecords(records [][]byte) [][]byte {
	left := c.Learned
	for {
		var now []Learned
		now, left = cutRuns(left)
		last := len(left) == 0
		records = append(records, c.record(now, last))
		if last {
			return records
		}
	}
}

// cutRuns takes runs of at most maxHashes off the front.
func cutRuns(runs []Learned) (now, left []Learned) {
	room := maxHashes
	for i, run := range runs {
		if len(run.Hashes) <= room {
			room -= len(run.Hashes)
			continue
		}
		now = append(now, runs[:i]...)
		rest := run
		rest.Hashes = run.Hashes[room:]
		run.Hashes = run.Hashes[:room]
		return append(now, run), append([]Learned{rest}, runs[i+1:]...)
	}
	return runs, nil
}

func (c *Change) record(runs []Learned, last bool) []byte {
	size := 300
	for _, run := range runs {
		size += 30 + 8*len(run.Hashes)
	}
	b := make([]byte, 0, size)
	var flags byte
	if last {
		flags |= flagLast
	}
	if c.Acknowledged {
		flags |= flagAcknowledged
	}
	if c.Gap {
		flags |= flagGap
	}
	b = append(b, ChangeVersion, flags)
	b = binary.LittleEndian.AppendUint64(b, c.State.print())
	b = binary.AppendUvarint(b, uint64(len(runs)))
	for _, run := range runs {
		b = binary.AppendUvarint(b, run.Rotation)
		b = binary.AppendVarint(b, run.Until)
		b = binary.AppendUvarint(b, uint64(len(run.Hashes)))
		for _, h := range run.Hashes {
			b = binary.LittleEndian.AppendUint64(b, uint64(h))
		}
	}
	if !last {
		return b
	}
	b = binary.AppendVarint(b, c.Begin)
	b = binary.AppendUvarint(b, uint64(c.Next-c.Begin))
	return c.State.appendRest(b)
}

// ParseRecord reads one record of a change. Only the last one has Begin, Next and
// State; of the others' states the fingerprint is known. It fails with
// [ErrForeignState] for a later format version.
func ParseRecord(b []byte) (c Change, last bool, err error) {
	if len(b) > 0 && b[0] > ChangeVersion {
		return c, false, fmt.Errorf("read changelog record: it has format version %d, this program reads up to %d: %w",
			b[0], ChangeVersion, ErrForeignState)
	}
	r := binaryReader{rest: b}
	version, flags := r.byte(), r.byte()
	if r.err == nil && (version == 0 || flags&^knownFlags != 0) {
		r.fail(fmt.Errorf("version %d with flags %#x is unknown", version, flags))
	}
	print := r.uint64()
	c.State.Fingerprint = fingerprintText(print)
	c.Acknowledged = flags&flagAcknowledged != 0
	c.Gap = flags&flagGap != 0
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		c.Learned = append(c.Learned, r.learned())
	}
	if last = flags&flagLast != 0; last {
		c.Begin = r.varint()
		c.Next = c.Begin + int64(r.uvarint())
		c.State = r.state(print)
	}
	if r.err == nil && len(r.rest) > 0 {
		r.fail(fmt.Errorf("%d bytes follow its end", len(r.rest)))
	}
	if r.err == nil && last && (c.Begin < 0 || c.Next < c.Begin) {
		r.fail(errors.New("its offsets are none"))
	}
	if r.err != nil {
		return Change{}, false, fmt.Errorf("read changelog record: %w", r.err)
	}
	return c, last, nil
}

func (r *binaryReader) learned() Learned {
	l := Learned{Rotation: r.uvarint(), Until: r.varint()}
	n := r.uvarint()
	if n > uint64(len(r.rest))/8 {
		r.fail(errCutOff)
		return l
	}
	l.Hashes = make([]filter.Hash, n)
	for i, b := 0, r.take(int(n)*8); i < len(l.Hashes); i, b = i+1, b[8:] {
		l.Hashes[i] = filter.Hash(binary.LittleEndian.Uint64(b))
	}
	return l
}

// changeLog is what a shard has learned since its last commit, cycle by cycle.
type changeLog struct {
	on     bool
	runs   []Learned   // of the open cycle
	sealed [][]Learned // of the cycles before it, the oldest first
	spare  [][]Learned // memory of cycles that are settled
}

// take notes what the window learned of a batch. It allocates nothing once it has
// had its largest size.
func (l *changeLog) take(b *window.Batch) {
	if !l.on {
		return
	}
	from := 0
	for _, run := range b.Runs {
		into := l.run(run)
		into.Hashes = appendLearned(into.Hashes, b.Hashes[from:run.To], b.Learn[from:run.To])
		from = run.To
	}
}

// appendLearned appends the hashes that were learned. Each is written and only those
// are kept, since a branch for each would be guessed wrong now and then.
func appendLearned(to, hashes []filter.Hash, learn []bool) []filter.Hash {
	n := len(to)
	to = slices.Grow(to, len(hashes))[:n+len(hashes)]
	learn = learn[:len(hashes)]
	for i, h := range hashes {
		to[n] = h
		if learn[i] {
			n++
		}
	}
	return to[:n]
}

// run is the last run, or a new one, for what is learned in this.
func (l *changeLog) run(run window.Run) *Learned {
	n := len(l.runs)
	if n == 0 || l.runs[n-1].Rotation != run.Rotation {
		if n < cap(l.runs) {
			l.runs = l.runs[:n+1] // brings the memory of an earlier run
		} else {
			l.runs = append(l.runs, Learned{})
		}
		l.runs[n].Rotation, l.runs[n].Hashes = run.Rotation, l.runs[n].Hashes[:0]
		n++
	}
	l.runs[n-1].Until = run.Until
	return &l.runs[n-1]
}

// live are the runs of the last sealed cycle, or of the open one where none is, that
// are not empty and not forgotten already.
func (l *changeLog) live(rotation uint64) []Learned {
	runs := l.runs
	if n := len(l.sealed); n > 0 {
		runs = l.sealed[n-1]
	}
	var live []Learned
	for _, run := range runs {
		if len(run.Hashes) > 0 && rotation-run.Rotation < filter.Generations {
			live = append(live, run)
		}
	}
	return live
}

// seal, commit and rollback are those of the window.
func (l *changeLog) seal() {
	l.sealed = append(l.sealed, l.runs)
	l.runs = nil
	if n := len(l.spare); n > 0 {
		l.runs, l.spare = l.spare[n-1], l.spare[:n-1]
	}
}

func (l *changeLog) commit() {
	l.spare = append(l.spare, l.sealed[0][:0])
	l.sealed = append(l.sealed[:0], l.sealed[1:]...)
}

func (l *changeLog) rollback() {
	for _, runs := range l.sealed {
		l.spare = append(l.spare, runs[:0])
	}
	l.runs, l.sealed = l.runs[:0], l.sealed[:0]
}
