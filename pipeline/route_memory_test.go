package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// delta is an input whose records are shared out, by a group of routers, with the
// rules of Kafka's transactions. The routers take turns, so that a seed says all.
type delta struct {
	t      *testing.T
	rng    *rand.Rand
	in     map[Partition][]Record
	stable map[Partition]int64 // where it is not all
	stops  map[Partition]int64 // offsets that the source cannot get past
	// committed are the group's offsets, out what was routed, by partition.
	committed map[Partition]Position
	out       map[int32][]drop
	gates     []*gate
	// locating is for committed: a router locates beside its turns.
	locating sync.Mutex
	// fault befalls one transaction in so many, 0 is none.
	fault int
	// slice is the most that records may be ahead of the slowest partition.
	slice int64
	spare int64 // the most that they were
}

// drop is a routed record.
type drop struct {
	from   Partition
	offset int64
	record Record
}

func newDelta(t *testing.T, partitions int) *delta {
	d := &delta{t: t, rng: rand.New(rand.NewPCG(seed(t), 9)), in: map[Partition][]Record{}, stable: map[Partition]int64{},
		stops: map[Partition]int64{}, committed: map[Partition]Position{}, out: map[int32][]drop{}}
	for i := range partitions {
		d.in[Partition{"in", int32(i)}] = nil
	}
	return d
}

func (d *delta) add(partition int, id string, millis int64) {
	p := Partition{"in", int32(partition)}
	d.in[p] = append(d.in[p], Record{Key: []byte(id), Value: fmt.Appendf(nil, "%s@%d", id, millis), Time: millis})
}

func (d *delta) end(p Partition) int64 {
	if at, ok := d.stable[p]; ok {
		return at
	}
	return int64(len(d.in[p]))
}

// gate is one router's session.
type gate struct {
	d        *delta
	router   *Router
	epoch    uint64
	epochs   map[Partition]uint64
	next     map[Partition]int64 // where it reads
	sent     map[Partition]int64 // what it delivered
	paused   map[Partition]bool
	news     Polled
	pending  map[int32][]drop
	survey   *Survey
	polls    int
	batch    map[Partition]int // most records of a batch
	deliverd int
}

// join makes a router that shares out to n partitions.
func (d *delta) join(n int32, rules Config, own ...int32) *gate {
	d.t.Helper()
	g := &gate{d: d, epochs: map[Partition]uint64{}, next: map[Partition]int64{}, sent: map[Partition]int64{},
		paused: map[Partition]bool{}, pending: map[int32][]drop{}, batch: map[Partition]int{}}
	r, err := NewRouter(RouterConfig{Rules: rules, Partitions: n, CommitInterval: time.Nanosecond,
		Logger: slog.New(slog.DiscardHandler)}, g)
	if err != nil {
		d.t.Fatal(err)
	}
	r.locates = newBeside[Position]()
	g.router = r
	for _, number := range own {
		g.give(Partition{"in", number})
	}
	d.gates = append(d.gates, g)
	return g
}

// give assigns a partition, take takes it away.
func (g *gate) give(p Partition) {
	g.epoch++
	g.epochs[p] = g.epoch
	g.news.Assigned = append(g.news.Assigned, Assigned{p, g.epoch})
}

func (g *gate) take(p Partition) {
	g.news.Lost = append(g.news.Lost, p)
	for _, m := range []map[Partition]int64{g.next, g.sent} {
		delete(m, p)
	}
	delete(g.epochs, p)
	delete(g.paused, p)
}

// surveyed is how many polls a survey lasts.
const surveyed = 5

func (g *gate) Poll(ctx context.Context, _ time.Duration) (Polled, error) {
	d := g.d
	if g.polls%surveyed == 0 {
		g.survey = &Survey{}
		for p := range d.in {
			at := d.committed[p]
			g.survey.Sources = append(g.survey.Sources, Source{Partition: p, Next: at.Next, Metadata: at.Metadata, Stable: d.end(p)})
		}
	}
	g.polls++
	polled := g.news
	g.news = Polled{}
	for _, p := range slices.SortedFunc(keysOf(g.next), Partition.compare) {
		next := g.next[p]
		if stop, ok := d.stops[p]; ok && next == stop {
			polled.Stopped = append(polled.Stopped, &Stop{Partition: p, Offset: next, Err: errors.New("gone on purpose")})
			g.Halt(p)
			continue
		}
		if g.paused[p] || next >= d.end(p) || d.rng.IntN(3) == 0 {
			continue
		}
		most := g.batch[p]
		if most == 0 {
			most = 400
		}
		to := min(next+int64(1+d.rng.IntN(most)), d.end(p))
		if stop, ok := d.stops[p]; ok {
			to = min(to, stop)
		}
		polled.Batches = append(polled.Batches, d.cut(p, g.epochs[p], next, to))
		g.next[p] = to
	}
	return polled, ctx.Err()
}

func keysOf(m map[Partition]int64) func(func(Partition) bool) {
	return func(yield func(Partition) bool) {
		for p := range m {
			if !yield(p) {
				return
			}
		}
	}
}

func (d *delta) cut(p Partition, epoch uint64, from, to int64) *Batch {
	b := &Batch{Partition: p, Epoch: epoch, Now: farFuture, First: from, Next: to, Stable: d.end(p)}
	for o := from; o < to; o++ {
		b.Records = append(b.Records, d.in[p][o])
		b.Offsets = append(b.Offsets, o)
	}
	return b
}

func (g *gate) Split(b *Batch, i int) *Batch {
	rest := g.d.cut(b.Partition, b.Epoch, b.Offsets[i], b.Next)
	b.Records, b.Offsets, b.Next = b.Records[:i], b.Offsets[:i], rest.First
	return rest
}

func (g *gate) Pause(p Partition)    { g.paused[p] = true }
func (g *gate) Continue(p Partition) { delete(g.paused, p) }
func (g *gate) Survey(bool) *Survey  { return g.survey }
func (g *gate) Release()             {}

func (g *gate) Close(context.Context, bool) error { return nil }

func (g *gate) Locate(_ context.Context, p Partition, fresh string) (Position, error) {
	g.d.locating.Lock()
	defer g.d.locating.Unlock()
	at, ok := g.d.committed[p]
	if !ok {
		at = Position{Partition: p, Metadata: fresh}
	}
	return at, nil
}

func (g *gate) Resume(p Partition, next int64) uint64 {
	g.epoch++
	g.epochs[p], g.next[p], g.sent[p] = g.epoch, next, next
	delete(g.paused, p)
	return g.epoch
}

func (g *gate) Halt(p Partition) { delete(g.next, p) }

// Deliver checks what a router must never do: send a record whose time is more than
// a slice ahead of a partition that has something left.
func (g *gate) Deliver(_ context.Context, b *Batch) error {
	d := g.d
	if b.Epoch != g.epochs[b.Partition] || b.First != g.sent[b.Partition] || len(b.Route) != len(b.Records) {
		d.t.Fatalf("batch [%d,%d) of %s under epoch %d with %d ways: want epoch %d, offset %d", b.First, b.Next, b.Partition,
			b.Epoch, len(b.Route), g.epochs[b.Partition], g.sent[b.Partition])
	}
	for i, r := range b.Records {
		d.behind(b.Partition, r.Time)
		g.pending[b.Route[i]] = append(g.pending[b.Route[i]], drop{b.Partition, b.Offsets[i], r})
	}
	g.sent[b.Partition] = b.Next
	g.deliverd++
	return nil
}

// behind notes how far a record is ahead of the slowest partition with work left.
func (d *delta) behind(of Partition, t int64) {
	for p, records := range d.in {
		next := d.committed[p].Next
		for _, g := range d.gates {
			if sent, ok := g.sent[p]; ok {
				next = sent
			}
		}
		stop, stopped := d.stops[p]
		if p == of || next >= d.end(p) || stopped && next == stop || records[next].Time <= 0 {
			continue
		}
		if ahead := t - records[next].Time; d.slice > 0 && ahead > d.slice {
			d.t.Fatalf("a record of %s goes out %d ms ahead of the next one of %s", of, ahead, p)
		} else {
			d.spare = max(d.spare, ahead)
		}
	}
}

// Finish is for engines.
func (g *gate) Finish([]Position) <-chan struct{} { panic("a router does not read ahead") }

func (g *gate) Commit(ctx context.Context, positions []Position) (CommitResult, error) {
	d := g.d
	if d.fault > 0 && d.rng.IntN(d.fault) == 0 {
		return g.Abort(ctx)
	}
	for q, drops := range g.pending {
		d.out[q] = append(d.out[q], drops...)
	}
	for _, at := range positions {
		if at.Next != g.sent[at.Partition] {
			d.t.Fatalf("commit of %s at %d, delivered up to %d", at.Partition, at.Next, g.sent[at.Partition])
		}
		d.locating.Lock()
		d.committed[at.Partition] = at
		d.locating.Unlock()
	}
	clear(g.pending)
	return CommitResult{Settlement: Committed}, nil
}

func (g *gate) Abort(context.Context) (CommitResult, error) {
	clear(g.pending)
	r := CommitResult{Settlement: Aborted, Epochs: map[Partition]uint64{}}
	for p := range g.next {
		g.epoch++
		at := g.d.committed[p].Next
		g.epochs[p], g.next[p], g.sent[p] = g.epoch, at, at
		r.Epochs[p] = g.epoch
	}
	return r, nil
}

// flow lets the routers take turns until all that can be read is routed.
func (d *delta) flow(wanted func(Partition) int64) {
	d.t.Helper()
	for range 200_000 {
		for _, g := range d.gates {
			if err := g.router.cycle(d.t.Context()); err != nil && len(g.next) > 0 {
				d.t.Fatal(err)
			}
		}
		done := true
		for p := range d.in {
			done = done && d.committed[p].Next == wanted(p)
		}
		if done {
			return
		}
	}
	for p := range d.in {
		d.t.Logf("%s: %d of %d, %s", p, d.committed[p].Next, wanted(p), d.committed[p].Metadata)
	}
	d.t.Fatal("the routers stand still")
}

// exact fails unless each record up to the wanted offset was routed once, those of
// one source partition in order, and all copies of an ID to one partition.
func (d *delta) exact(wanted func(Partition) int64) {
	d.t.Helper()
	got := map[Partition]map[int64]bool{}
	home := map[string]int32{}
	for q, drops := range d.out {
		last := map[Partition]int64{}
		for _, drop := range drops {
			if got[drop.from] == nil {
				got[drop.from] = map[int64]bool{}
			}
			if got[drop.from][drop.offset] {
				d.t.Fatalf("offset %d of %s came out twice", drop.offset, drop.from)
			}
			got[drop.from][drop.offset] = true
			if before, ok := last[drop.from]; ok && drop.offset <= before {
				d.t.Fatalf("offset %d of %s came out after %d", drop.offset, drop.from, before)
			}
			last[drop.from] = drop.offset
			if len(drop.record.Key) == 0 {
				continue
			}
			if at, ok := home[string(drop.record.Key)]; ok && at != q {
				d.t.Fatalf("ID %s went to partitions %d and %d", drop.record.Key, at, q)
			}
			home[string(drop.record.Key)] = q
		}
	}
	for p := range d.in {
		if int64(len(got[p])) != wanted(p) {
			d.t.Errorf("%d records of %s came out, want %d", len(got[p]), p, wanted(p))
		}
	}
}

// judge lets shards judge what was routed, and counts the repeats that pass.
func (d *delta) judge(rules Config) (passed int) {
	d.t.Helper()
	seen := map[string]bool{}
	for q, drops := range d.out {
		shard, err := NewShard(rules, Partition{"routed", q}, false)
		if err != nil {
			d.t.Fatal(err)
		}
		b := &Batch{Now: farFuture, Next: int64(len(drops))}
		for i, drop := range drops {
			b.Records, b.Offsets = append(b.Records, drop.record), append(b.Offsets, int64(i))
		}
		shard.Process(b)
		for i, o := range b.Outcomes {
			id := string(b.Records[i].Key)
			if o.Verdict == Unique && seen[id] {
				passed++
			} else if o.Verdict == Duplicate && !seen[id] {
				d.t.Errorf("the first copy of %s was withheld", id)
			}
			seen[id] = true
		}
		if err := shard.Close(); err != nil {
			d.t.Error(err)
		}
	}
	return passed
}
