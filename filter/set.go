package filter

// Hash is the 64-bit digest of an ID. It is its own type so that a raw integer
// cannot be passed for it by accident: everything below assumes well-mixed bits.
type Hash uint64

const (
	// Generations is how many slices of stream time a [Set] tells apart.
	Generations = 8
	// Sealed is how many of them are complete; one more is filling.
	Sealed = Generations - 1

	// fillingAge and allAges are masks of the ages that make a hash known, and so
	// not to be added, to Learn and to TestAndAdd.
	fillingAge uint8 = 1
	allAges    uint8 = 1<<Generations - 1
)

// Set remembers hashes by generation and can undo what it learned.
//
// Ages: a mask of ages has bit a set when the generation that was filling a
// rotations ago holds the hash; bit 0 is the generation filling now.
//
// Undo: everything that changes a Set is journaled. Seal ends a section of the
// journal, Commit forgets the oldest sealed section, and Rollback undoes all
// that is not committed, sealed or not, strictly backwards, so that the state
// equals, byte for byte, what it was after the last committed section.
//
// A Set has one owner: no method may run concurrently with another.
type Set interface {
	// TestAndAdd looks the hashes up in order. ages[i] is the mask of ages that
	// held hashes[i] at that moment, zero when nothing did. A hash that nothing
	// held is added to the filling generation when learn[i] is true and fewer
	// than room were added by this call. A repeat within hashes sees the first.
	// It returns how many were added. The three slices have equal length.
	TestAndAdd(hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64)
	// Learn is TestAndAdd for a Set that is made again from what it once learned:
	// it adds a hash that the filling generation does not hold (bit 0 of its ages),
	// whatever older generations hold. So a generation has every hash that it is
	// given, and several may have the same one. All else is as in TestAndAdd.
	Learn(hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64)
	// Test is the mask of ages that hold h; it changes nothing.
	Test(h Hash) uint8
	// Rotate makes n new generations, each empty, the last of them filling; a
	// gap of Generations or more counts as Generations. The oldest are forgotten.
	Rotate(n int)
	// Sweep does a small step of the cleaning that rotations owe, for idle times.
	// TestAndAdd and Learn do their own steps.
	Sweep()
	// Seal ends the journal's current section.
	Seal()
	// Commit forgets the oldest sealed section. Without one it panics.
	Commit()
	// Rollback undoes everything since the last committed section.
	Rollback()
	// JournalBytes is the size of what Rollback would need now.
	JournalBytes() uint64
	// Bytes is the memory of the filter itself, exactly, without its journal.
	Bytes() uint64
	// AppendState appends the whole state (not the journal) in a fixed byte
	// order: equal states give equal bytes on every platform.
	AppendState(b []byte) []byte
	// Close gives the memory back. The Set must not be used afterwards.
	Close() error
}
