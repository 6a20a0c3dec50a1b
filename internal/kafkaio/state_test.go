package kafkaio

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// Requests by their number in the protocol.
var (
	keyInitProducerID = kmsg.NewPtrInitProducerIDRequest().Key()
	keyEndTxn         = kmsg.NewPtrEndTxnRequest().Key()
	keyProduce        = kmsg.NewPtrProduceRequest().Key()
	keyOffsetFetch    = kmsg.NewPtrOffsetFetchRequest().Key()
)

// random is a generator whose seed is printed and can be set.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(20260101)
	if text := os.Getenv("STREAMDEDUP_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("STREAMDEDUP_SEED: %v", err)
		}
	}
	t.Logf("STREAMDEDUP_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func long() bool { return os.Getenv("STREAMDEDUP_LONG") == "1" }

// A commit whose answer, or whose request, is lost as often as the client tries:
// the outcome is found out, and the output has each ID once.
func TestCase_STATE_02(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		rng := random(t)
		trials := 20
		if long() {
			trials = 1000
		}
		s := newScene(t, brokers, 2)
		r := s.start()
		total := 0
		for trial := range trials {
			// One loss is healed by the client itself; all of its tries must fail for
			// the outcome to be unknown.
			losses, how := 1+rng.IntN(2)*7, fate(1+rng.IntN(2))
			first := 1 + rng.IntN(2)
			s.wire.set(func(key int16, nth int) fate {
				if key == keyEndTxn && nth >= first && nth < first+losses {
					return how
				}
				return pass
			})
			s.unique(5)
			total += 10
			s.write(s.record(0, fmt.Sprintf("p0-%d", s.next[0]-1)))
			total++
			r.judged(total)
			if t.Failed() {
				t.Fatalf("trial %d", trial)
			}
		}
		s.wire.set(nil)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
		snapshot := r.engine.Snapshot()
		t.Logf("transactions by settlement: %v", snapshot.Settled)
		if err := snapshot.Counts.Check(); err != nil {
			t.Error(err)
		}
		if got := snapshot.Counts.Verdicts[pipeline.Duplicate]; got != uint64(trials) {
			t.Errorf("%d duplicates, want %d", got, trials)
		}
	})
}

// A broker with transaction.version 1 fences who initialises the transactional ID
// anew while a transaction is open. Nobody else has done it, so we go on.
func TestFencedByOurselves(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Fake(t, kfake.NumBrokers(1), kfake.MaxVersions(kversion.V3_8_0()))
	cluster.ControlKey(keyInitProducerID, func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if req.(*kmsg.InitProducerIDRequest).ProducerID < 0 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode = kerr.ProducerFenced.Code
		return resp, nil, true
	})
	s := newScene(t, cluster.ListenAddrs(), 2)
	s.wire.set(func(key int16, nth int) fate {
		if key == keyEndTxn && nth <= 8 {
			return loseRequest
		}
		return pass
	})
	r := s.start()
	s.unique(10)
	r.judged(20)
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	same(t, s.output(s.cfg.Out), s.wanted())
	if got := r.engine.Snapshot().Settled[pipeline.Lost]; got != 1 {
		t.Errorf("%d sessions were lost, want the one that was fenced", got)
	}
}

// lossy loses requests and answers of every kind, the first dozen of each more or
// less often.
func lossy(rng *rand.Rand) func(key int16, nth int) fate {
	seed := rng.Uint64()
	chance := 0.2 + rng.Float64()*0.6
	return func(key int16, nth int) fate {
		// The same for every order in which the client's connections ask.
		roll := rand.New(rand.NewPCG(seed, uint64(key)<<32|uint64(nth)))
		if nth > 12 || roll.Float64() >= chance {
			return pass
		}
		return fate(1 + roll.IntN(2))
	}
}

// Whatever message is lost, of any kind and as often as it may be, nothing else
// is lost and nothing comes twice.
func TestSessionIsExactOnALossyWire(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		rng := random(t)
		rounds := 5
		if long() {
			rounds = 300
		}
		s := newScene(t, brokers, 3)
		s.cfg.TxnTimeout = 6 * time.Second
		r := s.start()
		for range rounds {
			s.wire.set(lossy(rng))
			s.unique(20)
			s.again()
			s.caughtUp() // who finds its commit done after a restore has not counted it
		}
		s.wire.set(nil)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
		t.Logf("transactions by settlement: %v", r.engine.Snapshot().Settled)
	})
}

// Restarts, killed and stopped, between and in transactions, with checkpoints of any
// age and the changelog after them.
func TestSessionIsExactThroughRestarts(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		rng := random(t)
		s := newScene(t, brokers, 3)
		s.checkpoints = newShelf()
		s.cfg.WarmUp = false
		s.cfg.TxnTimeout = 5 * time.Second
		s.cfg.CommitInterval = 5 * time.Millisecond
		for round := range 6 {
			s.checkpoints.take(round == 0 || rng.IntN(2) == 0)
			s.unique(300)
			s.again()
			r := s.start()
			n := uint64(rng.IntN(1500))
			until(t, "some of it is judged", func() bool { return r.engine.Snapshot().Counts.In >= n })
			if round == 0 {
				until(t, "there is a checkpoint", func() bool { return s.checkpoints.at(pipeline.Partition{Topic: s.cfg.In[0]}) > 0 })
			}
			if rng.IntN(3) > 0 {
				s.kill(r)
			} else if err := r.finish(); err != nil {
				t.Fatal(err)
			}
		}
		r := s.start()
		s.caughtUp()
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
		if s.checkpoints.opened == 0 {
			t.Error("no restore had a checkpoint: the test shows little")
		}
	})
}
