package pipeline

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/keys"
)

// errCrash is the end of a process that a test kills.
var errCrash = errors.New("crashed on purpose")

// changelog is a stream's: what was committed with the output, no more and no less.
type changelog struct {
	parts map[Partition]*logPart
	// checkpoints are where restores look first, nil for nowhere.
	checkpoints *shelf
}

// logPart is one partition of it. A slot is an offset, empty where a marker lies.
type logPart struct {
	start int64 // what lies before is deleted
	slots [][]byte
	// taught is all that was ever committed, for the oracle.
	taught []Change
}

// append commits a change, and returns where the partition ends before the marker.
func (l *changelog) append(p Partition, c *Change) int64 {
	if l.parts == nil {
		l.parts = map[Partition]*logPart{}
	}
	part := l.parts[p]
	if part == nil {
		part = &logPart{}
		l.parts[p] = part
	}
	part.slots = append(part.slots, c.AppendRecords(nil)...)
	end := int64(len(part.slots))
	part.slots = append(part.slots, nil)
	kept := *c
	kept.Learned = nil
	for _, run := range c.Learned {
		run.Hashes = slices.Clone(run.Hashes)
		kept.Learned = append(kept.Learned, run)
	}
	part.taught = append(part.taught, kept)
	return end
}

// of is a copy of a partition.
func (l *changelog) of(p Partition) logPart {
	if l.parts[p] == nil {
		return logPart{}
	}
	part := *l.parts[p]
	part.slots, part.taught = slices.Clone(part.slots), slices.Clone(part.taught)
	return part
}

// trim deletes what the window has forgotten.
func (l *changelog) trim(p Partition) {
	part := l.parts[p]
	if part == nil {
		return
	}
	rotation := part.taught[len(part.taught)-1].State.Window.Rotation
	for at := part.start; at < int64(len(part.slots)); at++ {
		if part.slots[at] == nil {
			continue
		}
		c, last, err := ParseRecord(part.slots[at])
		switch {
		case err != nil || last && !c.State.Window.Forgotten(rotation):
			return
		case last:
			part.start = at + 1
		}
	}
}

// restoreLogged is a restore from the newest good checkpoint and the changelog.
func (s *stream) restoreLogged(p Partition, b Builder, at Position, log logPart) (Restored, error) {
	last := log.taught[len(log.taught)-1]
	if last.Next != at.Next {
		return Restored{}, fmt.Errorf("restore %s: committed up to %d, logged up to %d", p, at.Next, last.Next)
	}
	end := int64(len(log.slots))
	rebuild, from, err := s.loadNewest(p, b, last.State, end)
	if err != nil {
		return Restored{}, err
	}
	known := from > 0 // by a checkpoint
	from = max(from, log.start)
	first := at.Next
	for _, slot := range log.slots[from:] {
		if slot == nil {
			continue
		}
		c, complete, err := ParseRecord(slot)
		if err == nil {
			err = rebuild.LearnChange(&c)
		}
		if err != nil {
			return Restored{}, errors.Join(err, rebuild.Close())
		}
		if complete && !known {
			known, first = true, c.Begin
		}
	}
	if first == at.Next || first < rebuild.From() {
		first = rebuild.From()
	}
	return Restored{Shard: rebuild.Done(first, at.Next), Next: at.Next, LogEnd: end}, nil
}

// loadNewest begins with the newest checkpoint that can be loaded, and says from
// where on the changelog knows more.
func (s *stream) loadNewest(p Partition, b Builder, state State, end int64) (*Rebuild, int64, error) {
	if s.log.checkpoints == nil {
		r, err := b.Rebuild(state)
		return r, 0, err
	}
	for _, file := range s.log.checkpoints.List(p) {
		r, err := b.Rebuild(state)
		if err != nil {
			return nil, 0, err
		}
		body, err := file.Open()
		if file.Head().LogEnd > end {
			err = errors.New("newer than the changelog")
			s.log.checkpoints.count("newer")
		}
		if err == nil {
			if err = r.Load(file.Head(), body); err == nil {
				s.log.checkpoints.count("loaded")
				return r, file.Head().LogBegin, nil
			}
		}
		s.log.checkpoints.count("refused")
		if err := r.Close(); err != nil {
			return nil, 0, err
		}
	}
	r, err := b.Rebuild(state)
	return r, 0, err
}

// shelf keeps checkpoints in memory, the last two of each partition.
type shelf struct {
	// before is asked before each step: create, write, finish. It may take its time.
	before func(step string) error
	// finished is shown every checkpoint that is done.
	finished func(*boxed)

	mu     sync.Mutex
	boxes  map[Partition][]*boxed
	counts map[string]int
}

// boxed is one checkpoint.
type boxed struct {
	shelf   *shelf
	head    CheckpointHead
	body    []byte
	damaged bool
}

func (s *shelf) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.counts[what]++
}

func (s *shelf) counted(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[what]
}

func (s *shelf) step(name string) error {
	s.count(name)
	if s.before == nil {
		return nil
	}
	return s.before(name)
}

func (s *shelf) Create(p Partition) (CheckpointWriter, error) {
	return &boxed{shelf: s, head: CheckpointHead{Partition: p}}, s.step("create")
}

func (s *shelf) List(p Partition) []CheckpointFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	var files []CheckpointFile
	for _, b := range slices.Backward(s.boxes[p]) {
		files = append(files, b)
	}
	return files
}

func (b *boxed) Write(body []byte) (int, error) {
	if err := b.shelf.step("write"); err != nil {
		return 0, err
	}
	b.body = append(b.body, body...)
	return len(body), nil
}

func (b *boxed) Finish(h *CheckpointHead) error {
	if err := b.shelf.step("finish"); err != nil {
		return err
	}
	p := b.head.Partition
	b.head = *h
	if b.shelf.finished != nil {
		b.shelf.finished(b)
	}
	b.shelf.mu.Lock()
	defer b.shelf.mu.Unlock()
	if b.shelf.boxes == nil {
		b.shelf.boxes = map[Partition][]*boxed{}
	}
	if kept := b.shelf.boxes[p]; len(kept) == 2 {
		b.shelf.boxes[p] = kept[1:]
	}
	b.shelf.boxes[p] = append(b.shelf.boxes[p], b)
	return nil
}

func (b *boxed) Abort() { b.shelf.count("abort") }

func (b *boxed) Name() string { return fmt.Sprintf("%s at %d", b.head.Partition, b.head.Next) }

func (b *boxed) Head() *CheckpointHead { return &b.head }

func (b *boxed) Open() (io.ReadCloser, error) { return io.NopCloser(&boxReader{b: b}), nil }

// boxReader fails in the middle of what is damaged.
type boxReader struct {
	b  *boxed
	at int
}

func (r *boxReader) Read(into []byte) (int, error) {
	left := r.b.body[r.at:]
	if r.b.damaged && r.at > 0 {
		return 0, errors.New("damaged on purpose")
	}
	if len(left) == 0 {
		return 0, io.EOF
	}
	n := copy(into, left[:min(len(left), 1<<16)])
	r.at += n
	return n, nil
}

// truth compares a finished checkpoint with what was committed: all that was before
// it began is in it, in its generation, and nothing that was not committed by its
// end.
type truth struct {
	t      *testing.T
	s      *stream
	rules  Config
	hashes map[Partition][]filter.Hash // of the input
}

func newTruth(t *testing.T, s *stream, rules Config) *truth {
	t.Helper()
	extractor, err := keys.Parse(rules.Keys, rules.Seed, rules.IDs)
	if err != nil {
		t.Fatal(err)
	}
	x := &truth{t: t, s: s, rules: rules, hashes: map[Partition][]filter.Hash{}}
	for p, records := range s.in {
		for i := range records {
			hash, _ := extractor.Hash(&records[i])
			x.hashes[p] = append(x.hashes[p], hash)
		}
	}
	return x
}

func (x *truth) check(b *boxed) {
	h := &b.head
	x.s.mu.Lock()
	log := x.s.log.of(h.Partition)
	x.s.mu.Unlock()
	must, may := map[filter.Hash]uint8{}, map[filter.Hash]uint8{}
	begins := h.Begin == 0
	for _, c := range log.taught {
		if c.Next > h.Next {
			break
		}
		begins = begins || c.Next == h.Begin
		for _, run := range c.Learned {
			age := h.State.Window.Rotation - run.Rotation
			for _, hash := range run.Hashes {
				if age >= filter.Generations {
					continue
				}
				may[hash] |= 1 << age
				if c.Next <= h.Begin {
					must[hash] |= 1 << age
				}
			}
		}
	}
	if !begins {
		x.t.Errorf("%s: no commit ended at its begin, %d", b.Name(), h.Begin)
	}
	r, err := NewRebuild(x.rules, h.Partition, h.State)
	if err == nil {
		err = r.Load(h, &boxReader{b: b})
	}
	if err != nil {
		x.t.Errorf("%s cannot be loaded: %v", b.Name(), err)
		return
	}
	hashes := x.hashes[h.Partition]
	ages := make([]uint8, len(hashes))
	r.shard.set.TestAndAdd(hashes, make([]bool, len(hashes)), 0, ages)
	missing, never := 0, 0
	for i, hash := range hashes {
		if must[hash]&^ages[i] != 0 {
			missing++
		}
		if ages[i]&^may[hash] != 0 {
			never++
		}
	}
	if missing > 0 || never > 0 {
		x.t.Errorf("%s, begun at %d: %d hashes are missing, %d were not committed", b.Name(), h.Begin, missing, never)
	}
	if err := r.Close(); err != nil {
		x.t.Error(err)
	}
}
