package kafkaio

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// late is a record with an ID, of so long ago that its time is out of the window.
func (s *scene) late(id string) *kgo.Record {
	r := s.record(0, id)
	r.Timestamp = time.Now().Add(-3 * s.rules.Window.Span)
	return r
}

// P1 under policies: a first copy that a policy took out teaches nothing, in a cycle
// that is aborted and done again, and for who restores. The next copy comes out, and
// only the ones after it are duplicates.
func TestWhatAPolicyTakesOutTeachesNothing(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		for _, policy := range []pipeline.Policy{pipeline.Drop, pipeline.Divert} {
			for _, delivery := range []Delivery{ExactlyOnce, AtLeastOnce} {
				t.Run(policy.String()+" "+delivery.String(), func(t *testing.T) {
					s := newScene(t, brokers, 1)
					s.cfg.Delivery = delivery
					s.cfg.Divert, s.rules.Diverts = kafkatest.Topic(t, brokers, 1, nil), true
					s.rules.OnLate = policy
					s.write(s.record(0, "clock"), s.late("x"), s.late("y"))
					h := s.byHand()
					h.cycle(3)
					h.abort()
					h.cycle(3)
					h.commits()
					aside := map[string]int{}
					if policy == pipeline.Divert {
						aside = map[string]int{"x": 1, "y": 1}
					}
					firstTimes(t, delivery, s.output(s.cfg.Divert), aside)
					firstTimes(t, delivery, s.output(s.cfg.Out), map[string]int{"clock": 1})

					s.write(s.record(0, "x"), s.record(0, "x"))
					h.cycle(2)
					h.abort()
					h.cycle(2)
					h.commits()
					firstTimes(t, delivery, s.output(s.cfg.Out), map[string]int{"clock": 1, "x": 1})

					// And who takes over, and has it from the changelog.
					s.write(s.late("z"), s.record(0, "x"), s.record(0, "y"), s.record(0, "y"), s.record(0, "z"))
					r := s.start()
					r.judged(5)
					c := r.ends()
					if c.Verdicts[pipeline.Duplicate] != 2 || c.Fates[pipeline.Out] != 2 || c.Marked(pipeline.Late) != 1 {
						t.Errorf("%d duplicates, %d out and %d late, want 2, 2 and 1",
							c.Verdicts[pipeline.Duplicate], c.Fates[pipeline.Out], c.Marked(pipeline.Late))
					}
					firstTimes(t, delivery, s.output(s.cfg.Out), map[string]int{"clock": 1, "x": 1, "y": 1, "z": 1})
				})
			}
		}
	})
}

// commits commits the cycle, also where the broker asks for another try.
func (h *hand) commits() {
	h.t.Helper()
	if got := h.commit(); got.Settlement != pipeline.Committed {
		h.t.Fatalf("commit: %+v", got)
	}
}

// firstTimes compares an output with what was wanted. With at-least-once what was
// written in a cycle that was aborted may come again.
func firstTimes(t *testing.T, delivery Delivery, got, want map[string]int) {
	t.Helper()
	if delivery == AtLeastOnce {
		atLeast(t, got, want)
		return
	}
	same(t, got, want)
}

// The same where the policy is to fail: the partition stops before the late copy, and
// when it goes on under another policy that copy is still the first.
func TestWhatStopsAPartitionTeachesNothing(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		for _, next := range []pipeline.Policy{pipeline.Pass, pipeline.Drop} {
			t.Run("then "+next.String(), func(t *testing.T) {
				s := newScene(t, brokers, 1)
				s.rules.OnLate = pipeline.Fail
				s.write(s.record(0, "clock"), s.late("x"), s.record(0, "x"), s.record(0, "x"))
				for range 2 { // what has stopped it stops it again
					r := s.start()
					var stop *pipeline.Stop
					select {
					case err := <-r.end:
						close(r.end)
						if !errors.As(err, &stop) || stop.Offset != 1 || stop.Reason != pipeline.ReasonLate {
							t.Fatalf("the engine ended with %v, want late before offset 1", err)
						}
					case <-time.After(limit):
						t.Fatal("the engine goes on")
					}
					same(t, s.output(s.cfg.Out), map[string]int{"clock": 1})
				}
				s.rules.OnLate = next
				r := s.start()
				r.judged(3)
				c := r.ends()
				duplicates := uint64(2)
				if next == pipeline.Drop { // the late copy is gone, so the next is the first
					duplicates = 1
				}
				if c.Verdicts[pipeline.Duplicate] != duplicates || c.Fates[pipeline.Out] != 1 || c.Marked(pipeline.Late) != 1 {
					t.Errorf("%d duplicates, %d out and %d late, want %d, 1 and 1",
						c.Verdicts[pipeline.Duplicate], c.Fates[pipeline.Out], c.Marked(pipeline.Late), duplicates)
				}
				same(t, s.output(s.cfg.Out), map[string]int{"clock": 1, "x": 1})
			})
		}
	})
}

// Tagging shows what dropping would do: the untagged part of its output is the output
// of dropping. The state is one and the same, so switching between the two, and to
// diverting, loses nothing and repeats nothing.
func TestSwitchingBetweenWaysWithDuplicates(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.cfg.Divert, s.rules.Diverts = kafkatest.Topic(t, brokers, 2, nil), true
		s.cfg.Duplicates = kafkatest.Topic(t, brokers, 2, nil)
		want := map[pipeline.DuplicatePolicy]map[string]int{
			pipeline.DropDuplicates: {}, pipeline.DivertDuplicates: {}, pipeline.TagDuplicates: {},
		}
		ways := []pipeline.DuplicatePolicy{pipeline.TagDuplicates, pipeline.DropDuplicates, pipeline.TagDuplicates, pipeline.DivertDuplicates, pipeline.DropDuplicates}
		for n, way := range ways {
			s.rules.OnDuplicate, s.cfg.Tags = way, way == pipeline.TagDuplicates
			before := len(s.wanted())
			s.unique(10)
			s.again()
			for id := range s.wanted() {
				want[way][id]++
			}
			r := s.start()
			r.judged(20 + before + 20)
			if n%2 == 1 {
				s.caughtUp()
				s.kill(r)
				continue
			}
			if c := r.ends(); c.Verdicts[pipeline.Unique] != 20 || c.Verdicts[pipeline.Duplicate] != uint64(before+20) {
				t.Errorf("way %d, %s: %d unique and %d duplicates, want 20 and %d", n, way, c.Verdicts[pipeline.Unique], c.Verdicts[pipeline.Duplicate], before+20)
			}
		}
		first, tagged := map[string]int{}, map[string]int{}
		for _, r := range s.read(s.cfg.Out) {
			if len(r.Headers) > 0 {
				tagged[string(r.Value)]++
			} else {
				first[string(r.Value)]++
			}
		}
		same(t, first, s.wanted())
		same(t, tagged, want[pipeline.TagDuplicates])
		same(t, s.output(s.cfg.Divert), want[pipeline.DivertDuplicates])
		for id, n := range want[pipeline.TagDuplicates] { // they have copies as well
			want[pipeline.DropDuplicates][id] += n
		}
		same(t, s.output(s.cfg.Duplicates), want[pipeline.DropDuplicates])
	})
}

// A first copy that only its tag made too large went aside and taught nothing, also
// for who learns from the input and does not tag any more.
func TestWhatATagMadeTooLargeTeachesNothing(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.cfg.Changelog, s.rules.LogChanges = false, false
		s.cfg.Out = kafkatest.Topic(t, brokers, 1, map[string]*string{"max.message.bytes": kadm.StringPtr("2000")})
		s.cfg.Divert, s.rules.Diverts = kafkatest.Topic(t, brokers, 1, nil), true
		s.cfg.Tags, s.rules.OnDuplicate = true, pipeline.TagDuplicates
		large := strings.Repeat("x", 1900)
		s.write(s.record(0, "small"), s.record(0, large))
		r := s.start()
		r.judged(2)
		r.ends()
		same(t, s.output(s.cfg.Divert), map[string]int{large: 1})

		s.cfg.Tags, s.rules.OnDuplicate = false, pipeline.DropDuplicates
		s.write(s.record(0, "small"), s.record(0, large), s.record(0, large))
		r = s.start()
		r.judged(3)
		r.ends()
		same(t, s.output(s.cfg.Out), map[string]int{"small": 1, large: 1})
	})
}
