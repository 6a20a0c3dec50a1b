package filter

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/bits-and-blooms/bloom/v3"
)

// Classic is the textbook answer: a [Set] that is a ring of Bloom filters, one
// for each generation, from github.com/bits-and-blooms/bloom. It takes less
// memory than a [Sliced] and many times its time, for it looks into all eight
// filters. It is the reference for tests and benchmarks, and a choice for users.
//
// The key that it gives to the library is the hash as 8 little-endian bytes.
//
// A Classic has one owner: no method may run concurrently with another.
type Classic struct {
	params   ClassicParams
	ring     [Generations]*bloom.BloomFilter // by rotation modulo 8
	rotation uint64
	// retired are the filters that rotations took out of the ring since the last
	// commit, oldest first; spare is an empty one to put in.
	retired []*bloom.BloomFilter
	spare   *bloom.BloomFilter
	journal journal[ringClock]
}

// ringClock is the state of a [Classic] beside its filters.
type ringClock struct {
	rotation uint64
	retired  int
}

const (
	// rotateEntry is the entry of a rotation in the journal. Any other entry is the
	// bits that an addition newly set, and a word that has their number and, from
	// slotShift on, the slot of their filter.
	rotateEntry = 1 << 63
	slotShift   = 32
)

var _ Set = (*Classic)(nil)

// NewClassic makes an empty ring whose filters have geometry p.
func NewClassic(p ClassicParams) (*Classic, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("make classic filter: %w", err)
	}
	c := &Classic{params: p}
	for i := range c.ring {
		f, err := newBloom(p)
		if err != nil {
			return nil, fmt.Errorf("make classic filter: %w", err)
		}
		c.ring[i] = f
	}
	c.journal = newJournal(int(p.Hashes)+1, ringClock{})
	return c, nil
}

// newBloom is bloom.New with its traps closed: it takes a size it cannot
// allocate for a filter of no bits, which holds nothing.
func newBloom(p ClassicParams) (*bloom.BloomFilter, error) {
	f := bloom.New(uint(p.Bits), p.Hashes)
	if got := uint64(f.BitSet().Len()); uint64(f.Cap()) != p.Bits || got != p.Bits {
		return nil, fmt.Errorf("allocate %d bits: the library made %d of them", p.Bits, got)
	}
	return f, nil
}

// TestAndAdd implements [Set].
func (c *Classic) TestAndAdd(hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	return c.addTo(0, allAges, hashes, learn, room, ages)
}

// Learn implements [Set].
func (c *Classic) Learn(age int, hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	checkAge(age)
	return c.addTo(age, 1<<age, hashes, learn, room, ages)
}

// addTo adds the hashes that no generation of the ages in known holds to the one
// of the given age.
func (c *Classic) addTo(age int, known uint8, hashes []Hash, learn []bool, room uint64, ages []uint8) (added uint64) {
	checkArrays(hashes, learn, ages)
	slot := (c.rotation - uint64(age)) % Generations
	for i, h := range hashes {
		places := c.places(h)
		ages[i] = c.ages(places)
		if ages[i]&known != 0 || !learn[i] || added >= room {
			continue
		}
		added++
		c.add(slot, places)
	}
	return added
}

// Test implements [Set].
func (c *Classic) Test(h Hash) uint8 { return c.ages(c.places(h)) }

// places are the bits that h has in each of the filters, not yet modulo their
// size.
func (c *Classic) places(h Hash) []uint64 {
	var key [8]byte
	binary.LittleEndian.PutUint64(key[:], uint64(h))
	return bloom.Locations(key[:], c.params.Hashes)
}

func (c *Classic) ages(places []uint64) (mask uint8) {
	for age := range uint64(Generations) {
		if c.ring[(c.rotation-age)%Generations].TestLocations(places) {
			mask |= 1 << age
		}
	}
	return mask
}

// add sets the places in the filter of a slot and journals those it changed.
func (c *Classic) add(slot uint64, places []uint64) {
	bits := c.ring[slot].BitSet()
	log := c.journal.reserve(len(places) + 1)
	before := len(log)
	for _, p := range places {
		p %= c.params.Bits
		if !bits.Test(uint(p)) {
			bits.Set(uint(p))
			log = append(log, p)
		}
	}
	log = append(log, slot<<slotShift|uint64(len(log)-before))
	c.journal.keep(log)
}

// Rotate implements [Set].
func (c *Classic) Rotate(n int) {
	if n < 0 {
		panic("BUG: Rotate by a negative number")
	}
	for range min(n, Generations) {
		fresh := c.spare
		c.spare = nil
		if fresh == nil {
			var err error
			if fresh, err = newBloom(c.params); err != nil {
				// The same geometry was allocated eight times before.
				panic("BUG: " + err.Error())
			}
		}
		c.rotation++
		slot := &c.ring[c.rotation%Generations]
		c.retired = append(c.retired, *slot)
		*slot = fresh
		c.journal.keep(append(c.journal.reserve(1), rotateEntry))
	}
}

// Sweep implements [Set]: a ring owes no cleaning.
func (c *Classic) Sweep() {}

// Seal implements [Set].
func (c *Classic) Seal() {
	c.journal.seal(ringClock{rotation: c.rotation, retired: len(c.retired)})
}

// Commit implements [Set].
func (c *Classic) Commit() {
	c.journal.commit()
	// The journal's sections count retired filters from the last commit on.
	n := c.journal.sections[0].start.retired
	for i := range c.journal.sections {
		c.journal.sections[i].start.retired -= n
	}
	for _, f := range c.retired[:n] {
		c.recycle(f)
	}
	c.retired = slices.Delete(c.retired, 0, n)
}

// recycle empties f for the next rotation, if that has no filter yet.
func (c *Classic) recycle(f *bloom.BloomFilter) {
	if c.spare == nil {
		c.spare = f.ClearAll()
	}
}

// Rollback implements [Set].
func (c *Classic) Rollback() {
	start := c.journal.undo(c.undo)
	if c.rotation != start.rotation || len(c.retired) != start.retired {
		panic("BUG: the journal and the rotations differ")
	}
}

// undo takes back the entries of a chunk, the newest first.
func (c *Classic) undo(log []uint64) {
	for len(log) > 0 {
		last := log[len(log)-1]
		log = log[:len(log)-1]
		if last == rotateEntry {
			slot := &c.ring[c.rotation%Generations]
			n := len(c.retired) - 1
			c.recycle(*slot)
			*slot, c.retired[n] = c.retired[n], nil
			c.retired = c.retired[:n]
			c.rotation--
			continue
		}
		n := len(log) - int(uint32(last))
		bits := c.ring[last>>slotShift].BitSet()
		for _, p := range log[n:] {
			bits.Clear(uint(p))
		}
		log = log[:n]
	}
}

// JournalBytes implements [Set]. It counts the filters that rotations took out
// since the last commit.
func (c *Classic) JournalBytes() uint64 {
	return c.journal.bytes() + uint64(len(c.retired))*(c.Bytes()/Generations)
}

// Bytes implements [Set].
func (c *Classic) Bytes() uint64 { return c.params.Bytes() }

// Close implements [Set]: the garbage collector takes the filters.
func (c *Classic) Close() error {
	c.ring, c.retired, c.spare = [Generations]*bloom.BloomFilter{}, nil, nil
	return nil
}
