package pipeline

import (
	"math"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
)

// One ID that makes up much of the traffic is most often none: a default that a
// producer left in, or a counter that starts anew. All but its first record are
// dropped, so somebody should be told which ID it is. A glance at one record of 64,
// with a small table of candidates (Metwally, Agrawal, El Abbadi, "Efficient
// computation of frequent and top-k elements in data streams"), finds it for next to
// nothing. It is a gauge and not a count: a rollback does not undo it.

const (
	hotEvery      = 64   // records to a glance, on average
	hotGlances    = 512  // to a round, at the end of which an ID may be named
	hotCandidates = 16   // any ID with more than a 16th of the glances is among them
	hotLeast      = 0.05 // the least share that is named
	hotTextBytes  = 256
	// One that is clear is named before its round is over: when one has surely more than
	// hotClear of what hotSoon glances saw, or twice, four times as many.
	hotSoon  = 16
	hotClear = 0.1
	// hotDeviations is how many standard deviations "surely" is. Where no ID has a 20th
	// of the traffic, one is named too early less than once in ten thousand rounds.
	hotDeviations = 5
)

// Hot is an ID that has a large share of a partition's records.
type Hot struct {
	Hash filter.Hash
	// Share is that of the records with an ID, at least, within a few points; one that was
	// named early is as exact as few glances are. It is 0 where no ID stands out.
	Share float64
	// Text is the ID itself, under [Config.ShowIDs] and once another copy was read.
	Text string
}

// hotIDs looks for one.
type hotIDs struct {
	next    int    // records until the next glance
	luck    uint64 // makes the steps uneven: IDs may come in a rhythm
	glances int    // in this round, at records with an ID
	hashes  [hotCandidates]filter.Hash
	// counts has the glances at each, and at what it took the place of before: so many
	// of them as excess has.
	counts, excess [hotCandidates]uint32
	named          Hot  // at the end of the last round, or early in this one
	early          bool // in this one
}

// look glances at some of the first n records of the chunk, which begins at record
// from of b.
func (s *Shard) look(b *Batch, from, n int) {
	h, x := &s.hot, &s.scratch
	for ; h.next < n; h.step() {
		if i := h.next; x.ids.found[i] == keys.Found {
			hash := s.in.Hashes[i]
			h.glance(hash)
			if s.rules.ShowIDs && h.named.Text == "" && h.named.Share > 0 && h.named.Hash == hash {
				h.named.Text = s.text(&b.Records[from+i])
			}
		}
	}
	h.next -= n
}

// text is the ID of a record for people, cut where it is long.
func (s *Shard) text(r *Record) string {
	text := s.extractor.Text(r)
	return text[:min(len(text), hotTextBytes)]
}

// step is by 1 to 127 records, from Knuth's generator: the same for the same stream.
func (h *hotIDs) step() {
	h.luck = h.luck*6364136223846793005 + 1442695040888963407
	h.next += 1 + int(h.luck>>32%(2*hotEvery-1))
}

// glance counts one hash, in the place of the rarest candidate if it is none yet.
func (h *hotIDs) glance(hash filter.Hash) {
	least := 0
	for i := range h.hashes {
		if h.counts[i] > 0 && h.hashes[i] == hash {
			least = i
			break
		}
		if h.counts[i] < h.counts[least] {
			least = i
		}
	}
	if h.hashes[least] != hash {
		h.hashes[least], h.excess[least] = hash, h.counts[least]
	}
	h.counts[least]++
	h.glances++
	switch {
	case h.glances == hotGlances:
		h.name(hotLeast, 0)
		*h = hotIDs{next: h.next, luck: h.luck, named: h.named}
	case h.glances >= hotSoon && h.glances&(h.glances-1) == 0 && (h.early || h.named.Share == 0):
		h.name(hotClear, hotDeviations)
		h.early = h.named.Share > 0
	}
}

// name names the most frequent ID, if its share is the least or more even so many
// standard deviations below what was seen, and else none.
func (h *hotIDs) name(least, deviations float64) {
	best, most := 0, uint32(0)
	for i := range h.hashes {
		if sure := h.counts[i] - h.excess[i]; sure > most {
			best, most = i, sure
		}
	}
	named := Hot{Hash: h.hashes[best], Share: float64(most) / float64(h.glances)}
	switch {
	case lowest(named.Share, float64(h.glances), deviations) < least:
		named = Hot{}
	case named.Hash == h.named.Hash:
		named.Text = h.named.Text
	}
	h.named = named
}

// lowest is the lower end of Wilson's interval around a share p that n glances saw. It
// holds for few of them too, and for shares near 1.
func lowest(p, n, deviations float64) float64 {
	zz := deviations * deviations / n
	return (p + zz/2 - math.Sqrt(zz*(p*(1-p)+zz/4))) / (1 + zz)
}

// Hot is the ID that stood out in the last round of some 33,000 records, or from the
// first thousand on where one is clear.
func (s *Shard) Hot() Hot { return s.hot.named }
