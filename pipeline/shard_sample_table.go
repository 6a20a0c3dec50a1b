package pipeline

import "github.com/streamdedup/streamdedup/filter"

const (
	// partIDs is how many IDs a part of the table has where a window is as full as it
	// was planned: half of the slots of one that has doubled so often, which few parts
	// outgrow by chance.
	partIDs = 256
	minPart = 16 // slots
)

// sampleTable is a hash table of IDs that never stands still to grow: it is many small
// tables, each for a part of the hashes, and a step of work is of one of them. As one
// table it took a sixth of a second to double, in a filter of 8 GiB.
type sampleTable struct {
	parts []samplePart
	used  int // slots taken, of all parts
}

// samplePart has linear probing and no marks of what was deleted.
type samplePart struct {
	slots []sampledID // a power of two of them, or none
	used  int         // slots taken, also by IDs that are forgotten
}

// newSampleTable has parts for so many IDs, and no slots yet.
func newSampleTable(ids int) sampleTable {
	return sampleTable{parts: make([]samplePart, max(1, ids/partIDs))}
}

// part is where a hash belongs. The upper half chooses it, the lowest bits the slot: each
// is as good as any other, the choice of the sample binds all of them together.
func (t *sampleTable) part(h filter.Hash) *samplePart {
	return &t.parts[uint64(h)>>32*uint64(len(t.parts))>>32]
}

// get is what is known of h: nothing, where the result has no hash.
func (t *sampleTable) get(h filter.Hash) sampledID {
	p := t.part(h)
	if slot, is := p.find(h); is {
		return p.slots[slot]
	}
	return sampledID{}
}

// put notes e, over what was known of its hash. To make room it leaves out those that are
// forgotten at a rotation.
func (t *sampleTable) put(e sampledID, rotation uint32) {
	p := t.part(e.hash)
	slot, is := p.find(e.hash)
	if !is {
		before := p.used
		p.reserve(rotation)
		slot, _ = p.find(e.hash)
		p.used++
		t.used += p.used - before
	}
	p.slots[slot] = e
}

// remove forgets a hash that the table has.
func (t *sampleTable) remove(h filter.Hash) {
	p := t.part(h)
	slot, _ := p.find(h)
	p.remove(slot)
	t.used--
}

// home is where a hash is looked for first.
func (p *samplePart) home(h filter.Hash) int { return int(uint64(h) & uint64(len(p.slots)-1)) }

// find is the slot of h, or the empty one where it would be.
func (p *samplePart) find(h filter.Hash) (slot int, is bool) {
	if len(p.slots) == 0 {
		return 0, false
	}
	slot = p.home(h)
	for p.slots[slot].hash != 0 && p.slots[slot].hash != h {
		slot = (slot + 1) & (len(p.slots) - 1)
	}
	return slot, p.slots[slot].hash == h
}

// reserve makes room for one more in a part that is at most three quarters full: without
// those that are forgotten at the rotation, and where that is not enough, in twice as
// many slots.
func (p *samplePart) reserve(rotation uint32) {
	if (p.used+1)*4 <= len(p.slots)*3 {
		return
	}
	for slot := 0; slot < len(p.slots); {
		if e := p.slots[slot]; e.hash != 0 && int32(rotation-e.rotation) >= filter.Generations {
			p.remove(slot) // which may bring another into the slot
			continue
		}
		slot++
	}
	if p.used*3 <= len(p.slots)*2 && len(p.slots) > 0 {
		return
	}
	before := p.slots
	p.slots = make([]sampledID, max(minPart, 2*len(before)))
	for _, e := range before {
		if e.hash != 0 {
			slot, _ := p.find(e.hash)
			p.slots[slot] = e
		}
	}
}

// remove empties a slot, and closes the gap that it would be for those behind it.
func (p *samplePart) remove(slot int) {
	p.used--
	mask := len(p.slots) - 1
	for next := (slot + 1) & mask; p.slots[next].hash != 0; next = (next + 1) & mask {
		if (next-p.home(p.slots[next].hash))&mask >= (next-slot)&mask {
			p.slots[slot] = p.slots[next]
			slot = next
		}
	}
	p.slots[slot] = sampledID{}
}
