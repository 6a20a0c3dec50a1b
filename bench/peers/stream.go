package peers

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/internal/workload"
)

// Partitions of the stream: as many as Redis gets connections. Copies of an event
// lie in one partition, in order, so partitions can be judged side by side.
const Partitions = 8

// Window is how long copies must be caught. It is the stream's length as well, so
// that nobody has to forget anything for the right answer.
const Window = 24 * time.Hour

// copiesShare: one record in ten is a copy.
const copiesShare = 10

// start is fixed, so that equal seeds give equal bytes on every day.
var start = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// Workload is the stream that all peers get: clicks of about 230 bytes with a UUID
// as ID.
func Workload(events int, seed uint64) workload.Config {
	copies := events / copiesShare
	return workload.Config{
		Kind: workload.Clicks, Seed: seed, Events: events - copies, Copies: copies,
		Partitions: Partitions, Start: start, Span: Window, Window: Window,
	}
}

// Stream is a workload in memory, made before anything is measured. It has no
// pointers but its slices', so that a peer written in Go pays nothing for it in
// garbage collection.
type Stream struct {
	Distinct int // events without their copies

	values     []byte
	ends       []int // of each value
	times      []int64
	partitions []int32
	events     []uint32 // by number, from 0 in order of first appearance
}

// NewStream makes the stream of so many records.
func NewStream(records int, seed uint64) (*Stream, error) {
	w := Workload(records, seed)
	generator, err := workload.New(w)
	if err != nil {
		return nil, err
	}
	const valueBytes = 256 // a little more than most have
	s := &Stream{
		Distinct: w.Events,
		values:   make([]byte, 0, records*valueBytes),
		ends:     make([]int, 0, records), times: make([]int64, 0, records),
		partitions: make([]int32, 0, records), events: make([]uint32, 0, records),
	}
	for {
		r, ok := generator.Next()
		if !ok {
			return s, nil
		}
		s.values = append(s.values, r.Value...)
		s.ends = append(s.ends, len(s.values))
		s.times = append(s.times, r.Time)
		s.partitions = append(s.partitions, r.Partition)
		s.events = append(s.events, uint32(r.Event))
	}
}

// Len is the number of records.
func (s *Stream) Len() int { return len(s.ends) }

// Value is the JSON text of record i.
func (s *Stream) Value(i int) []byte {
	begin := 0
	if i > 0 {
		begin = s.ends[i-1]
	}
	return s.values[begin:s.ends[i]:s.ends[i]]
}

// Record is record i as streamdedup gets it.
func (s *Stream) Record(i int) keys.Record {
	return keys.Record{Value: s.Value(i), Time: s.times[i]}
}

// ID is the ID of record i, found where this workload has it. The peers that get it
// need not parse JSON, which is in their favour.
func (s *Stream) ID(i int) []byte { return idOf(s.Value(i)) }

var idMember = []byte(`"event_id":"`)

// idLength is that of a UUID.
const idLength = 36

func idOf(value []byte) []byte {
	at := bytes.Index(value, idMember)
	if at < 0 || len(value) < at+len(idMember)+idLength {
		return nil
	}
	return value[at+len(idMember):][:idLength]
}

// WriteLines writes the workload's values as lines.
func WriteLines(w io.Writer, records int, seed uint64) error {
	generator, err := workload.New(Workload(records, seed))
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<20)
	for {
		r, ok := generator.Next()
		if !ok {
			break
		}
		if _, err := out.Write(append(r.Value, '\n')); err != nil {
			return fmt.Errorf("write the input: %w", err)
		}
	}
	return out.Flush()
}

// Slot is which part of the stream, of a length, record i is in by its time.
func (s *Stream) Slot(i int, length time.Duration) byte {
	return byte(max(0, s.times[i]-start.UnixMilli()) / length.Milliseconds())
}
