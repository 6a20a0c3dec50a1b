//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestCase_WIN_05: the window goes by the time that the topic gives a record: its
// creator's, or with LogAppendTime that of its arrival, by the batch. Old times come
// out as they were.
func TestCase_WIN_05(t *testing.T) {
	s := newScene(t, 1, anyTime(), settings{"retention.ms": "604800000", "message.timestamp.before.max.ms": anyTime()["message.timestamp.before.max.ms"]})
	s.odd("late")
	month := time.UnixMilli(time.Now().AddDate(0, 0, -30).UnixMilli())
	old := func(id string) *kgo.Record {
		r := event(0, id)
		r.Timestamp = month
		return r
	}
	d := s.run()
	s.ids(0, "now")
	s.write(old("a"), old("a"))
	s.expect(0, string(old("a").Value))
	s.caughtUp(d)
	// The topic changes under the process; what it has keeps its time and type.
	stamps := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "message.timestamp.type", Value: kadm.StringPtr("LogAppendTime")}}
	if _, err := s.admin.AlterTopicConfigs(s.ctx(), stamps, s.in); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	await(t, "the broker stamps records", func() bool {
		r := old(fmt.Sprint("probe", s.written))
		s.write(r)
		s.expect(0, string(r.Value))
		records := s.read(s.in)[0]
		return records[len(records)-1].Attrs.TimestampType() == 1
	}, d.done)
	s.write(old("b"), old("b"), old("a"))
	s.expect(0, string(old("b").Value))
	s.caughtUp(d)
	sum := d.stop()
	if sum.Duplicate != 3 || sum.Late < 2 || sum.Late > sum.In-4 || sum.Retimed != 0 {
		t.Errorf("%d duplicates, %d late of %d, %d retimed; want 3, only the creator's old times, none", sum.Duplicate, sum.Late, sum.In, sum.Retimed)
	}
	s.check()
	out := s.read(s.out)[0]
	if at := out[1].Timestamp; !at.Equal(month) {
		t.Errorf("a came out with the time %v, want its own, %v", at, month)
	}
	if at := out[len(out)-1].Timestamp; at.Before(began.Add(-time.Minute)) {
		t.Errorf("b came out with the time %v, want that of its arrival, from %v on", at, began)
	}
}

// TestCase_WIN_12: of two copies the first that is read comes out, whatever their
// times, and nothing of the other.
func TestCase_WIN_12(t *testing.T) {
	copyOf := func(p int32, n int, at time.Time) *kgo.Record {
		return &kgo.Record{Partition: p, Value: fmt.Appendf(nil, `{"id":"x","n":%d}`, n), Timestamp: at}
	}
	base := time.UnixMilli(time.Now().UnixMilli() - 1000)
	t.Run("in a partition", func(t *testing.T) {
		s := newScene(t, 1, nil, nil)
		s.ids(0, series("other", 5)...)
		first := copyOf(0, 1, base.Add(10*time.Millisecond))
		s.write(first, copyOf(0, 2, base.Add(5*time.Millisecond)))
		s.expect(0, string(first.Value))
		d := s.run()
		s.caughtUp(d)
		d.stop()
		s.check()
	})
	for _, order := range [][]int32{{0, 1}, {1, 0}} {
		t.Run(fmt.Sprint("across partitions, first ", order[0]), func(t *testing.T) {
			s := newAcross(t, 2)
			copies := []*kgo.Record{copyOf(0, 1, base.Add(10*time.Millisecond)), copyOf(1, 2, base.Add(5*time.Millisecond))}
			s.expect(order[0], string(copies[order[0]].Value))
			d := s.run()
			for _, p := range order {
				s.write(copies[p])
				s.throughBoth(d)
			}
			if sum := d.stop(); sum.Duplicate != 1 {
				t.Errorf("%d duplicates, want 1", sum.Duplicate)
			}
			s.check()
		})
	}
}

// TestCase_WIN_13: another window takes over what is known by its times. A shorter one
// forgets at once what is outside of it; a longer one knows what the shorter one knew,
// says by the coverage that it does not know its whole length, and gets there. Bits of
// another kind of filter are refused.
func TestCase_WIN_13(t *testing.T) {
	for _, memory := range []string{"checkpoint", "changelog"} {
		t.Run(memory, func(t *testing.T) {
			s := newScene(t, 1, anyTime(), anyTime())
			s.odd("jump")
			if memory == "changelog" {
				s.flags["state-dir"] = "off"
			}
			now := time.Now()
			write := func(id string, ago time.Duration, pass bool) {
				t.Helper()
				r := event(0, id)
				r.Timestamp = now.Add(-ago)
				s.write(r)
				if pass {
					s.expectAgain(0, string(r.Value))
				}
			}
			coverage := func(d *daemon) float64 { return d.metric("streamdedup_window_coverage_ratio") }
			const hour = time.Hour

			d := s.run("window=24h")
			for _, ago := range []time.Duration{80 * hour, 20 * hour, 10 * hour, hour / 2, 0} {
				write(fmt.Sprint("before ", ago), ago, true)
			}
			s.caughtUp(d)
			if memory == "checkpoint" {
				await(t, "a checkpoint is written", func() bool {
					files, err := filepath.Glob(filepath.Join(s.flags["state-dir"], "*", "*", "*.checkpoint"))
					return err == nil && len(files) > 0
				}, d.done)
			}
			d.stop()

			refused := s.run("window=24h", "filter=classic")
			refused.ends(1)
			refused.line("error: ", s.in+"/0", "filter kind have changed")

			d = s.run("window=1h")
			d.ready(1)
			if c := coverage(d); c != 1 {
				t.Errorf("coverage of the shorter window is %v, want 1", c)
			}
			write("before "+(20*hour).String(), 0, true)
			write("before "+(10*hour).String(), 0, true)
			write("before "+(hour/2).String(), 0, false)
			s.caughtUp(d)
			d.stop()

			d = s.run("window=48h")
			d.ready(1)
			if c := coverage(d); c <= 0 || c > 0.1 {
				t.Errorf("coverage of the longer window is %v, want the hour of 48 that was known", c)
			}
			d.line("a part of the window is not known", s.in+"/0", "by=4")
			write("before "+(hour/2).String(), 0, false)
			write("before "+(10*hour).String(), 0, false) // it came out again, and was learned
			write("before "+(80*hour).String(), 0, true)
			s.caughtUp(d)
			d.stop()
			s.check()
		})
	}
}

// TestCase_BLOOM_12: an ID whose first copy was wrongly dropped comes out once more
// when it is allowed and sent again.
func TestCase_BLOOM_12(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newSceneOn(t, brokers, 1, nil, nil)
		d := s.run()
		s.ids(0, "a", "b", "a")
		s.caughtUp(d)
		d.stop()
		allowed := filepath.Join(t.TempDir(), "allowed")
		if err := os.WriteFile(allowed, []byte("a\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.flags["allow-id"] = allowed
		for n := range 2 { // of the second process, too, the copy is a duplicate
			d = s.run()
			s.ids(0, "b", "a", "a")
			if n == 0 {
				s.expectAgain(0, string(event(0, "a").Value))
			}
			s.caughtUp(d)
			if sum := d.stop(); sum.Out != uint64(1-n) || sum.Duplicate != uint64(2+n) {
				t.Errorf("start %d: %d out and %d duplicates, want %d and %d", n, sum.Out, sum.Duplicate, 1-n, 2+n)
			}
			s.check()
		}
	})
}

// TestCase_KEY_27: a retry that changes a part of the ID is another event. So the time
// is no part of it.
func TestCase_KEY_27(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		for want, keys := range map[uint64][]string{1: {"json:uuid"}, 2: {"json:uuid", "json:timestamp"}} {
			s := newSceneOn(t, brokers, 1, nil, nil)
			s.keys = keys
			for i, value := range sampleOf(t, "posthog_capture.ndjson") {
				s.write(&kgo.Record{Value: value, Timestamp: time.Now()})
				if uint64(i) < want {
					s.expect(0, string(value))
				}
			}
			d := s.run()
			s.caughtUp(d)
			if sum := d.stop(); sum.Out != want || sum.Duplicate != 2-want {
				t.Errorf("%v: %d out and %d duplicates, want %d and %d", keys, sum.Out, sum.Duplicate, want, 2-want)
			}
			s.check()
		}
	})
}
