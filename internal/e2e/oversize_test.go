//go:build unix

package e2e

import (
	"bytes"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestCase_EOS_18: records that the output refuses for their size lie in the
// divert topic, or stop their partition and no other.
func TestCase_EOS_18(t *testing.T) {
	// value is an event of so many bytes.
	value := func(id string, length int) []byte {
		begin := fmt.Sprintf(`{"id":%q,"fill":"`, id)
		return append([]byte(begin), append(bytes.Repeat([]byte("x"), length-len(begin)-2), `"}`...)...)
	}
	const largest = 1_048_500 // fits, with nothing beside it
	large := &kgo.Record{Value: value("large", 3<<19), Key: []byte("k"), Timestamp: time.UnixMilli(time.Now().UnixMilli())}
	headed := &kgo.Record{Value: value("headed", largest), Timestamp: large.Timestamp,
		Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("0123456789abcdef")}, {Key: "trace", Value: nil}}}
	const atLarge, atHeaded = 400, 700
	// fill writes 999 small records and one that just fits to partition 0, with the
	// two others among them, and small ones to partition 1.
	fill := func(t *testing.T) *scene {
		large, headed := *large, *headed // a client notes in a record where it went
		s := newScene(t, 2, settings{"max.message.bytes": "2097152"}, settings{"max.message.bytes": "1048588"})
		small := series("small", 999)
		s.ids(0, small[:atLarge]...)
		s.write(&large)
		s.ids(0, small[atLarge:atHeaded-1]...)
		s.write(&headed)
		s.ids(0, small[atHeaded-1:]...)
		fits := &kgo.Record{Value: value("fits", largest), Timestamp: large.Timestamp}
		s.write(fits)
		s.expect(0, string(fits.Value))
		s.ids(1, series("other", 50)...)
		return s
	}
	t.Run("divert", func(t *testing.T) {
		s := fill(t)
		aside := settings{"max.message.bytes": "2097152"}.topic(t, s.brokers, 2)
		d := s.run("divert-topic=" + aside)
		s.caughtUp(d)
		if sum := d.stop(); sum.Out != 999+1+50 || sum.Diverted != 2 || sum.In != uint64(s.written) {
			t.Errorf("%d in, %d out and %d diverted, want %d, 1050 and 2", sum.In, sum.Out, sum.Diverted, s.written)
		}
		s.check()
		got := s.read(aside)
		if len(got[0]) != 2 || len(got[1]) != 0 {
			t.Fatalf("the divert topic has %d and %d records, want 2 and 0", len(got[0]), len(got[1]))
		}
		for i, want := range []struct {
			record *kgo.Record
			offset int64
		}{{large, atLarge}, {headed, atHeaded}} {
			r := got[0][i]
			origin(t, r, "too_large", s.in, 0, want.offset)
			own := *r
			own.Headers = slices.DeleteFunc(slices.Clone(r.Headers), func(h kgo.RecordHeader) bool { return h.Key != "trace" })
			sameRecord(t, &own, want.record)
		}
	})
	t.Run("stop", func(t *testing.T) {
		s := fill(t)
		d := s.run()
		s.caughtUp(d, 1)
		d.says("partition stopped")
		s.ids(1, series("later", 50)...)
		s.caughtUp(d, 1)
		d.signal(syscall.SIGTERM)
		d.ends(1)
		d.line("error: ", s.in+"/0", fmt.Sprintf("offset %d", atLarge), "too large for the output")
		d.line("hint: ", "--divert-topic")
		if sum := d.summary(); sum.Out != atLarge+100 || sum.In != sum.Out {
			t.Errorf("%d in and %d out, want %d of both", sum.In, sum.Out, atLarge+100)
		}
		s.want[0] = s.want[0][:atLarge]
		s.check()

		// With a place for it the partition goes on where it stopped.
		aside := settings{"max.message.bytes": "2097152"}.topic(t, s.brokers, 1)
		d = s.run("divert-topic=" + aside)
		s.caughtUp(d)
		if sum := d.stop(); sum.Out != 1000-atLarge || sum.Diverted != 2 {
			t.Errorf("%d out and %d diverted after the restart, want %d and 2", sum.Out, sum.Diverted, 1000-atLarge)
		}
	})
}
