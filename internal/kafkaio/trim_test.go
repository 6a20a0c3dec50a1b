package kafkaio

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

// The changelog loses what the window has forgotten and nothing else: after a trim
// and a restart the last seven generations are known, by the changelog alone.
func TestTrimLog(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.rules.Window.Span = 7 * time.Second
		s.cfg.WarmUp = false
		r := s.start()
		const seconds, each = 30, 20
		begin := time.Now().Add(-time.Hour).Truncate(time.Second)
		for i := range seconds {
			for k := range each {
				record := s.record(0, fmt.Sprintf("%d-%d", i, k))
				record.Timestamp = begin.Add(time.Duration(i) * time.Second)
				s.write(record)
			}
			r.judged(each * (i + 1)) // a change for each second at least
		}
		p := pipeline.Partition{Topic: s.cfg.In[0]}
		r.trimmed(p)
		log, err := r.session.logBounds(ctx(t), p)
		if err != nil {
			t.Fatal(err)
		}
		first, _, err := r.session.changeAt(ctx(t), p, log.start, log.stable)
		if err != nil || first == nil {
			t.Fatalf("the first change is %v, %v", first, err)
		}
		last, err := r.session.lastChange(ctx(t), p, log.start, log.stable)
		if err != nil || last == nil {
			t.Fatalf("the last change is %v, %v", last, err)
		}
		if age := last.State.Window.Rotation - first.State.Window.Rotation; age != 7 {
			t.Errorf("the oldest change that is left is of age %d, want 7", age)
		}
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		r = s.start()
		want := map[string]int{}
		for i := range seconds {
			n := 1
			if seconds-1-i > 7 {
				n = 2 // forgotten: it passes once more
			}
			for k := range each {
				record := s.record(0, fmt.Sprintf("%d-%d", i, k))
				record.Timestamp = begin.Add((seconds - 1) * time.Second)
				s.write(record)
				want[fmt.Sprintf("%d-%d", i, k)] = n
			}
		}
		r.judged(seconds * each)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), want)
	})
}

// trimmed trims the changelog of a partition up to what is committed now.
func (r *run) trimmed(p pipeline.Partition) {
	r.t.Helper()
	t := r.session.trimmer
	t.close() // what comes by itself may be in the middle of it, or have been
	t.mu.Lock()
	t.parts[p].tried = false
	t.mu.Unlock()
	t.round(ctx(r.t))
}

// A changelog of which nothing is forgotten stays as it is.
func TestTrimLogOfNothing(t *testing.T) {
	s := newScene(t, kafkatest.Fake(t, kfake.NumBrokers(1)).ListenAddrs(), 1)
	s.unique(3)
	r := s.start()
	r.judged(3)
	p := pipeline.Partition{Topic: s.cfg.In[0]}
	for range 3 {
		if err := r.session.trimLog(ctx(t), p, 0); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := r.session.logBounds(ctx(t), p); err != nil || b.start != 0 || b.stable == 0 {
		t.Errorf("%+v, %v", b, err)
	}
}

// A process that had lost the partition may have written late, with a rotation of
// long ago, between the changes of its owner. None of the owner's is lost by it.
func TestTrimLogOutOfOrder(t *testing.T) {
	s := newScene(t, kafkatest.Fake(t, kfake.NumBrokers(1)).ListenAddrs(), 1)
	s.cfg.Delivery = AtLeastOnce
	session, err := Open(ctx(t), s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close(ctx(t), true) })
	p := pipeline.Partition{Topic: s.cfg.In[0]}
	log := ChangelogTopic(s.cfg.Group, s.cfg.In[0])
	for i, rotation := range []uint64{1, 2, 10, 11, 1, 12} {
		c := pipeline.Change{Begin: int64(i), Next: int64(i + 1), Acknowledged: true}
		c.State.Window = window.State{Slice: 1000, StreamTime: int64(rotation) * 1000, Believed: true, Rotation: rotation}
		for _, value := range c.AppendRecords(nil) {
			s.write(&kgo.Record{Topic: log, Value: value})
		}
	}
	if err := session.trimLog(ctx(t), p, 12); err != nil {
		t.Fatal(err)
	}
	if b, err := session.logBounds(ctx(t), p); err != nil || b.start != 2 || b.stable != 6 {
		t.Errorf("%+v, %v: want all but the first two", b, err)
	}
}
