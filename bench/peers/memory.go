package peers

import (
	"fmt"
	"time"
)

// batch is how many records a peer in memory gets at once, about what a fetch from
// Kafka brings of a partition.
const batch = 1024

// A Judge says of the records from one index up to another whether they pass. It
// gets each record once, in order, and writes into passed, by index.
type Judge interface {
	Judge(s *Stream, from, to int, passed []bool) error
	// Settle ends what goes on in the background; its time counts.
	Settle() error
	// Bytes is what it remembers so many IDs in.
	Bytes() (uint64, error)
}

// MeasureJudge gives all of the stream to a judge that is part of this process.
func MeasureJudge(r Result, s *Stream, j Judge) (Result, error) {
	passed := make([]bool, s.Len())
	began, used := time.Now(), ownCPU()
	for from := 0; from < s.Len(); from += batch {
		if err := j.Judge(s, from, min(from+batch, s.Len()), passed); err != nil {
			return r, fmt.Errorf("%s: %w", r.Peer, err)
		}
	}
	if err := j.Settle(); err != nil {
		return r, fmt.Errorf("%s: %w", r.Peer, err)
	}
	r.What = InMemory
	r.measured(s.Len(), time.Since(began), ownCPU()-used)
	bytes, err := j.Bytes()
	if err != nil {
		return r, fmt.Errorf("%s: %w", r.Peer, err)
	}
	r.remembers(bytes, s.Distinct)
	return r, r.judged(verdictOf(s, passed))
}
