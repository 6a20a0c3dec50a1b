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

// What a window learns is logged run by run. After a restart the log and the last
// state make the window again.
func ExampleRebuild() {
	cfg := window.Config{Span: time.Hour, GenerationCapacity: 1_000_000 / filter.Sealed, LearnLate: true}
	newSet := func() filter.Set {
		set, err := filter.NewSliced(filter.Params{Lines: 1 << 12, LinesPerKey: 4, CellsPerLine: 4})
		if err != nil {
			panic(err)
		}
		return set
	}
	first := newSet()
	w, err := window.New(cfg, first)
	if err != nil {
		panic(err)
	}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixMilli()
	at := func(offset, millis int64, hash filter.Hash) *window.Batch {
		return &window.Batch{
			Offsets: []int64{offset}, Times: []int64{millis}, Hashes: []filter.Hash{hash}, HasID: []bool{true},
			Now: noon + time.Hour.Milliseconds(), Learn: make([]bool, 1), Ages: make([]uint8, 1), Marks: make([]window.Marks, 1),
		}
	}

	type entry struct {
		run    window.Run
		hashes []filter.Hash
	}
	var log []entry
	for i, hash := range []filter.Hash{7, 8, 9} {
		b := at(int64(i), noon+int64(i)*20*time.Minute.Milliseconds(), hash)
		w.Observe(b)
		from := 0
		for _, run := range b.Runs {
			e := entry{run: run}
			for k := from; k < run.To; k++ {
				if b.Learn[k] {
					e.hashes = append(e.hashes, b.Hashes[k])
				}
			}
			log, from = append(log, e), run.To
		}
	}
	w.Seal()
	w.Commit()
	state := w.State()
	if err := first.Close(); err != nil {
		panic(err)
	}

	again := newSet()
	defer again.Close()
	r, err := window.Rebuild(cfg, again, state)
	if err != nil {
		panic(err)
	}
	for _, e := range log {
		r.LearnRun(e.run, e.hashes)
	}
	w = r.Done(r.From()) // the log reaches back to the oldest generation
	for _, hash := range []filter.Hash{8, 10} {
		b := at(3, noon+41*time.Minute.Milliseconds(), hash)
		w.Observe(b)
		fmt.Printf("hash %d is known: %v\n", hash, b.Ages[0] != 0)
	}
	fmt.Println("coverage", w.Coverage())
	// Output:
	// hash 8 is known: true
	// hash 10 is known: false
	// coverage 1
}
