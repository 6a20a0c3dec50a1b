package kafkaio

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// Instances come and go while records flow, where the coordinator assigns.
func TestConsumerProtocolThroughRebalances(t *testing.T) {
	t.Parallel()
	for _, delivery := range []Delivery{ExactlyOnce, AtLeastOnce} {
		t.Run(delivery.String(), func(t *testing.T) {
			everyBroker(t, func(t *testing.T, brokers []string) {
				s := newScene(t, brokers, 6)
				s.cfg.GroupProtocol, s.cfg.Delivery = Consumer, delivery
				a := s.start()
				other := s.cfg
				other.Instance = "other"
				stop := s.flowing()
				rounds := 1 // the coordinator tells of a change with a heartbeat, every five seconds
				if long() {
					rounds = 10
				}
				for range rounds {
					b := s.startAs(other)
					until(t, "the other has partitions and gives verdicts", func() bool {
						snapshot := b.engine.Snapshot()
						return len(snapshot.Partitions) == 3 && snapshot.Ready() && snapshot.Counts.In > 0
					})
					if err := b.finish(); err != nil {
						t.Fatal(err)
					}
					until(t, "all is back", func() bool {
						snapshot := a.engine.Snapshot()
						return len(snapshot.Partitions) == 6 && snapshot.Ready()
					})
				}
				stop()
				s.caughtUp()
				if err := a.finish(); err != nil {
					t.Fatal(err)
				}
				again := atLeast(t, s.output(s.cfg.Out), s.wanted())
				if delivery == ExactlyOnce && again > 0 {
					t.Errorf("%d records came out again", again)
				}
				t.Logf("transactions by settlement: %v, %d records came out again", a.engine.Snapshot().Settled, again)
			})
		})
	}
}

// The question whether we are a member still has an answer in both protocols.
func TestIdentify(t *testing.T) {
	for _, protocol := range []GroupProtocol{Classic, Consumer} {
		t.Run(protocol.String(), func(t *testing.T) {
			everyBroker(t, func(t *testing.T, brokers []string) {
				s := newScene(t, brokers, 1)
				s.cfg.GroupProtocol = protocol
				s.unique(10)
				h := s.byHand()
				h.cycle(10)
				if err := h.session.identify(ctx(t)); err != nil {
					t.Errorf("a member is told %v", err)
				}
				h.abort()
				id, _ := h.session.client().GroupMetadata()
				if err := h.session.leave(ctx(t), id); err != nil {
					t.Fatal(err)
				}
				if err := h.session.identify(ctx(t)); !errors.Is(err, kerr.UnknownMemberID) && !errors.Is(err, kerr.FencedInstanceID) {
					t.Errorf("who has left is told %v", err)
				}
			})
		})
	}
}

// A member that the coordinator has thrown out commits nothing that it read before.
func TestConsumerProtocolThrownOut(t *testing.T) {
	for _, delivery := range []Delivery{ExactlyOnce, AtLeastOnce} {
		t.Run(delivery.String(), func(t *testing.T) {
			everyBroker(t, func(t *testing.T, brokers []string) {
				s := newScene(t, brokers, 2)
				s.cfg.Instance, s.cfg.GroupProtocol, s.cfg.Delivery = "a", Consumer, delivery
				s.unique(10)
				a := s.byHand()
				a.cycle(20)
				id, _ := a.session.client().GroupMetadata()
				if err := a.session.leave(ctx(t), id); err != nil { // as the coordinator does with who is silent
					t.Fatal(err)
				}
				other := s.cfg
				other.Instance = "b"
				b := s.startAs(other)
				b.judged(20)
				if got := a.commit(); got.Settlement == pipeline.Committed {
					t.Errorf("the commit of a member that was thrown out: %+v", got)
				}
				if err := b.finish(); err != nil {
					t.Fatal(err)
				}
				again := atLeast(t, s.output(s.cfg.Out), s.wanted())
				if want := map[Delivery]int64{ExactlyOnce: 0, AtLeastOnce: 20}[delivery]; again != want {
					t.Errorf("%d records came out again, want %d", again, want)
				}
			})
		})
	}
}

// Brokers that are too old are refused; the client would take the classic protocol
// without a word.
func TestConsumerProtocolOfOldBrokers(t *testing.T) {
	t.Parallel()
	s := newScene(t, kafkatest.Fake(t, kfake.NumBrokers(1), kfake.MaxVersions(kversion.V3_8_0())).ListenAddrs(), 1)
	s.cfg.GroupProtocol = Consumer
	_, err := Open(ctx(t), s.cfg)
	var hint *Error
	if want := fmt.Sprintf("does not support --group-protocol %s", Consumer); !errors.As(err, &hint) || !strings.Contains(err.Error(), want) {
		t.Errorf("an old broker: %v, want %q", err, want)
	}
}
