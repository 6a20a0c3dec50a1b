package kafkaio

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
)

// membership is what the group says about us. The client's callbacks write it,
// in goroutines of the client; the session reads it.
//
// Two sources are compared. Callbacks name what comes and goes, but kgo's
// GroupTransactSession swallows the second revocation between two ends of a
// transaction. So the assignment of each sync is noted too: what it does not
// name is not ours, whatever the callbacks said or did not say. Where the
// coordinator assigns there are no syncs, and a transaction is ended between any
// two revocations (exactly.go).
type membership struct {
	mu sync.Mutex
	// changes since they were last taken, oldest first.
	changes []change
	// held is what the callbacks say is ours now.
	held map[pipeline.Partition]bool
	// synced is the last sync's assignment, nil where there are no syncs.
	synced map[pipeline.Partition]bool
	// assigned is called with each assignment, also of nothing.
	assigned func()
	// lost says that everything was lost since the last cycle began.
	lost bool
	// flagged says that a revocation or loss happened since the last end of a
	// transaction: kgo will not commit the next one.
	flagged bool
	// wake ends the poll that waits for records.
	wake context.CancelFunc
}

// change is one callback's news of one partition.
type change struct {
	partition pipeline.Partition
	assigned  bool
}

func newMembership() *membership {
	return &membership{held: map[pipeline.Partition]bool{}, synced: map[pipeline.Partition]bool{}}
}

// options connect a client's callbacks.
func (m *membership) options() []kgo.Opt {
	return []kgo.Opt{
		kgo.OnPartitionsAssigned(func(_ context.Context, cl *kgo.Client, parts map[string][]int32) {
			// Nothing is read before the partition's memory is back. A pause outlives
			// assignments, so resuming is explicit too.
			cl.PauseFetchPartitions(parts)
			if m.assigned != nil {
				m.assigned()
			}
			m.change(parts, true)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			// kgo lets a rebalance that takes nothing pass.
			if len(parts) > 0 {
				m.flag()
			}
			m.change(parts, false)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			m.flag()
			m.lose()
			m.change(parts, false)
		}),
	}
}

func (m *membership) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = true
}

// wasLost is whether all partitions were lost since the last cycle began.
func (m *membership) wasLost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost
}

// begin notes that a cycle begins.
func (m *membership) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = false
}

func (m *membership) flag() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flagged = true
}

func (m *membership) change(parts map[string][]int32, assigned bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, numbers := range parts {
		for _, number := range numbers {
			p := pipeline.Partition{Topic: topic, Number: number}
			m.changes = append(m.changes, change{p, assigned})
			if assigned {
				m.held[p] = true
			} else {
				delete(m.held, p)
			}
		}
	}
	if m.wake != nil {
		m.wake()
	}
}

// sync notes an assignment as the coordinator gave it.
func (m *membership) sync(parts map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = map[pipeline.Partition]bool{}
	for topic, numbers := range parts {
		for _, number := range numbers {
			m.synced[pipeline.Partition{Topic: topic, Number: number}] = true
		}
	}
}

// ours is whether p is ours as far as anybody told us.
func (m *membership) ours(p pipeline.Partition) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held[p] && (m.synced == nil || m.synced[p])
}

// take returns the changes since the last call.
func (m *membership) take() []change {
	m.mu.Lock()
	defer m.mu.Unlock()
	changes := m.changes
	m.changes = nil
	return changes
}

// waiting says what to call when something changes, nil to call nothing. It
// reports whether something has changed already.
func (m *membership) waiting(wake context.CancelFunc) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wake = wake
	return len(m.changes) > 0
}

// unflag reports, once, whether kgo will refuse to commit.
func (m *membership) unflag() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	flagged := m.flagged
	m.flagged = false
	return flagged
}

// syncWatcher is a balancer that tells what the coordinator assigns.
type syncWatcher struct {
	kgo.GroupBalancer
	tell func(map[string][]int32)
}

// ParseSyncAssignment implements kgo.GroupBalancer.
func (w syncWatcher) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	parts, err := w.GroupBalancer.ParseSyncAssignment(assignment)
	if err == nil {
		w.tell(parts)
	}
	return parts, err
}

// tenancy is a partition in one assignment. The session's goroutine owns it.
type tenancy struct {
	epoch uint64
	// running says that batches are wanted.
	running bool
	// failed is what the client said of the partition before it was wanted.
	failed error
	// next is where the next batch must begin, delivered where the last delivered
	// one ended, and committed where the open cycle began.
	next, delivered, committed mark
	// empty is an offset before which nothing is left to read.
	empty int64
	// large reads a batch that takes too much memory at once, while the client waits.
	large *reader
	// paused says that no batches are wanted for now.
	paused bool
}

// position is where the client must read.
func (t *tenancy) position() int64 { return max(t.next.offset, t.empty) }

// mark is an offset, and the leader epoch of the record before it, -1 when that
// is not known. The epoch lets the client notice that a broker lost what we read.
type mark struct {
	offset int64
	epoch  int32
}

// nowhere is the mark of a partition that was not resumed.
var nowhere = mark{-1, -1}

// rewind goes back to where the cycle began.
func (t *tenancy) rewind(epoch uint64) {
	t.epoch = epoch
	t.next, t.delivered, t.empty, t.large = t.committed, t.committed, 0, nil
}

// news turns the changes of the group into what the engine must know.
func (s *Session) news(into *pipeline.Polled) {
	m := s.member.Load()
	for _, c := range m.take() {
		if s.parts[c.partition] != nil {
			// Also when it is named again: another may have written meanwhile.
			s.lose(c.partition, into)
		}
		if c.assigned {
			s.assign(c.partition, into)
		}
	}
	// The client holds the callback back while a cycle is open, and the group the
	// partition, so the cycle may, and must, commit it.
	for p := range s.parts {
		if !s.cycle.open && !m.ours(p) {
			s.lose(p, into)
		}
	}
}

func (s *Session) assign(p pipeline.Partition, into *pipeline.Polled) {
	s.parts[p] = &tenancy{epoch: s.nextEpoch(), next: nowhere, delivered: nowhere, committed: nowhere}
	into.Assigned = append(into.Assigned, pipeline.Assigned{Partition: p, Epoch: s.parts[p].epoch})
}

// lose forgets p. The engine hears of losses first, so an assignment that did
// not last must not reach it at all.
func (s *Session) lose(p pipeline.Partition, into *pipeline.Polled) {
	into.Lost = append(into.Lost, p)
	into.Assigned = slices.DeleteFunc(into.Assigned, func(a pipeline.Assigned) bool { return a.Partition == p })
	if t := s.parts[p]; s.cycle.open && t.delivered != t.committed {
		s.cycle.spoilt = fmt.Errorf("partition %s was lost in the middle of a transaction with its records", p)
	}
	s.forget(p)
}

func (s *Session) forget(p pipeline.Partition) {
	delete(s.parts, p)
	s.lag.forget(p)
	s.trimmer.forget(p)
}

// nextEpoch never repeats in a process, so that a batch of an earlier assignment
// cannot be taken for one of this.
func (s *Session) nextEpoch() uint64 {
	s.epoch++
	return s.epoch
}
