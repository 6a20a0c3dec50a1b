//go:build unix

package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// TestCase_EOS_23 kills the process again and again in the middle of its work, and
// starts it anew at once: a reader of committed records sees each of the 300,000
// events once, and each record that was dropped has one copy in the topic for
// duplicates. 50 kills in the long run.
func TestCase_EOS_23(t *testing.T) {
	const events = 300_000
	kills := 5
	if long() {
		kills = 50
	}
	w := clicks(t, 10, false)
	w.Events, w.Copies = events, events/10
	s := newStream(t, w)
	random := rand.New(rand.NewPCG(w.Seed, 1))
	aside := kafkatest.Topic(t, s.broker.Addresses(), 3, map[string]*string{"message.timestamp.after.max.ms": kadm.StringPtr("9223372036854775807")})
	args := []string{"--capacity", "10M", "--fpr", "1e-6", "--session-timeout", "6s", "--commit-interval", "10ms", "--duplicates-topic", aside}

	// A part is kept back so that the last process has work, come what may.
	last := w.Records() / 20
	s.feed(t, w.Records()-last)
	left := int64(w.Records() - last)
	for n := range kills {
		p := s.run(t, "a", args...)
		// It commits once at least, goes on to a random place, and dies at any point
		// of a transaction.
		share := left / int64(kills+1-n)
		s.awaitLag(t, max(0, left-1-random.Int64N(share/4+1)))
		time.Sleep(time.Duration(random.IntN(10_000)) * time.Microsecond)
		p.kill(t)
		var err error
		if left, _, err = s.broker.Lag(t.Context(), s.group, s.in); err != nil {
			t.Fatal(err)
		}
		t.Logf("killed with %d records to go", left)
	}
	s.feed(t, last)
	p := s.run(t, "a", args...)
	s.awaitLag(t, 0)
	p.stop(t)
	r := s.verify(t, 1e-6)
	s.checkOnce(t, 0)
	s.checkCopies(t, aside, int(r.In-r.Out))
}

// checkCopies fails unless as many records as were dropped have a copy, and none two.
func (s *stream) checkCopies(t *testing.T, topic string, dropped int) {
	t.Helper()
	copies := map[string]int{} // by where the record is in the input
	s.read(t, topic, func(r *pipeline.Record) {
		at := map[string]string{}
		for _, h := range r.Headers {
			at[h.Name] = string(h.Value)
		}
		copies[at[kafkaio.HeaderPartition]+"/"+at[kafkaio.HeaderOffset]]++
	})
	for at, n := range copies {
		if n > 1 {
			t.Errorf("the record at %s has %d copies", at, n)
		}
	}
	if len(copies) != dropped {
		t.Errorf("%d records have copies, %d were dropped", len(copies), dropped)
	}
}

// TestHandOver lets two processes share the stream while each comes and goes,
// by a clean stop and by a crash: partitions change hands with what was seen in
// them, and each event comes out once.
func TestHandOver(t *testing.T) {
	const events, copies = 300_000, 30_000
	rounds := 1
	if long() {
		rounds = 5
	}
	w := clicks(t, 10, false)
	w.Events, w.Copies = events, copies
	s := newStream(t, w)
	// Nobody restarts b, so its open transaction holds its partitions up until it
	// times out.
	args := []string{"--capacity", "10M", "--fpr", "1e-6", "--session-timeout", "6s", "--txn-timeout", "6s", "--commit-interval", "50ms"}

	step := w.Records()/(4*rounds) + 1
	a := s.run(t, "a", args...)
	for range rounds {
		s.feed(t, step)
		b := s.run(t, "b", args...)
		s.awaitShared(t, 2)
		s.feed(t, step)
		s.awaitLag(t, int64(step)/2)
		a.stop(t)
		s.feed(t, step)
		s.awaitLag(t, 0)
		a = s.run(t, "a", args...)
		s.awaitShared(t, 2)
		s.feed(t, step)
		s.awaitLag(t, int64(step)*9/10)
		b.kill(t)
		s.awaitShared(t, 1)
	}
	s.awaitLag(t, 0)
	a.stop(t)
	s.verify(t, 1e-6)
	s.checkOnce(t, 0)
}
