package filter

import "testing"

// A burst of changes, as after a rotation, does not hold its memory for ever; needs
// that swing allocate nothing.
func TestJournalGivesBackWhatABurstTook(t *testing.T) {
	t.Parallel()
	const words = 8
	j := newJournal(words, struct{}{})
	section := func(chunks int) {
		for range chunks * j.chunkWords / words {
			j.keep(append(j.reserve(words), make([]uint64, words)...))
		}
		j.seal(struct{}{})
		j.commit()
	}
	held := func() int { return len(j.freed) + len(j.sections[0].chunks) }
	section(100)
	if got := held(); got != 100 {
		t.Fatalf("%d chunks are kept of a section of 100", got)
	}
	for range 100 {
		section(10)
	}
	if got := held(); got < 10 || got > 2*10+1 {
		t.Errorf("%d chunks are kept where sections take 10", got)
	}
	for i := range 20 {
		section(6 + 8*(i%2))
	}
	if got := held(); got < 14 {
		t.Errorf("%d chunks are kept where sections take 6 and 14 in turn", got)
	}
}
