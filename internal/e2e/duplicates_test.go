//go:build unix

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// untagged takes the tag off a record and returns its value, if it has one.
func untagged(r *kgo.Record) (own *kgo.Record, tag string) {
	const header = "streamdedup-duplicate"
	last := len(r.Headers) - 1
	if last < 0 || r.Headers[last].Key != header {
		return r, ""
	}
	own = &kgo.Record{}
	*own = *r
	own.Headers = r.Headers[:last]
	return own, string(r.Headers[last].Value)
}

// TestCase_KEY_22_Tagged: where duplicates are tagged everything comes out, in its
// order and byte for byte; a duplicate has one header more, behind its own.
func TestCase_KEY_22_Tagged(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newSceneOn(t, brokers, 1, nil, nil)
		s.keys = []string{"json:u"}
		// Early in a slice, so that a copy a second later is in its first's generation.
		const slice = 3_600_000/7 + 1
		at := time.UnixMilli(time.Now().UnixMilli()/slice*slice - slice)
		records := []*kgo.Record{
			{Key: []byte("k\x00\xff"), Value: []byte(`{"u":"a&b<c>","n":1.10,"x":9007199254740993 }`), Timestamp: at,
				Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("b")}, {Key: "a", Value: []byte{0, 0xff}}, {Key: "trace", Value: []byte("a")}}},
			{Value: []byte(`{"u":"a\u0026b<c>"}`), Timestamp: at.Add(time.Second),
				Headers: []kgo.RecordHeader{{Key: "streamdedup-duplicate", Value: []byte("own")}}},
			{Key: []byte{}, Value: []byte(`{"u":"b"}`), Timestamp: at},
			{Value: []byte(`{"u":"b"}`), Timestamp: at},
			{Value: []byte(`{"u":null}`), Timestamp: at},
			{Value: []byte(`{"u":null}`), Timestamp: at},
			{Value: []byte(`{"u":`), Timestamp: at},
			{Key: []byte("tombstone"), Timestamp: at},
		}
		var again []*kgo.Record
		for _, r := range records {
			c := *r
			again = append(again, &c)
		}
		s.write(again...)
		d := s.run("on-duplicate=tag")
		s.caughtUp(d)
		want := runSummary{In: 8, Unique: 2, Duplicate: 2, Missing: 3, Invalid: 1, Out: 8}
		if sum := d.stop(); sum != want {
			t.Errorf("the summary is %+v, want %+v", sum, want)
		}
		got := s.read(s.out)[0]
		var own []*kgo.Record
		for i, r := range got {
			stripped, tag := untagged(r)
			if repeat := i == 1 || i == 3; (tag == "0") != repeat {
				t.Errorf("record %d has the tag %q, is a duplicate: %t", i, tag, repeat)
			}
			own = append(own, stripped)
		}
		sameRecords(t, own, records)
		s.audited("--on-duplicate=tag")
	})
}

// audited fails unless the program's own audit finds nothing wrong.
func (s *scene) audited(more ...string) {
	s.t.Helper()
	args := append([]string{"verify", "--brokers", s.flags["brokers"], "--in", s.in, "--out", s.out, "--window", s.flags["window"]}, more...)
	for _, key := range s.keys {
		args = append(args, "--key", key)
	}
	p := start(s.t, args...)
	if err := p.wait(); err != nil {
		s.t.Errorf("verify: %v\n%s%s", err, &p.stdout, &p.stderr)
	}
}

// TestShadowMode: tagging shows what would be dropped, before it is. Dropping begins,
// and ends, with a restart that keeps the memory, also after a crash.
func TestShadowMode(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newSceneOn(t, brokers, 2, nil, nil)
		tagged := map[string]int{}
		first, again := series("a", 10), []string(nil)
		for _, way := range []string{"tag", "drop", "tag"} {
			d := s.run("on-duplicate=" + way)
			for p := range int32(2) {
				s.ids(p, first...)
				s.ids(p, again...)
			}
			if way == "tag" {
				for _, id := range again {
					tagged[string(event(0, id).Value)] += 2
				}
			}
			s.caughtUp(d)
			if way == "drop" {
				d.kill()
			} else if sum := d.stop(); sum.Dropped != 0 || sum.Duplicate != uint64(2*len(again)) || sum.Unique != 20 {
				t.Errorf("%d dropped, %d duplicates, %d unique; want none, %d and 20", sum.Dropped, sum.Duplicate, sum.Unique, 2*len(again))
			}
			again = append(again, first...)
			first = series(fmt.Sprintf("after-%s-%d-", way, len(again)), 10)
		}
		got, out := map[string]int{}, s.read(s.out)
		for p := range int32(2) {
			var values []string
			for _, r := range out[p] {
				if own, tag := untagged(r); tag == "" {
					values = append(values, string(own.Value))
				} else {
					got[string(own.Value)]++
				}
			}
			if !slices.Equal(values, s.want[p]) {
				t.Errorf("partition %d of the output, without what is tagged: %s", p, difference(values, s.want[p]))
			}
		}
		if !maps.Equal(got, tagged) {
			t.Errorf("tagged are %v, want %v", got, tagged)
		}
	})
}

// TestCase_OPS_05: what was dropped can be seen: the record itself, where it was, and
// which generation held its ID.
func TestCase_OPS_05(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newSceneOn(t, brokers, 2, nil, nil)
		s.odd("jump")
		aside := settings{}.topic(t, brokers, 2)
		at := time.UnixMilli(time.Now().UnixMilli())
		first := &kgo.Record{Partition: 1, Key: []byte("k1"), Value: []byte(`{"id":"x","n":1}`), Timestamp: at.Add(-30 * time.Minute)}
		copied := &kgo.Record{Partition: 1, Key: []byte("k2"), Value: []byte(`{"id":"x","n":2}`), Timestamp: at,
			Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("own")}}}
		want := *copied
		s.write(first, event(1, "other"), copied)
		d := s.run("duplicates-topic=" + aside)
		s.caughtUp(d)
		if sum := d.stop(); sum.Dropped != 1 || sum.Diverted != 0 || sum.Out != 2 {
			t.Errorf("%d dropped, %d diverted and %d out, want 1, 0 and 2: a copy is not a record diverted", sum.Dropped, sum.Diverted, sum.Out)
		}
		got := s.read(aside)[1]
		if len(got) != 1 {
			t.Fatalf("the topic for duplicates has %d records, want 1", len(got))
		}
		origin(t, got[0], "duplicate", s.in, 1, 2)
		own := *got[0]
		own.Headers = own.Headers[:1]
		sameRecord(t, &own, &want)
		// The window of an hour has generations of 514 s.
		const slice = 3600 / 7
		last := got[0].Headers[len(got[0].Headers)-1]
		age, err := strconv.Atoi(string(last.Value))
		if err != nil || last.Key != "streamdedup-age" || age < 1800-slice || age > 1800+slice {
			t.Errorf("the last header is %s: %s (%v), want an age of 1800 s, give or take %d", last.Key, last.Value, err, slice)
		}
	})
}

// TestDuplicatesTopicThroughCrashes kills the process when the broker has its output,
// or has committed it, again and again. Each duplicate that was dropped is in the topic
// for duplicates, with exactly-once once, and nothing else is.
func TestDuplicatesTopicThroughCrashes(t *testing.T) {
	kills := 6
	if long() {
		kills = 60
	}
	moments := []kmsg.Request{kmsg.NewPtrProduceRequest(), kmsg.NewPtrEndTxnRequest(), kmsg.NewPtrTxnOffsetCommitRequest()}
	for _, delivery := range []string{"exactly-once", "at-least-once"} {
		t.Run(delivery, func(t *testing.T) {
			s := newScene(t, 2, nil, nil)
			aside := settings{}.topic(t, s.brokers, 2)
			s.flags["delivery"], s.flags["duplicates-topic"] = delivery, aside
			want := map[string]int{} // by where a duplicate was
			for n := range kills {
				p := newProxy(t, s.brokers[0])
				d := s.run("brokers=" + p.address())
				d.ready(2)
				s.caughtUp(d)
				moment := moments[0]
				if delivery == "exactly-once" {
					moment = moments[n%len(moments)]
				}
				held := p.hold(moment)
				for part := range int32(2) {
					from := s.length(part)
					ids := series(fmt.Sprintf("id%d-", n), 5)
					s.ids(part, append(ids, ids[0], ids[1], "id0-0")...)
					for i := range int64(3) {
						want[fmt.Sprintf("%d/%d", part, from+5+i)] = 1
					}
				}
				held.wait(t, d)
				d.kill()
			}
			d := s.run()
			s.caughtUp(d)
			d.stop()
			again := s.again()
			got := map[string]int{}
			for _, records := range s.read(aside) {
				for _, r := range records {
					headers := map[string]string{}
					for _, h := range r.Headers {
						headers[h.Key] = string(h.Value)
					}
					got[headers["streamdedup-partition"]+"/"+headers["streamdedup-offset"]]++
				}
			}
			repeats := 0
			for at, n := range got {
				repeats += n - 1
				if delivery == "at-least-once" {
					got[at] = 1
				}
			}
			t.Logf("%d kills: %d records of the output and %d copies came again", kills, again, repeats)
			if !maps.Equal(got, want) {
				t.Errorf("copies are of %v, want %v", got, want)
			}
			if delivery == "exactly-once" && again > 0 {
				t.Errorf("%d records came out again", again)
			}
		})
	}
}

// length is how many offsets a partition of the input has.
func (s *scene) length(partition int32) int64 {
	s.t.Helper()
	ends, err := s.admin.ListEndOffsets(s.ctx(), s.in)
	if err != nil {
		s.t.Fatal(err)
	}
	return ends[s.in][partition].Offset
}
