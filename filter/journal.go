package filter

// journal is the undo log of a [Set]: words in sections, the oldest first, the
// last one open. S is the state that is too small to log by the change and is
// saved whole at the start of each section instead.
//
// An entry is some words of content followed by one word that says what it is,
// so that a log is read backwards. It never straddles two chunks: a writer
// reserves room for all it may write, appends, and hands the chunk back.
type journal[S any] struct {
	chunkWords int
	sections   []section[S]
	freed      [][]uint64 // chunks to use again, each of length 0
}

// section is what Commit forgets at once. It shares no chunk with another.
type section[S any] struct {
	start  S
	chunks [][]uint64
	words  uint64 // of all entries
}

// apart is how many of anything made of words fill lines of cache of their own: the
// owner of another set may write what the allocator puts beside fewer.
const apart = 8

// newJournal has chunks that hold a few times the largest reservation.
func newJournal[S any](largest int, start S) journal[S] {
	sections := make([]section[S], 1, apart)
	sections[0].start = start
	return journal[S]{chunkWords: 4 * largest, sections: sections}
}

// reserve returns the open section's last chunk with room for n words. The
// caller appends at most n and gives the result to keep before it reserves
// again.
func (j *journal[S]) reserve(n int) []uint64 {
	s := &j.sections[len(j.sections)-1]
	if last := len(s.chunks) - 1; last >= 0 {
		if c := s.chunks[last]; cap(c)-len(c) >= n {
			return c
		}
	}
	var c []uint64
	if last := len(j.freed) - 1; last >= 0 {
		c, j.freed = j.freed[last], j.freed[:last]
	} else {
		c = make([]uint64, 0, j.chunkWords)
	}
	if s.chunks == nil {
		s.chunks = make([][]uint64, 0, apart)
	}
	s.chunks = append(s.chunks, c)
	return c
}

// keep takes back the chunk that reserve gave, with what was appended.
func (j *journal[S]) keep(c []uint64) {
	s := &j.sections[len(j.sections)-1]
	last := len(s.chunks) - 1
	s.words += uint64(len(c) - len(s.chunks[last]))
	s.chunks[last] = c
}

// seal ends the open section; the next starts at now.
func (j *journal[S]) seal(now S) {
	n := len(j.sections)
	if n < cap(j.sections) {
		j.sections = j.sections[:n+1] // brings an old section's slice of chunks
	} else {
		j.sections = append(j.sections, section[S]{})
	}
	j.sections[n].start = now
}

// commit forgets the oldest sealed section.
func (j *journal[S]) commit() {
	if len(j.sections) < 2 {
		panic("BUG: Commit without a sealed section")
	}
	oldest := j.sections[0]
	used := len(oldest.chunks)
	j.release(&oldest)
	// Right after a rotation a section takes twenty times what it takes later. What
	// lies unused since is given up, a chunk each time: needs that swing keep theirs.
	if last := len(j.freed) - 1; last > 2*used {
		j.freed[last] = nil
		j.freed = j.freed[:last]
	}
	n := copy(j.sections, j.sections[1:])
	j.sections[n] = oldest
	j.sections = j.sections[:n]
}

// undo gives every chunk to back, the newest first, then leaves one open empty
// section that starts where the oldest did.
func (j *journal[S]) undo(back func(chunk []uint64)) (start S) {
	for i := len(j.sections) - 1; i >= 0; i-- {
		s := &j.sections[i]
		for k := len(s.chunks) - 1; k >= 0; k-- {
			back(s.chunks[k])
		}
		j.release(s)
	}
	j.sections = j.sections[:1]
	return j.sections[0].start
}

// clear forgets everything and leaves one open empty section that starts at now.
func (j *journal[S]) clear(now S) {
	j.undo(func([]uint64) {})
	j.sections[0].start = now
}

func (j *journal[S]) release(s *section[S]) {
	for i, c := range s.chunks {
		j.freed = append(j.freed, c[:0])
		s.chunks[i] = nil
	}
	s.chunks, s.words = s.chunks[:0], 0
}

// bytes is the size of all entries.
func (j *journal[S]) bytes() uint64 {
	var words uint64
	for i := range j.sections {
		words += j.sections[i].words
	}
	return 8 * words
}
