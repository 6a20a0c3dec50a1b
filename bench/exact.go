package bench

import (
	"runtime"

	"github.com/streamdedup/streamdedup/filter"
)

// exactMap is the hand-made answer as a [filter.Set]: a Go map from hash to the
// rotation that it was added in. It forgets like the filters do, by looking
// through all of it at a rotation. It can neither undo nor be stored nor be made
// again, which no benchmark asks for: those calls panic, on the nil Set.
type exactMap struct {
	filter.Set
	rotations map[filter.Hash]uint32
	rotation  uint32
	size      uint64
}

// newExactMap makes a map that holds ids IDs of the sealed generations and has
// the room of one more generation.
func newExactMap(ids, seed uint64) *exactMap {
	before := heapBytes()
	m := &exactMap{rotations: make(map[filter.Hash]uint32, ids+ids/filter.Sealed), rotation: filter.Generations}
	for i := range ids {
		age := uint32(i * filter.Sealed / ids)
		m.rotations[filter.Hash(scramble(seed^i))] = m.rotation - age
	}
	m.size = heapBytes() - before
	return m
}

func heapBytes() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func (m *exactMap) TestAndAdd(hashes []filter.Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	for i, h := range hashes {
		if ages[i] = m.Test(h); ages[i] == 0 && learn[i] && added < room {
			m.rotations[h] = m.rotation
			added++
		}
	}
	return added
}

func (m *exactMap) Test(h filter.Hash) uint8 {
	if at, ok := m.rotations[h]; ok {
		return 1 << (m.rotation - at)
	}
	return 0
}

func (m *exactMap) Rotate(n int) {
	m.rotation += uint32(n)
	for h, at := range m.rotations {
		if m.rotation-at >= filter.Generations {
			delete(m.rotations, h)
		}
	}
}

func (m *exactMap) Sweep()               {}
func (m *exactMap) Seal()                {}
func (m *exactMap) Commit()              {}
func (m *exactMap) JournalBytes() uint64 { return 0 }
func (m *exactMap) Bytes() uint64        { return m.size }
func (m *exactMap) BodyBytes() uint64    { return 0 }
func (m *exactMap) Close() error         { m.rotations = nil; return nil }

// scramble is the finaliser of splitmix64.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
