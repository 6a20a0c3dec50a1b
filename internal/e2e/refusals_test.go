//go:build unix

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestRefusals: what cannot work is refused at the start, in words that say what
// is wrong, where, and what to do.
func TestRefusals(t *testing.T) {
	s := newScene(t, 2, nil, nil)
	three := settings{}.topic(t, s.brokers, 3)
	tests := []struct {
		name         string
		flags        []string
		code         int
		errors, hint []string
	}{
		{"broker", []string{"brokers=127.0.0.1:1"}, 1, []string{"127.0.0.1:1", "refused"}, []string{"broker"}},
		{"input", []string{"in=" + s.in + "x"}, 1, []string{`input topic "` + s.in + `x" does not exist`}, []string{"check the name"}},
		{"output", []string{"out=" + s.out + "x"}, 1, []string{`output topic "` + s.out + `x" does not exist`}, []string{"--create-topics"}},
		{"divert", []string{"divert-topic=" + s.out + "x"}, 1, []string{`"` + s.out + `x" does not exist`}, []string{"--create-topics"}},
		{"partitions", []string{"out=" + three}, 1, []string{three, "3 partitions", s.in, "has 2"}, []string{"partition count"}},
		{"inputs", []string{"in=" + s.in + "," + three}, 1, []string{three, "3 partitions", s.in, "has 2"}, []string{"one process group for each input"}},
		{"loop", []string{"out=" + s.in}, 2, []string{"--out", s.in, "is an input"}, nil},
		{"txn-timeout", []string{"txn-timeout=16m"}, 1, []string{"16m0s", "transaction.max.timeout.ms", "15m0s"}, []string{"--txn-timeout", "transaction.max.timeout.ms"}},
		{"session-timeout", []string{"session-timeout=1h"}, 1, []string{"session timeout of 1h0m0s", "group.max.session.timeout.ms"}, []string{"--session-timeout"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			own := *s
			own.t = t
			d := own.run(test.flags...)
			d.ends(test.code)
			d.line(append(test.errors, "error: ")...)
			if test.hint != nil {
				d.line(append(test.hint, "hint: ")...)
			}
		})
	}
	if got := s.read(s.out); len(got) != 0 {
		t.Errorf("a refused run has written: %v", got)
	}
}

// TestCreateTopics: topics that are missing are made where that is asked for,
// with the input's partitions.
func TestCreateTopics(t *testing.T) {
	s := newScene(t, 3, nil, nil)
	out, aside := s.out+"-made", s.out+"-aside"
	s.deleteAfter(out, aside)
	s.out = out
	for p := range int32(3) {
		s.ids(p, "a", "b", "a")
	}
	s.write(&kgo.Record{Value: []byte("{"), Timestamp: time.Now()})
	d := s.run("out="+out, "divert-topic="+aside, "create-topics=true", "on-invalid=divert")
	s.caughtUp(d)
	if sum := d.stop(); sum.Out != 6 || sum.Diverted != 1 {
		t.Errorf("%d out and %d diverted, want 6 and 1", sum.Out, sum.Diverted)
	}
	s.check()
	topics, err := s.admin.ListTopics(s.ctx(), out, aside)
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{out, aside} {
		if n := len(topics[topic].Partitions); n != 3 {
			t.Errorf("topic %s has %d partitions, want 3", topic, n)
		}
	}
	if got := s.read(aside); len(got[0]) != 1 || string(got[0][0].Value) != "{" {
		t.Errorf("the divert topic has %v, want the one invalid record", got)
	}
}

// TestRetimed: a time that the output would refuse is moved to one that it takes;
// the record comes out and is counted.
func TestRetimed(t *testing.T) {
	const hour = time.Hour
	anyTime := settings{"message.timestamp.before.max.ms": "9223372036854775807", "message.timestamp.after.max.ms": "9223372036854775807"}
	s := newScene(t, 1, anyTime, settings{"message.timestamp.before.max.ms": "3600000", "message.timestamp.after.max.ms": "3600000"})
	s.odd("late", "ahead", "no_time", "jump", "retimed")
	begin := time.UnixMilli(time.Now().UnixMilli())
	times := []time.Time{
		begin.Add(-30 * time.Minute), begin.Add(-3 * hour), begin.Add(30 * time.Minute), begin.Add(3 * hour),
		time.UnixMilli(0), time.UnixMilli(-1), begin,
	}
	for i, at := range times {
		r := event(0, fmt.Sprint(i))
		r.Timestamp = at
		s.write(r)
		s.expect(0, string(r.Value))
	}
	d := s.run()
	s.caughtUp(d)
	sum := d.stop()
	s.check()
	if sum.Retimed != 3 || sum.Out != uint64(len(times)) || sum.NoTime != 2 || sum.Ahead != 2 {
		t.Errorf("%d retimed, %d out, %d without a time, %d ahead; want 3, %d, 2 and 2", sum.Retimed, sum.Out, sum.NoTime, sum.Ahead, len(times))
	}
	const slack = time.Minute
	end := time.Now()
	for i, r := range s.read(s.out)[0] {
		kept := []int{0, 2, 5, 6}
		switch {
		case slices.Contains(kept, i) && !r.Timestamp.Equal(times[i]):
			t.Errorf("record %d has the time %v, want its own, %v", i, r.Timestamp, times[i])
		case !slices.Contains(kept, i) && (r.Timestamp.Before(begin.Add(-hour)) || r.Timestamp.After(end.Add(hour)) ||
			r.Timestamp.After(end.Add(-hour+slack)) && r.Timestamp.Before(begin.Add(hour-slack))):
			t.Errorf("record %d has the time %v, want one just inside an hour of %v", i, r.Timestamp, begin)
		}
	}
}

// TestAppendTime: an output that stamps records itself takes any time, and
// nothing of it counts as moved.
func TestAppendTime(t *testing.T) {
	anyTime := settings{"message.timestamp.before.max.ms": "9223372036854775807"}
	s := newScene(t, 1, anyTime, settings{"message.timestamp.type": "LogAppendTime"})
	for _, id := range []string{"a", "b", "a"} {
		r := event(0, id)
		r.Timestamp = time.UnixMilli(1_000_000_000_000)
		s.write(r)
		s.expect(0, string(r.Value))
	}
	d := s.run()
	s.caughtUp(d)
	if sum := d.stop(); sum.Retimed != 0 || sum.Out != 2 || sum.Duplicate != 1 {
		t.Errorf("%d retimed, %d out, %d duplicate, want 0, 2 and 1", sum.Retimed, sum.Out, sum.Duplicate)
	}
	s.check()
}

// TestUnreadableValues: what is no JSON, or null, passes and is counted.
func TestUnreadableValues(t *testing.T) {
	s := newScene(t, 1, nil, nil)
	values := [][]byte{
		[]byte(`{"id":"a"}`), []byte(`{"id":`), []byte(`not json`), {}, nil, []byte("\xff\xfe\x00"), []byte(`[1]`), []byte(`{"id":[1]}`),
		[]byte(`{"id":`), nil, []byte(`{"id":"a"`), // its ID is known before it breaks off
	}
	var want []*kgo.Record
	now := time.UnixMilli(time.Now().UnixMilli())
	for i, v := range values {
		r := &kgo.Record{Value: v, Timestamp: now}
		s.write(r)
		if i < len(values)-1 {
			want = append(want, r)
		}
	}
	d := s.run()
	s.caughtUp(d)
	sum := d.stop()
	if sum.Unique != 1 || sum.Duplicate != 1 || sum.Unique+sum.Duplicate+sum.Missing+sum.Invalid != uint64(len(values)) || sum.Invalid != 4 {
		t.Errorf("the summary is %+v, want 1 unique, 1 duplicate, 4 invalid of %d", sum, len(values))
	}
	sameRecords(t, s.read(s.out)[0], want)
}
