package pipeline

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// KEY-20, one partition: copies of one ID in one batch, and one by one.
func TestCase_KEY_20(t *testing.T) {
	for _, batch := range []int{1000, 1} {
		s := newStream(1)
		for i := range 1000 {
			s.add(0, "same", epoch0+int64(i))
		}
		e, err := run(t, s, newMember(s, 1, batch, nil), engineConfig())
		if err != nil {
			t.Fatal(err)
		}
		if out := s.out[p0]; len(out) != 1 || out[0].offset != 0 {
			t.Errorf("batches of up to %d: %d copies came out", batch, len(out))
		}
		if c := e.Snapshot().Counts; c.Verdicts[Duplicate] != 999 || c.Ages[0] != 999 {
			t.Errorf("batches of up to %d: %+v", batch, c)
		}
	}
}

// STATE-01: what an aborted transaction learned is forgotten, whatever ended it, and
// in no changelog.
func TestCase_STATE_01(t *testing.T) {
	for _, f := range []fault{faultAbort, faultDeliver, faultLost, faultCrash} {
		s := newStream(1)
		for i, id := range []string{"a", "b", "c"} {
			s.add(0, id, epoch0+int64(i))
		}
		m := newMember(s, 1, 10, nil)
		m.fault = func(n int) fault {
			if n < 3 {
				return f
			}
			return faultNone
		}
		cfg := engineConfig()
		cfg.Rules.LogChanges = true
		_, err := run(t, s, m, cfg)
		if f == faultCrash && errors.Is(err, errCrash) {
			_, err = run(t, s, newMember(s, 2, 10, nil), cfg)
		}
		if err != nil {
			t.Fatal(err)
		}
		checkOutput(t, s, map[Partition][]int64{p0: {0, 1, 2}})
		hashes := 0
		for _, c := range s.log.of(p0).taught {
			for _, run := range c.Learned {
				hashes += len(run.Hashes)
			}
		}
		if hashes != 3 {
			t.Errorf("fault %d: the changelog has %d hashes, want 3", f, hashes)
		}
	}
}

// STATE-15: two copies in an aborted batch, read again in batches cut otherwise,
// give one.
func TestCase_STATE_15(t *testing.T) {
	for cut := uint64(1); cut < 30; cut++ {
		s := newStream(1)
		for i := range 10 {
			s.add(0, fmt.Sprint(i), epoch0)
		}
		s.add(0, "x", epoch0)
		s.add(0, "x", epoch0)
		m := newMember(s, cut, 5, nil)
		m.fault = func(n int) fault { return fault(1 - n%2) }
		cfg := engineConfig()
		cfg.Rules.LogChanges = cut%2 == 0
		if _, err := run(t, s, m, cfg); err != nil {
			t.Fatal(err)
		}
		checkOutput(t, s, map[Partition][]int64{p0: {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}})
	}
}

// EOS-18: the record that the output refuses goes where diverted ones go, and
// its 999 neighbours come out.
func TestCase_EOS_18(t *testing.T) {
	stream := func() *stream {
		s := newStream(2)
		for i := range 1000 {
			s.add(0, fmt.Sprint(i), epoch0)
			s.add(1, fmt.Sprint(i), epoch0)
		}
		s.in[p0][500].Value = []byte(strings.Repeat("x", 1000))
		s.sizeLimit = 900
		return s
	}
	s := stream()
	cfg := engineConfig()
	cfg.Rules.Diverts = true
	if _, err := run(t, s, newMember(s, 1, 300, nil), cfg); err != nil {
		t.Fatal(err)
	}
	if out, aside := s.out[p0], s.diverted[p0]; len(out) != 999 || len(aside) != 1 ||
		aside[0].offset != 500 || aside[0].reason != ReasonTooLarge {
		t.Errorf("%d came out, %d diverted", len(out), len(aside))
	}

	// With nowhere to divert to, the partition stops before it; the other goes on.
	s = stream()
	m := newMember(s, 1, 300, nil)
	m.halted = func() bool {
		return s.positions[p0].Next == 500 && s.positions[Partition{"in", 1}].Next == 1000
	}
	_, err := run(t, s, m, engineConfig())
	if err == nil || !strings.Contains(err.Error(), "partition in/0 stopped before offset 500: record too large for the output") {
		t.Errorf("error %v", err)
	}
	if n := len(s.out[p0]); n != 500 {
		t.Errorf("%d records of the stopped partition came out, want the 500 before it", n)
	}
	if n := len(s.out[Partition{"in", 1}]); n != 1000 {
		t.Errorf("%d records of the other partition came out, want all 1000", n)
	}

	// The divert topic refuses it, too.
	s = stream()
	s.divertLimit = 900
	m = newMember(s, 1, 300, nil)
	m.halted = func() bool { return s.positions[p0].Next == 500 && s.positions[Partition{"in", 1}].Next == 1000 }
	if _, err = run(t, s, m, cfg); err == nil || len(s.out[p0]) != 500 || len(s.diverted[p0]) != 0 {
		t.Errorf("error %v, %d came out", err, len(s.out[p0]))
	}
}

// When nothing is left to go on with, the engine says so and ends.
func TestEngineEndsWhenEveryPartitionHasStopped(t *testing.T) {
	s := newStream(1)
	s.in[p0] = []Record{{Key: []byte("a"), Time: epoch0}, {Time: epoch0}}
	cfg := engineConfig()
	cfg.Rules.OnMissing = Fail
	_, err := run(t, s, newMember(s, 1, 10, nil), cfg)
	if err == nil || !strings.Contains(err.Error(), "partition in/0 stopped before offset 1: record without an ID") {
		t.Errorf("error %v", err)
	}
	checkOutput(t, s, map[Partition][]int64{p0: {0}})
	if s.positions[p0].Next != 1 {
		t.Errorf("committed %d, want 1", s.positions[p0].Next)
	}
}

// A stop in the middle of a cycle finishes the cycle.
func TestStopFinishesTheCycle(t *testing.T) {
	s := newStream(1)
	for i := range 100 {
		s.add(0, fmt.Sprint(i), epoch0)
	}
	cfg := engineConfig()
	cfg.CommitInterval = time.Hour
	m := newMember(s, 1, 10, nil)
	m.halted = func() bool { return m.open && m.reading[p0] == 100 }
	e, err := run(t, s, m, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.out[p0]); n != 100 || e.Snapshot().Counts.In != 100 {
		t.Errorf("%d records came out, counted %d", n, e.Snapshot().Counts.In)
	}
}
