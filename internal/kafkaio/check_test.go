package kafkaio

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

func TestValidateReportsEveryFault(t *testing.T) {
	err := Config{In: []string{"a", "a"}, Out: "a", Divert: "a", Compression: "rar"}.Validate()
	for _, want := range []string{"Brokers", "Group", "Instance", "Out is \"a\"", "Divert", "twice", "SessionTimeout", "CommitInterval", "TxnTimeout", "Compression", "Logger"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no fault names %s: %v", want, err)
		}
	}
}

func TestParseStart(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		got, err := ParseStart(in)
		if err != nil || got.String() != want {
			t.Errorf("ParseStart(%q) = %v, %v; want %s", in, got, err, want)
		}
	}
	f("earliest", "earliest")
	f("latest", "latest")
	f("2025-06-01T00:00:00+02:00", "2025-05-31T22:00:00Z")
	f("1748736000000", "2025-06-01T00:00:00Z")
	for _, bad := range []string{"", "newest", "-1", "0", "1969-01-01T00:00:00Z"} {
		if got, err := ParseStart(bad); err == nil {
			t.Errorf("ParseStart(%q) = %v, want an error", bad, got)
		}
	}
}

// refuses checks that a session does not open, and that error and hint say what
// a user needs.
func (s *scene) refuses(hint string, want ...string) {
	s.t.Helper()
	session, err := Open(ctx(s.t), s.cfg)
	if err == nil {
		s.t.Errorf("the session opened: %v", session.Close(ctx(s.t), true))
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			s.t.Errorf("the error %q does not say %q", err, w)
		}
	}
	if !strings.Contains(hintOf(err), hint) {
		s.t.Errorf("the hint %q does not say %q", hintOf(err), hint)
	}
}

func TestOpenRefuses(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 3)
		good := s.cfg
		s.cfg.In = []string{"nowhere"}
		s.refuses("name", `input topic "nowhere" does not exist`)
		s.cfg = good
		s.cfg.Out = "nowhere"
		s.refuses("--create-topics", `output topic "nowhere" does not exist`)
		s.cfg.Out = kafkatest.Topic(t, brokers, 2, nil)
		s.refuses("partition count", s.cfg.Out, "has 2", "has 3", good.In[0])
		s.cfg = good
		s.cfg.In = append(s.cfg.In, kafkatest.Topic(t, brokers, 2, nil))
		s.refuses("each input", s.cfg.In[1], "has 2", "has 3")
	})
}

func TestOpenNamesAnAddressThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	const address = "127.0.0.1:1" // a free port would be given to another test
	s := newScene(t, kafkatest.Fake(t).ListenAddrs(), 1)
	s.cfg.Brokers = []string{address}
	s.refuses("address", address)
}

func TestCreateTopics(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 3)
		s.cfg.CreateTopics = true
		s.cfg.Out += "-new"
		s.cfg.Divert = s.cfg.Out + "-divert"
		s.unique(5)
		r := s.start()
		r.judged(15)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
		for _, topic := range []string{s.cfg.Out, s.cfg.Divert} {
			if n := len(extentsOf(t, s, topic).ends); n != 3 {
				t.Errorf("topic %s has %d partitions, want the input's 3", topic, n)
			}
		}
		if _, err := kadm.NewClient(s.client()).DeleteTopics(ctx(t), s.cfg.Out, s.cfg.Divert); err != nil {
			t.Error(err)
		}
	})
}

func TestCompressionFollowsTheInput(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		f := func(compression string, input kgo.CompressionCodec, want uint8) {
			t.Helper()
			s := newScene(t, brokers, 1)
			s.cfg.Compression = compression
			s.writer = s.client(kgo.ProducerBatchCompression(input))
			s.write(s.record(0, strings.Repeat("compressible ", 100)))
			r := s.start()
			r.judged(1)
			if err := r.finish(); err != nil {
				t.Fatal(err)
			}
			if got := s.read(s.cfg.Out)[0].Attrs.CompressionType(); got != want {
				t.Errorf("--compression %s: codec %s, want %s", compression, codecNames[got], codecNames[want])
			}
		}
		f("auto", kgo.ZstdCompression(), 4)
		f("auto", kgo.NoCompression(), 0)
		f("gzip", kgo.ZstdCompression(), 1)
	})
}

// EOS-01: what does not follow the position is never judged. A gap that the
// broker cannot confirm stops the partition, and what lies behind is dropped.
func TestCase_EOS_01(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		h := s.byHand()
		until(t, "the partition is ours", func() bool {
			h.poll()
			h.session.Release()
			return len(h.shards) == 1
		})
		s.unique(20)
		p := pipeline.Partition{Topic: s.cfg.In[0], Number: 0}
		tenant := h.session.parts[p]
		records := s.read(s.cfg.In[0])
		now := time.Now().UnixMilli()

		if _, err := h.session.admit(ctx(t), p, tenant, records[5:], now); err == nil || !strings.Contains(err.Error(), "records from offset 0 were skipped") {
			t.Errorf("a jump from 0 to 5: %v", err)
		}
		b, err := h.session.admit(ctx(t), p, tenant, records[:10], now)
		if err != nil || b.First != 0 || b.Next != 10 || len(b.Records) != 10 {
			t.Fatalf("the first ten: %+v, %v", b, err)
		}
		b, err = h.session.admit(ctx(t), p, tenant, records[5:15], now)
		if err != nil || b.First != 10 || b.Next != 15 || len(b.Records) != 5 {
			t.Errorf("five of which five are known: %+v, %v", b, err)
		}
		if b, err := h.session.admit(ctx(t), p, tenant, records[:15], now); b != nil || err != nil {
			t.Errorf("nothing new: %+v, %v", b, err)
		}
	})
}
