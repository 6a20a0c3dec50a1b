package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// stream is a topic in and a topic out that keep the rules of Kafka's
// transactions: what a commit carries appears at once, an abort leaves nothing,
// and a position is true exactly when the output before it is there.
type stream struct {
	in        map[Partition][]Record
	out       map[Partition][]delivered // committed
	diverted  map[Partition][]delivered
	mu        sync.Mutex // of positions, which restores read
	positions map[Partition]Position
	sizeLimit int // of a value; 0 is none
	// divertLimit is the same for the diverted.
	divertLimit int
	firstKept   map[Partition]int64 // what retention has deleted before
	// notOurs makes a restore fail, if it is not nil and says so.
	notOurs func() bool
	// log is kept where the rules log changes, and then restores read it.
	log changelog
}

// delivered is one record in the output.
type delivered struct {
	offset int64
	value  []byte
	marks  Marks
	reason Reason
}

// fault is what befalls a transaction.
type fault int

const (
	faultNone    fault = iota
	faultAbort         // it does not commit, and that is known
	faultLost          // it does not commit, and the session is gone
	faultKept          // it commits, and the session is gone before it is told
	faultDeliver       // a delivery fails before the commit
	faultCrash         // the process ends with the transaction open
	faultLate          // the process ends when it has committed, and is not told
)

// member is a Session of a stream.
type member struct {
	s         *stream
	rng       *rand.Rand
	batchSize int
	fault     func(n int) fault
	done      func()      // called when everything is read and committed
	halted    func() bool // or when this says so
	// poll changes what a poll brings, if it is not nil.
	poll func(context.Context, Polled) Polled

	epoch     uint64
	epochs    map[Partition]uint64
	reading   map[Partition]int64 // positions of resumed partitions
	announce  []Partition
	lost      []Partition
	pending   []pending
	began     int // transactions begun
	open      bool
	refused   []Refusal
	current   fault
	committed int
	closed    bool

	// answered is what Finish returned in the open cycle; it is closed with the poll
	// that finds answersIn at zero. Ahead is how many batches were read before.
	answered  chan struct{}
	answersIn int
	ahead     int
}

type pending struct {
	partition Partition
	diverted  bool
	delivered
}

func newMember(s *stream, seed uint64, batchSize int, done func()) *member {
	m := &member{s: s, rng: rand.New(rand.NewPCG(seed, 1)), batchSize: batchSize, done: done,
		fault:  func(int) fault { return faultNone },
		epochs: map[Partition]uint64{}, reading: map[Partition]int64{}}
	for p := range s.in {
		m.announce = append(m.announce, p)
	}
	return m
}

func (m *member) Poll(ctx context.Context, _ time.Duration) (Polled, error) {
	var polled Polled
	polled.Lost, m.lost = m.lost, nil
	for _, p := range m.announce {
		m.epoch++
		m.epochs[p] = m.epoch
		polled.Assigned = append(polled.Assigned, Assigned{p, m.epoch})
	}
	m.announce = nil
	finished := len(m.reading) == len(m.s.in)
	for p, next := range m.reading {
		if next == int64(len(m.s.in[p])) {
			finished = finished && m.s.positions[p].Next == next
			continue
		}
		finished = false
		n := min(int64(1+m.rng.IntN(m.batchSize)), int64(len(m.s.in[p]))-next)
		b := &Batch{Partition: p, Epoch: m.epochs[p], Now: farFuture, First: next, Next: next + n}
		for i := range n {
			b.Records = append(b.Records, m.s.in[p][next+i])
			b.Offsets = append(b.Offsets, next+i)
		}
		m.reading[p] = next + n
		polled.Batches = append(polled.Batches, b)
	}
	if m.halted != nil {
		finished = m.halted()
	}
	if m.answered != nil {
		m.ahead += len(polled.Batches)
		if m.answersIn--; m.answersIn == 0 {
			close(m.answered)
		}
	}
	if finished && len(polled.Assigned) == 0 {
		m.done()
	}
	if m.poll != nil {
		polled = m.poll(ctx, polled)
	}
	return polled, ctx.Err()
}

func (m *member) Resume(p Partition, next int64) uint64 {
	m.reading[p] = next
	m.epoch++
	m.epochs[p] = m.epoch
	return m.epoch
}

func (m *member) Halt(p Partition) { delete(m.reading, p) }

func (m *member) Deliver(_ context.Context, b *Batch) error {
	if m.answered != nil {
		panic("delivered between Finish and Commit")
	}
	if !m.open {
		m.open = true
		m.current = m.fault(m.began)
		m.began++
	}
	if m.current == faultDeliver {
		return errors.New("delivery failed on purpose")
	}
	for i, o := range b.Outcomes {
		r := b.Records[i]
		limit := m.s.sizeLimit
		if o.Fate == Diverted {
			limit = m.s.divertLimit
		}
		switch {
		case o.Fate == Dropped:
		case limit > 0 && len(r.Value) > limit:
			m.refused = append(m.refused, Refusal{b.Partition, b.Offsets[i], o.Fate == Diverted, errTooLarge})
		default:
			m.pending = append(m.pending, pending{b.Partition, o.Fate == Diverted,
				delivered{b.Offsets[i], bytes.Clone(r.Value), o.Marks, o.Reason}})
		}
	}
	return nil
}

var errTooLarge = errors.New("message too large")

func (m *member) Finish([]Position) <-chan struct{} {
	m.answered, m.answersIn = make(chan struct{}), m.rng.IntN(4)
	if m.answersIn == 0 {
		close(m.answered)
	}
	return m.answered
}

func (m *member) Commit(ctx context.Context, positions []Position) (CommitResult, error) {
	switch {
	case m.current == faultLost:
		return m.lose(errors.New("lost on purpose")), nil
	case m.current == faultKept:
		m.keep(positions)
		return m.lose(errors.New("kept, but lost on purpose")), nil
	case m.current == faultCrash:
		return CommitResult{}, errCrash
	case m.current == faultLate:
		m.keep(positions)
		return CommitResult{}, errCrash
	case m.current == faultAbort || len(m.refused) > 0:
		return m.Abort(ctx)
	}
	return CommitResult{Settlement: Committed, Logged: m.keep(positions)}, nil
}

func (m *member) keep(positions []Position) map[Partition]int64 {
	for _, p := range m.pending {
		to := m.s.out
		if p.diverted {
			to = m.s.diverted
		}
		to[p.partition] = append(to[p.partition], p.delivered)
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	logged := map[Partition]int64{}
	for _, p := range positions {
		if p.Change != nil {
			logged[p.Partition] = m.s.log.append(p.Partition, p.Change)
			p.Change = nil // its memory is the shard's
		}
		m.s.positions[p.Partition] = p
	}
	m.committed++
	m.reset()
	return logged
}

func (m *member) reset() {
	m.pending, m.open, m.refused, m.current, m.answered = nil, false, nil, faultNone, nil
}

// lose takes every partition away and gives it back.
func (m *member) lose(cause error) CommitResult {
	m.reset()
	for p := range m.epochs {
		m.lost = append(m.lost, p)
		m.announce = append(m.announce, p)
	}
	m.epochs = map[Partition]uint64{}
	m.reading = map[Partition]int64{}
	return CommitResult{Settlement: Lost, Cause: cause}
}

func (m *member) Abort(context.Context) (CommitResult, error) {
	r := CommitResult{Settlement: Aborted, Refused: m.refused, Epochs: map[Partition]uint64{}}
	for p := range m.reading {
		m.epoch++
		m.epochs[p] = m.epoch
		m.reading[p] = m.s.positions[p].Next
	}
	for p, epoch := range m.epochs {
		r.Epochs[p] = epoch
	}
	m.reset()
	return r, nil
}

func (m *member) Release() {}

func (m *member) Close(context.Context, bool) error {
	m.closed = true
	return nil
}

// Restore gives a partition its memory back from the stream's own input.
func (s *stream) Restore(_ context.Context, p Partition, b Builder) (Restored, error) {
	if s.notOurs != nil && s.notOurs() {
		return Restored{}, fmt.Errorf("restore %s: %w", p, ErrNotOurs)
	}
	s.mu.Lock()
	at, log := s.positions[p], s.log.of(p)
	s.mu.Unlock()
	if len(log.slots) > 0 {
		return s.restoreLogged(p, b, at, log)
	}
	if at.Metadata == "" {
		shard, err := b.Fresh(false)
		return Restored{Shard: shard, Next: at.Next}, err
	}
	state, err := ParseMetadata(at.Metadata)
	if err != nil {
		return Restored{}, err
	}
	rebuild, err := b.Rebuild(state)
	if err != nil {
		return Restored{}, err
	}
	first := max(rebuild.From(), s.firstKept[p])
	batch := &Batch{Partition: p}
	for offset := max(first, 0); offset < at.Next; offset++ {
		r := s.in[p][offset]
		batch.Records = append(batch.Records, r)
		batch.Offsets = append(batch.Offsets, offset)
		batch.Oversize = append(batch.Oversize, s.sizeLimit > 0 && len(r.Value) > s.sizeLimit)
	}
	rebuild.Learn(batch)
	return Restored{Shard: rebuild.Done(first, at.Next), Next: at.Next}, nil
}

func newStream(partitions int) *stream {
	s := &stream{in: map[Partition][]Record{}, out: map[Partition][]delivered{},
		diverted: map[Partition][]delivered{}, positions: map[Partition]Position{}}
	for i := range partitions {
		s.in[Partition{"in", int32(i)}] = nil
	}
	return s
}

// add appends a record to a partition, keyed by its ID.
func (s *stream) add(partition int, id string, millis int64) {
	p := Partition{"in", int32(partition)}
	value := fmt.Appendf(nil, `{"id":%q,"offset":%d}`, id, len(s.in[p]))
	s.in[p] = append(s.in[p], Record{Key: []byte(id), Value: value, Time: millis})
}

// Times in the tests are from 2023 on; the wall clock of reading is far after.
const (
	epoch0    int64 = 1_700_000_000_000
	farFuture int64 = 4_000_000_000_000
)
