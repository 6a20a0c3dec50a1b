package pipeline

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// A memory that grows while it is copied is in other places of the body afterwards: the
// copy is given up, it is said, and another one made. A restart restores the grown memory
// from that.
func TestCheckpointOfAMemoryThatGrows(t *testing.T) {
	s, cfg := durable(t, 1)
	growEarly(&cfg.Rules, 2*copyBuffers*copyStep)
	const ids = 100
	count(s, 0, ids)
	log, text := logged()
	cfg.Logger = log
	shelf := s.log.checkpoints
	shelf.finished = newTruth(t, s, cfg.Rules).check
	read := make(chan struct{}) // all that is in the stream
	shelf.before = func(step string) error {
		if step == "write" {
			<-read // so it grows while the body is copied
		}
		return nil
	}
	var ends []error
	cfg.Events.Checkpointed = func(_ Partition, _ time.Duration, _ uint64, err error) {
		ends = append(ends, err)
	}
	m := newMember(s, 1, 5, nil)
	all := sync.OnceFunc(func() { close(read) })
	m.until(func() bool {
		all()
		return len(ends) > 0 && ends[len(ends)-1] == nil
	})
	e, err := run(t, s, m, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if ends[0] == nil || !strings.Contains(ends[0].Error(), "grew") || errors.Is(ends[0], errGivenUp) {
		t.Errorf("the first checkpoint ended with %v, want it given up", ends[0])
	}
	if w := e.Snapshot().Partitions[0].Window; w.Slabs == 0 || w.Full {
		t.Errorf("%d slabs, full: %v", w.Slabs, w.Full)
	}
	if line := lineWith(text.String(), "has grown"); !strings.Contains(line, "slabs=") || !strings.Contains(line, "partition=in/0") {
		t.Errorf("the log says %q", line)
	}
	count(s, 0, ids) // each once more
	if _, err := run(t, s, newMember(s, 2, 50, nil), cfg); err != nil {
		t.Fatal(err)
	}
	if shelf.counted("loaded") == 0 {
		t.Error("the second run did not restore from the checkpoint")
	}
	if n := len(s.out[p0]); n != ids {
		t.Errorf("%d records came out, want %d", n, ids)
	}
}
