package pipeline

import (
	"slices"

	"github.com/streamdedup/streamdedup/filter"
)

// allowList is the hashes of IDs of which one more copy is let through, sorted. It
// is nil for none, which is all that costs a stream without.
//
// The shard looks such an ID up under another hash, and learns that. So the next
// copy is new, once, and is remembered like any other: in the undo journal, the
// changelog and the checkpoints. Nothing else must be kept.
type allowList []filter.Hash

func newAllowList(hashes []filter.Hash) allowList {
	if len(hashes) == 0 {
		return nil
	}
	a := slices.Clone(hashes)
	slices.Sort(a)
	return a
}

func (a allowList) has(h filter.Hash) bool {
	_, has := slices.BinarySearch(a, h)
	return has
}

// instead is the hash to look for.
func (a allowList) instead(h filter.Hash) filter.Hash {
	if a.has(h) {
		return anew(h)
	}
	return h
}

// replace appends the hashes to look for to b.
func (a allowList) replace(b, hashes []filter.Hash) []filter.Hash {
	for _, h := range hashes {
		b = append(b, a.instead(h))
	}
	return b
}

// anew is another hash for the ID, the same at every start: the finalizer of
// splitmix64 over a constant and the hash. Changelogs hold such hashes, so it never
// changes.
func anew(h filter.Hash) filter.Hash {
	x := uint64(h) ^ 0x6a09e667f3bcc908
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return filter.Hash(x ^ x>>31)
}
