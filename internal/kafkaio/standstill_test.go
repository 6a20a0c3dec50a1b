package kafkaio

import (
	"testing"
	"time"

	"github.com/streamdedup/streamdedup/pipeline"
)

// A partition that stands still is told from one that moves, is done, is not read,
// or waits for an open transaction, by what was seen of it and no clock.
func TestCase_EOS_14_Standstill(t *testing.T) {
	const limit = 2 * time.Minute
	began := time.UnixMilli(1_764_000_000_000)
	read := func(committed, stable, end int64) sight { return sight{true, committed, stable, end} }
	for _, c := range []struct {
		name   string
		sights []sight // one every 30 seconds
		want   string  // stuck, held or nothing, after the last
	}{
		{"nothing was seen", nil, ""},
		{"done", []sight{read(5, 5, 5), read(5, 5, 5), read(5, 5, 5), read(5, 5, 5), read(5, 5, 5), read(5, 5, 5)}, ""},
		{"moves", []sight{read(1, 9, 9), read(2, 9, 9), read(3, 9, 9), read(4, 9, 9), read(5, 9, 9), read(6, 9, 9)}, ""},
		{"not for long", []sight{read(1, 9, 9), read(1, 9, 9), read(1, 9, 9), read(1, 9, 9)}, ""},
		{"stands", []sight{read(1, 9, 9), read(1, 9, 9), read(1, 9, 9), read(1, 9, 9), read(1, 9, 9)}, "stuck"},
		{"stands while more is written", []sight{read(1, 5, 5), read(1, 6, 6), read(1, 7, 7), read(1, 8, 8), read(1, 9, 9)}, "stuck"},
		{"moved at last", []sight{read(1, 9, 9), read(1, 9, 9), read(1, 9, 9), read(1, 9, 9), read(2, 9, 9)}, ""},
		{"not read, since it has stopped", []sight{{false, 1, 9, 9}, {false, 1, 9, 9}, {false, 1, 9, 9}, {false, 1, 9, 9}, {false, 1, 9, 9}}, ""},
		{"read again a moment ago", []sight{read(1, 9, 9), read(1, 9, 9), read(1, 9, 9), {false, 1, 9, 9}, read(1, 9, 9)}, ""},
		{"had nothing to do before", []sight{read(1, 1, 1), read(1, 1, 1), read(1, 1, 1), read(1, 1, 1), read(1, 9, 9)}, ""},
		{"open transaction", []sight{read(5, 5, 9), read(5, 5, 12)}, "held"},
		{"open transaction, just seen", []sight{read(5, 5, 9)}, ""},
		{"open transactions that follow each other", []sight{read(5, 5, 9), read(8, 8, 12)}, ""},
		{"open transaction, behind it", []sight{read(2, 5, 9), read(2, 5, 9)}, ""},
		{"open transaction that ended", []sight{read(5, 5, 9), read(5, 9, 9)}, ""},
	} {
		var s standstill
		now := began
		for i, at := range c.sights {
			now = began.Add(time.Duration(i) * 30 * time.Second)
			s.see(now, at)
		}
		p := pipeline.Partition{Topic: "clicks", Number: 3}
		still, found := s.of(p, now, limit)
		got := ""
		switch {
		case found && still.OpenTransaction:
			got = "held"
		case found:
			got = "stuck"
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q (%v)", c.name, got, c.want, still)
		}
		if last := len(c.sights) - 1; found && (still.Partition != p || still.Offset != c.sights[last].committed ||
			still.Lag != c.sights[last].stable-still.Offset || still.For != time.Duration(last)*30*time.Second) {
			t.Errorf("%s: it is said to be %v, %+v", c.name, still, still)
		}
	}
}

// What stands still is said once, and again when it has moved meanwhile.
func TestStandstillIsSaidOnce(t *testing.T) {
	const limit = time.Minute
	p := pipeline.Partition{Topic: "clicks"}
	l := newLags()
	l.resume(p, 4)
	now := time.UnixMilli(1_764_000_000_000)
	f := func(after time.Duration, want int) {
		t.Helper()
		now = now.Add(after)
		l.see(p, now, 10, 10)
		if got := l.unsaid(now, limit); len(got) != want {
			t.Errorf("%d partitions are to be said, want %d: %v", len(got), want, got)
		}
	}
	f(0, 0)
	f(limit, 1)
	f(limit, 0)
	l.committed(p, 10)
	f(limit, 0)
	l.resume(p, 4) // as after a rollback
	f(0, 0)
	f(limit, 1)
	l.forget(p)
	f(limit, 0)
}

func TestStuckLimit(t *testing.T) {
	for txn, want := range map[time.Duration]time.Duration{
		2 * time.Second: time.Minute, time.Minute: 2 * time.Minute, 10 * time.Minute: 20 * time.Minute,
	} {
		if got := (Config{TxnTimeout: txn}).stuckLimit(); got != want {
			t.Errorf("with transactions of %v a partition stands still after %v, want %v", txn, got, want)
		}
	}
}
