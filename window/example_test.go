package window_test

import (
	"fmt"
	"time"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/window"
)

// A window of an hour sees an ID, sees it again within the hour, and a third time
// when the stream has moved on by more than an hour and a generation.
func Example() {
	params, err := filter.Size(1_000_000, 1e-4, filter.Compact)
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := filter.NewSliced(params)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	w, err := window.New(window.Config{Span: time.Hour, GenerationCapacity: 1_000_000 / filter.Sealed, LearnLate: true}, set)
	if err != nil {
		fmt.Println(err)
		return
	}

	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const id = filter.Hash(0x9f86d081884c7d65) // the digest of the ID
	batch := window.Batch{
		Offsets: []int64{0, 1, 2},
		Times: []int64{
			noon.UnixMilli(),
			noon.Add(50 * time.Minute).UnixMilli(),
			noon.Add(70 * time.Minute).UnixMilli(),
		},
		Hashes: []filter.Hash{id, id, id},
		HasID:  []bool{true, true, true},
		Now:    noon.Add(2 * time.Hour).UnixMilli(),
		Learn:  make([]bool, 3),
		Ages:   make([]uint8, 3),
		Marks:  make([]window.Marks, 3),
	}
	w.Observe(&batch)
	for i, ages := range batch.Ages {
		if ages == 0 {
			fmt.Printf("record %d is new\n", i)
		} else {
			fmt.Printf("record %d repeats one read about %v before\n", i, w.AgeOf(ages).Round(time.Minute))
		}
	}

	// When the records are safely in the output, what they taught is final. Had
	// that failed, Rollback would take it back.
	w.Seal()
	w.Commit()
	// Output:
	// record 0 is new
	// record 1 repeats one read about 43m0s before
	// record 2 is new
}
