package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/streamdedup/streamdedup/bench/peers"
)

const (
	// slots are how many parts of the stream may have what the window holds: it is
	// cut in two, and one more is ending.
	slots         = 3
	slot          = peers.Window / (slots - 1)
	cacheBytes    = 256 << 20
	memTableBytes = 64 << 20
	// filterBits of a Bloom filter for each key keep most look-ups from the disk.
	filterBits = 10
)

// store remembers an ID as a key that begins with the slot of its time: what is old is
// dropped with all of its slot, and a look-up asks each slot that is left.
type store struct {
	db      *pebble.DB
	newest  byte
	key     []byte
	pending map[string]bool // IDs of the batch that is not in the store yet
}

func open(dir string) (*store, error) {
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref()
	options := &pebble.Options{Cache: cache, MemTableSize: memTableBytes, Logger: quiet{}}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(filterBits)
	}
	db, err := pebble.Open(dir, options)
	if err != nil {
		return nil, err
	}
	return &store{db: db, pending: map[string]bool{}}, nil
}

// Judge implements [peers.Judge].
func (s *store) Judge(stream *peers.Stream, from, to int, passed []bool) error {
	b := s.db.NewBatch()
	defer b.Close()
	clear(s.pending)
	for i := from; i < to; i++ {
		if err := s.move(b, stream.Slot(i, slot)); err != nil {
			return err
		}
		id := stream.ID(i)
		seen, err := s.seen(id)
		if err != nil {
			return err
		}
		if seen {
			continue
		}
		passed[i] = true
		s.pending[string(id)] = true
		if err := b.Set(s.at(s.newest, id), nil, nil); err != nil {
			return err
		}
	}
	return b.Commit(pebble.NoSync)
}

// move goes on to a slot and drops those that the window has left.
func (s *store) move(b *pebble.Batch, to byte) error {
	for s.newest < to {
		s.newest++
		if s.newest < slots {
			continue
		}
		if err := b.DeleteRange([]byte{s.newest - slots}, []byte{s.newest - slots + 1}, nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) seen(id []byte) (bool, error) {
	if s.pending[string(id)] {
		return true, nil
	}
	for back := range byte(min(slots, int(s.newest)+1)) {
		_, held, err := s.db.Get(s.at(s.newest-back, id))
		if err == nil {
			return true, held.Close()
		}
		if !errors.Is(err, pebble.ErrNotFound) {
			return false, err
		}
	}
	return false, nil
}

// at is the key of an ID in a slot, until the next call.
func (s *store) at(slot byte, id []byte) []byte {
	s.key = append(append(s.key[:0], slot), id...)
	return s.key
}

// Settle implements [peers.Judge]: all goes to the disk.
func (s *store) Settle() error { return s.db.Flush() }

// Bytes implements [peers.Judge].
func (s *store) Bytes() (uint64, error) { return s.db.Metrics().DiskSpaceUsage(), nil }

// quiet drops what Pebble says of its daily work, and ends the program as it asks.
type quiet struct{}

func (quiet) Infof(string, ...any) {}
func (quiet) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "pebble: "+format+"\n", args...)
}
func (q quiet) Fatalf(format string, args ...any) {
	q.Errorf(format, args...)
	os.Exit(1)
}
