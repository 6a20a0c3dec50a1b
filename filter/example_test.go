package filter_test

import (
	"fmt"
	"log"

	"github.com/streamdedup/streamdedup/filter"
)

// A window of a million IDs that takes at most one new ID in a thousand for a
// repeat. Whoever owns it rotates it whenever a seventh of the window has gone by.
func Example() {
	params, err := filter.Size(1_000_000, 1e-3, filter.Compact)
	if err != nil {
		log.Fatal(err)
	}
	set, err := filter.NewSliced(params)
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()

	// In a program these are digests of IDs, from a hash such as xxhash.
	hashes := []filter.Hash{0x9ae16a3b2f90404f, 0xc3a5c85c97cb3127, 0x9ae16a3b2f90404f}
	learn := []bool{true, true, true}
	ages := make([]uint8, len(hashes))

	added := set.TestAndAdd(hashes, learn, 1000, ages)
	fmt.Println("added:", added, "ages:", ages)

	set.Rotate(2)
	fmt.Printf("two rotations later: %03b\n", set.Test(hashes[0]))

	set.Rotate(6)
	fmt.Printf("eight rotations later: %03b\n", set.Test(hashes[0]))
	// Output:
	// added: 2 ages: [0 0 1]
	// two rotations later: 100
	// eight rotations later: 000
}

// What a failed delivery taught the set is undone, so that the records' next
// reading is not taken for a repeat.
func ExampleSliced_Rollback() {
	set, err := filter.NewSliced(filter.Params{Lines: 1 << 10, LinesPerKey: 3, CellsPerLine: 3})
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	add := func(h filter.Hash) {
		set.TestAndAdd([]filter.Hash{h}, []bool{true}, 1, make([]uint8, 1))
	}

	add(0x9ae16a3b2f90404f)
	set.Seal()   // asked for the commit of what came so far ...
	set.Commit() // ... and it was confirmed

	add(0xc3a5c85c97cb3127)
	set.Rollback() // this delivery was aborted

	fmt.Println(set.Test(0x9ae16a3b2f90404f) != 0, set.Test(0xc3a5c85c97cb3127) != 0)
	// Output: true false
}

// An input that is one window as a whole takes little more than a textbook filter.
func ExampleNewSingle() {
	p, err := filter.SingleSize(1_000_000, 0.01)
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := filter.NewSingle(p)
	if err != nil {
		fmt.Println(err)
		return
	}
	hashes, learn, ages := []filter.Hash{7, 8, 7}, []bool{true, true, true}, make([]uint8, 3)
	added := set.TestAndAdd(hashes, learn, 1_000_000, ages)
	fmt.Printf("%.1f bits an ID, %d added, the third was seen: %v\n", float64(p.Bytes())*8/1_000_000, added, ages[2] != 0)
	if err := set.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 9.7 bits an ID, 2 added, the third was seen: true
}
