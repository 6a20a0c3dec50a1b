// Package simulate measures false-positive rates, for the tests of package filter and
// for the table that is published with it.
package simulate

import "github.com/streamdedup/streamdedup/filter"

// batch is how many hashes go into one call.
const batch = 1024

// IDs makes hashes that never repeat: a counter through the finaliser of splitmix64
// (Steele, Lea and Flood, 2014), which is a bijection. So that a hash is absent from a
// set, exactly, when it was not put there.
type IDs struct{ state uint64 }

// NewIDs starts a sequence. Sequences of different seeds overlap only by chance.
func NewIDs(seed uint64) *IDs { return &IDs{seed} }

// Next fills hashes with the next ones.
func (ids *IDs) Next(hashes []filter.Hash) {
	for i := range hashes {
		ids.state += 0x9e3779b97f4a7c15
		x := ids.state
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		hashes[i] = filter.Hash(x ^ x>>31)
	}
}

// Fill lets the generations of an empty set learn loads[0], loads[1] and so on unique
// IDs, the last that has any filling: with equal loads, the worst moment of a window.
// A set of one generation takes loads[0] alone.
func Fill(set filter.Set, ids *IDs, loads [filter.Generations]uint64) {
	hashes, learn, ages := make([]filter.Hash, batch), make([]bool, batch), make([]uint8, batch)
	for i := range learn {
		learn[i] = true
	}
	filling := 0
	for i, load := range loads {
		if load == 0 {
			continue
		}
		set.Rotate(i - filling)
		filling = i
		for added := uint64(0); added < load; {
			ids.Next(hashes)
			added += set.TestAndAdd(hashes, learn, load-added, ages)
			set.Seal()
			set.Commit()
		}
	}
}

// Positives is how many of the next probes IDs, which the set has never seen, it
// takes for seen.
func Positives(set filter.Set, ids *IDs, probes uint64) (positives uint64) {
	hashes, learn, ages := make([]filter.Hash, batch), make([]bool, batch), make([]uint8, batch)
	for probes > 0 {
		n := min(probes, batch)
		probes -= n
		ids.Next(hashes[:n])
		set.TestAndAdd(hashes[:n], learn[:n], 0, ages[:n])
		set.Seal()
		set.Commit()
		for _, age := range ages[:n] {
			if age != 0 {
				positives++
			}
		}
	}
	return positives
}
