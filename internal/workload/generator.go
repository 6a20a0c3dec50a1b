package workload

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/streamdedup/streamdedup/internal/keys"
)

// Record is one record of a stream, and the truth about it.
type Record struct {
	keys.Record
	Partition int32
	// Event is the number of its event, from 0 in order of first appearance.
	Event uint64
	// Copy is false for the first record of its event.
	Copy bool
}

const (
	// burstShare of the copies are of one hot event, half way through.
	burstShare = 10
	// replayShare of the other copies come minutes later, not seconds.
	replayShare = 4

	minRetry, maxRetry   = 500 * time.Millisecond, 10 * time.Second
	minReplay, maxReplay = time.Minute, 30 * time.Minute

	// arenaBytes is how much memory for records is taken at once.
	arenaBytes = 1 << 20
)

// copyDue is a copy that waits for its place in the stream.
type copyDue struct {
	place  int // index in the stream
	event  uint64
	first  int // index of the event's first record
	replay bool
}

// copies is a heap by place; equal places go by event.
type copies []copyDue

func (c copies) Len() int { return len(c) }
func (c copies) Less(i, j int) bool {
	if c[i].place != c[j].place {
		return c[i].place < c[j].place
	}
	return c[i].event < c[j].event
}
func (c copies) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *copies) Push(x any)   { *c = append(*c, x.(copyDue)) }
func (c *copies) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// Generator makes the records of a stream one after the other.
//
// A Generator has one owner: no method may run concurrently with another. What
// it handed out stays valid and may be read by anyone.
type Generator struct {
	cfg    Config
	random *rand.Rand

	next    int    // index of the next record
	events  uint64 // firsts handed out
	waiting copies
	burst   int // copies of the hot event
	single  int // copies not yet given to an event, without the burst's
	arena   []byte
}

// New makes the generator of the stream that cfg describes.
func New(cfg Config) (*Generator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("make a workload: %w", err)
	}
	burst := cfg.Copies / burstShare
	if span := cfg.Span; span > 0 {
		// The hot event's copies take every second place. Their last one must not
		// be further behind the first than any other copy.
		burst = min(burst, int(float64(cfg.Window/4)/float64(span)*float64(cfg.Records())/2))
	}
	return &Generator{
		cfg:    cfg,
		random: rand.New(rand.NewPCG(cfg.Seed, mix(cfg.Seed))),
		burst:  burst,
		single: cfg.Copies - burst,
	}, nil
}

// Next makes the next record; false is the stream's end.
func (g *Generator) Next() (Record, bool) {
	place := g.next
	if place == g.cfg.Records() {
		return Record{}, false
	}
	g.next++
	left := uint64(g.cfg.Events) - g.events
	if len(g.waiting) > 0 && (left == 0 || g.waiting[0].place <= place) {
		c := heap.Pop(&g.waiting).(copyDue)
		shown := c.first
		if c.replay {
			shown = place
		}
		return g.record(c.event, c.first, shown, true), true
	}
	event := g.events
	g.events++
	g.plan(event, place, left)
	return g.record(event, place, place, false), true
}

// plan decides which copies the event that comes first at place will have.
// left is how many events, this one included, are still to come.
func (g *Generator) plan(event uint64, place int, left uint64) {
	if event == uint64(g.cfg.Events)/2 {
		for i := range g.burst {
			heap.Push(&g.waiting, copyDue{place: place + 1 + 2*i, event: event, first: place})
		}
	}
	// Selection sampling: the copies come out exactly, and evenly.
	if g.random.Uint64N(left) >= uint64(g.single) {
		return
	}
	g.single--
	replay := g.random.IntN(replayShare) == 0
	heap.Push(&g.waiting, copyDue{place: place + g.delay(replay), event: event, first: place, replay: replay})
}

// delay is after how many records a copy comes.
func (g *Generator) delay(replay bool) int {
	least, most := minRetry, maxRetry
	if replay {
		least, most = minReplay, maxReplay
	}
	// A quarter of the window, and a quarter at most for clocks that are behind.
	most = min(most, g.cfg.Window/4)
	least = min(least, most)
	d := least + time.Duration(g.random.Int64N(int64(most-least)+1))
	if g.cfg.Span == 0 {
		return 1 + int(d/time.Second)
	}
	return 1 + int(float64(d)/float64(g.cfg.Span)*float64(g.cfg.Records()))
}

// clock is the stream time at a place of the stream, in milliseconds.
func (g *Generator) clock(place int) int64 {
	span := float64(g.cfg.Span.Milliseconds())
	return g.cfg.Start.UnixMilli() + int64(span*float64(place)/float64(g.cfg.Records()))
}

// mix is the finaliser of splitmix64: it turns neighbours into strangers.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
