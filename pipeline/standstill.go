package pipeline

import (
	"fmt"
	"time"
)

// Standstill is an assigned partition that goes no further although nothing has
// failed. A session may know of it, who sees what there is to read.
type Standstill struct {
	Partition Partition
	// Offset is where it stands, as committed.
	Offset int64
	// Lag is how many offsets there are to read.
	Lag int64
	// For is how long it has not moved.
	For time.Duration
	// OpenTransaction says why: one of another producer stands before all that is
	// written and not read. Without it there are records to read, and nobody knows.
	OpenTransaction bool
}

// String says it in a sentence.
func (s Standstill) String() string {
	if s.OpenTransaction {
		return fmt.Sprintf("partition %s waits at offset %d for a transaction of another producer, for %v: "+
			"`kafka-transactions.sh find-hanging` shows one that never ends", s.Partition, s.Offset, s.For.Round(time.Second))
	}
	return fmt.Sprintf("partition %s stands at offset %d with %d offsets to read, for %v: nothing was committed",
		s.Partition, s.Offset, s.Lag, s.For.Round(time.Second))
}
