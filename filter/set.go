package filter

import (
	"fmt"
	"io"
)

// Hash is the 64-bit digest of an ID. It is its own type so that a raw integer
// cannot be passed for it by accident: everything below assumes well-mixed bits.
type Hash uint64

const (
	// Generations is how many slices of stream time a [Set] tells apart.
	Generations = 8
	// Sealed is how many of them are complete; one more is filling.
	Sealed = Generations - 1

	// allAges is the mask of all of them.
	allAges uint8 = 1<<Generations - 1
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
	// Learn is TestAndAdd for a Set that is made again from what it once learned, and,
	// at age 0, for a window that a repeat extends: it adds a hash to the generation of
	// the given age, 0 for the filling one, if that generation does not hold it (bit age
	// of its ages), whatever others hold. So a generation has every hash that it is
	// given, in whatever order the generations come, and several may have the same one.
	// All else is as in TestAndAdd. An age below 0 or from Generations on is a bug of
	// the caller.
	Learn(age int, hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64)
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
	// FPREstimate is the false-positive rate now, estimated from the bits that are set in
	// a few thousand of the lines: what a look-up of a new hash meets, whatever led to it.
	// It takes some tenths of a millisecond, allocates nothing, and is always the same
	// for the same state.
	FPREstimate() float64
	// JournalBytes is the size of what Rollback would need now.
	JournalBytes() uint64
	// Bytes is the memory of the filter itself, exactly, without its journal.
	Bytes() uint64
	// AppendState appends the whole state (not the journal) in a fixed byte
	// order: equal states give equal bytes on every platform. It is what AppendHead
	// appends, then the whole body.
	AppendState(b []byte) []byte
	// Geometry is the kind and the parameters in words. Of two Sets with equal
	// geometries the one can Load what the other appended; with different ones a
	// hash would lie elsewhere, so that all would seem forgotten.
	Geometry() string
	// BodyBytes is the length of the body, which is all that grows with the size of
	// the Set. It is a multiple of BodyUnit.
	BodyBytes() uint64
	// AppendBody appends the bytes from (included) to to (excluded) of the body,
	// both multiples of BodyUnit.
	AppendBody(b []byte, from, to uint64) []byte
	// AppendHead appends the rest of the state, which is small.
	AppendHead(b []byte) []byte
	// Load makes the Set what AppendHead and AppendBody saw, whatever it held, and
	// that the state that Rollback goes back to. It reads body to its end, which
	// must come after BodyBytes bytes: io.ErrUnexpectedEOF says that it came too
	// soon. It checks what a Set relies on, which is not what a hash in it relies
	// on: whether the bytes are those that were stored is for the caller to know.
	// After an error the Set is of no use but to be closed.
	//
	// A body may be copied piece by piece while the Set goes on. Then it is loaded
	// with the head that was appended after the last piece, and for each byte the
	// Set holds what it held when that byte was copied, or some of it and later
	// hashes, aged by the rotations since. So it holds all that had been learned
	// before the first piece and is not forgotten yet. What came later is to be
	// learned again. No more than BodySpan rotations may lie between the first
	// piece and the head, and nothing that a piece has seen may be rolled back.
	Load(head []byte, body io.Reader) error
	// BodySpan is how many rotations may happen while a body is copied.
	BodySpan() uint64
	// Close gives the memory back. The Set must not be used afterwards.
	Close() error
}

// checkArrays panics unless the arrays that go with hashes have their length.
func checkArrays(hashes []Hash, learn []bool, ages []uint8) {
	if len(learn) != len(hashes) || len(ages) != len(hashes) {
		panic("BUG: filter: slices of different lengths")
	}
}

// checkAge panics unless a generation of the given age is remembered.
func checkAge(age int) {
	if age < 0 || age >= Generations {
		panic(fmt.Sprintf("BUG: filter: no generation has age %d", age))
	}
}
