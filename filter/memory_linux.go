package filter

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// mapHuge maps at least size zeroed bytes, in huge pages if the system grants them, none
// of which is resident yet: aligned is the part of the mapping that starts at one. The
// mapping is nil where the system does not map memory this way.
func mapHuge(size int) (mapping, aligned []byte, err error) {
	whole := (size + hugePage - 1) / hugePage * hugePage
	mapping, err = unix.Mmap(-1, 0, whole+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if errors.Is(err, unix.ENOMEM) {
		return nil, nil, fmt.Errorf("map %d bytes: %w", whole, err)
	}
	if err != nil {
		return nil, nil, nil
	}
	aligned = align(mapping, hugePage)[:whole]

	// Pages get their size when they are first touched, so the advice comes
	// before. A kernel without it serves small pages, which are right but slow.
	_ = unix.Madvise(aligned, unix.MADV_HUGEPAGE)
	return mapping, aligned, nil
}

// populateStep is how much is made resident in one call. The system keeps the process
// from mapping anything else meanwhile, and so Go from all that needs memory: heartbeats
// of a group waited for the twenty seconds that a large filter takes.
const populateStep = 32 * hugePage

// populate makes bytes of a mapping resident; they start and end at a page.
func populate(b []byte) error {
	for part := range slices.Chunk(b, populateStep) {
		err := unix.Madvise(part, unix.MADV_POPULATE_WRITE)
		switch {
		case errors.Is(err, unix.ENOMEM):
			return fmt.Errorf("make %d bytes resident: %w", len(b), err)
		case err != nil: // before Linux 5.14
			touch(part, smallPage)
		}
	}
	return nil
}

// discard makes bytes of a mapping not resident; they start and end at a page.
func discard(b []byte) { _ = unix.Madvise(b, unix.MADV_DONTNEED) }

// free gives the memory back. It is safe to call more than once.
func (m *memory) free() error {
	if m.mapping == nil {
		return nil
	}
	mapping := m.mapping
	m.mapping = nil
	if err := unix.Munmap(mapping); err != nil {
		return fmt.Errorf("unmap filter of %d bytes: %w", len(mapping), err)
	}
	return nil
}
