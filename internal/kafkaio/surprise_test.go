package kafkaio

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

func TestSurprise(t *testing.T) {
	old, anew := kadm.TopicID{1}, kadm.TopicID{2}
	three := kadm.PartitionDetails{0: {}, 1: {}, 2: {}}
	two := kadm.PartitionDetails{0: {}, 1: {}}
	missing := kadm.TopicDetail{Err: kerr.UnknownTopicOrPartition}
	f := func(now kadm.TopicDetail, gone bool, want string) {
		t.Helper()
		err := surprise("clicks", input{id: old, partitions: 2}, now, gone)
		switch {
		case want == "" && err != nil:
			t.Errorf("%+v: %v, want no surprise", now, err)
		case want != "" && (err == nil || err.Error() != want || hintOf(err) == ""):
			t.Errorf("%+v: %v (hint %q), want %s, with a hint", now, err, hintOf(err), want)
		}
	}
	f(kadm.TopicDetail{ID: old, Partitions: two}, false, "")
	f(kadm.TopicDetail{ID: old, Partitions: two}, true, "")
	f(missing, false, "") // a broker that has just come back
	f(missing, true, `input topic "clicks", ID `+old.String()+`, was deleted`)
	f(kadm.TopicDetail{Err: kerr.LeaderNotAvailable}, true, "")
	f(kadm.TopicDetail{ID: anew, Partitions: two}, false,
		`input topic "clicks" was deleted and made again: its ID was `+old.String()+`, now it is `+anew.String())
	f(kadm.TopicDetail{Partitions: two}, false, "") // a broker that knows no IDs
	f(kadm.TopicDetail{ID: old, Partitions: three}, false,
		`input topic "clicks" had 2 partitions, now it has 3: IDs may have moved to partitions that do not know them`)
	f(kadm.TopicDetail{ID: old, Partitions: kadm.PartitionDetails{0: {}}}, false, "") // what a broker says that is behind
}

// A running process ends soon after its input has become another, also when nothing
// is written: no fetch would tell.
func TestRunningProcessNoticesItsInput(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		for _, surprise := range []struct {
			name string
			do   func(t *testing.T, adm *kadm.Client, topic string) error
			want string
		}{
			{"deleted", func(t *testing.T, adm *kadm.Client, topic string) error {
				_, err := adm.DeleteTopic(ctx(t), topic)
				return err
			}, "was deleted"},
			{"made anew", func(t *testing.T, adm *kadm.Client, topic string) error {
				if _, err := adm.DeleteTopic(ctx(t), topic); err != nil {
					return err
				}
				until(t, "the topic is made again", func() bool {
					_, err := adm.CreateTopic(ctx(t), 2, -1, nil, topic)
					return err == nil
				})
				return nil
			}, "was deleted and made again: its ID was "},
			{"grown", func(t *testing.T, adm *kadm.Client, topic string) error {
				_, err := adm.UpdatePartitions(ctx(t), 5, topic)
				return err
			}, "had 2 partitions, now it has 5"},
		} {
			t.Run(surprise.name, func(t *testing.T) {
				t.Parallel()
				s := newScene(t, brokers, 2)
				s.unique(10)
				r := s.start()
				r.judged(20)
				if err := surprise.do(t, kadm.NewClient(s.client()), s.cfg.In[0]); err != nil {
					t.Fatal(err)
				}
				err := r.ended()
				if err == nil || !strings.Contains(err.Error(), surprise.want) || hintOf(err) == "" {
					t.Errorf("the engine ended with %v (hint %q), want %s", err, hintOf(err), surprise.want)
				}
				same(t, s.output(s.cfg.Out), s.wanted())
			})
		}
	})
}

// So it does when a topic that it writes to is gone: a restore would wait for the
// changelog, and a cycle for the output, for as long as they are missing.
func TestRunningProcessNoticesWhatItWrites(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		for name, topic := range map[string]func(Config) string{
			"changelog topic": func(c Config) string { return ChangelogTopic(c.Group, c.In[0]) },
			"output topic":    func(c Config) string { return c.Out },
		} {
			for _, again := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s made again %v", name, again), func(t *testing.T) {
					t.Parallel()
					s := newScene(t, brokers, 2)
					s.cfg.Changelog, s.rules.LogChanges = true, true
					s.unique(10)
					r := s.start()
					r.judged(20)
					adm, gone := kadm.NewClient(s.client()), topic(s.cfg)
					s.deleteAfter(ChangelogTopic(s.cfg.Group, s.cfg.In[0]))
					if _, err := adm.DeleteTopic(ctx(t), gone); err != nil {
						t.Fatal(err)
					}
					want := name + ` "` + gone + `", ID `
					if again {
						until(t, "the topic is made again", func() bool {
							_, err := adm.CreateTopic(ctx(t), 2, -1, nil, gone)
							return err == nil
						})
						want = name + ` "` + gone + `" was deleted and made again: its ID was `
					}
					if err := r.ended(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(hintOf(err), "start again to go on") {
						t.Errorf("the engine ended with %v (hint %q), want %s", err, hintOf(err), want)
					}
				})
			}
		}
	})
}

// A cycle that fails since the output is gone says so, and looks twice: a broker that
// has just come back may not know its topics.
func TestMadeAnewLooksTwice(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Fake(t, kfake.NumBrokers(1))
	s := newScene(t, cluster.ListenAddrs(), 1)
	h := s.byHand()
	h.assigned(1)
	var missing, looks atomic.Int32 // how many answers from now on do not know the topic
	cluster.ControlKey(kmsg.NewPtrMetadataRequest().Key(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		ask := req.(*kmsg.MetadataRequest)
		if looks.Add(1) > missing.Load() {
			return nil, nil, false
		}
		resp := ask.ResponseKind().(*kmsg.MetadataResponse)
		for _, topic := range ask.Topics {
			none := kmsg.NewMetadataResponseTopic()
			none.Topic, none.TopicID, none.ErrorCode = topic.Topic, topic.TopicID, kerr.UnknownTopicOrPartition.Code
			resp.Topics = append(resp.Topics, none)
		}
		return resp, nil, true
	})
	h.session.watcher.close() // it asks, too
	cause := errors.New("cause")
	ask := func(n int32) error {
		if err := pause(ctx(t), 2*metadataMinAge); err != nil { // for so long the client keeps an answer
			t.Fatal(err)
		}
		looks.Store(0)
		missing.Store(n)
		return h.session.madeAnew(ctx(t), cause)
	}
	if err := ask(1); err != nil || looks.Load() < 2 {
		t.Errorf("a broker that knows the topic again: %v, asked %d times", err, looks.Load())
	}
	err := ask(1000)
	missing.Store(0)
	if err == nil || !strings.Contains(err.Error(), "was deleted") || !errors.Is(err, cause) || hintOf(err) == "" {
		t.Errorf("the topics were deleted: %v (hint %q)", err, hintOf(err))
	}
}

// stopped polls until a partition stops, and returns why.
func (h *hand) stopped() error {
	h.t.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		polled, err := h.session.Poll(ctx(h.t), 100*time.Millisecond)
		h.session.Release()
		if err != nil {
			h.t.Fatalf("poll: %v", err)
		}
		if len(polled.Batches) > 0 {
			h.t.Fatalf("reading goes on at offset %d", polled.Batches[0].First)
		}
		if len(polled.Stopped) > 0 {
			return polled.Stopped[0]
		}
	}
	h.t.Fatal("the partition does not stop")
	return nil
}

// assigned waits for so many partitions.
func (h *hand) assigned(n int) {
	h.t.Helper()
	until(h.t, "the partitions are ours", func() bool {
		h.poll()
		h.session.Release()
		return len(h.shards) == n
	})
}

// A position that the log does not have any more stops the partition, and says
// which records are gone.
func TestPositionOutOfTheLog(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		p := func(s *scene) pipeline.Partition { return pipeline.Partition{Topic: s.cfg.In[0]} }
		t.Run("retention", func(t *testing.T) {
			s := newScene(t, brokers, 1)
			h := s.byHand()
			h.assigned(1)
			h.session.Halt(p(s))
			s.unique(100)
			before := kadm.Offsets{}
			before.Add(kadm.Offset{Topic: s.cfg.In[0], At: 60})
			if _, err := kadm.NewClient(s.client()).DeleteRecords(ctx(t), before); err != nil {
				t.Fatal(err)
			}
			h.epochs[p(s)] = h.session.Resume(p(s), 0)
			err := h.stopped()
			if !strings.Contains(err.Error(), "records from offset 0 to 59 were deleted before they were read") || hintOf(err) == "" {
				t.Errorf("the partition stopped: %v (hint %q)", err, hintOf(err))
			}
		})
		t.Run("truncation", func(t *testing.T) {
			s := newScene(t, brokers, 1)
			s.unique(100)
			h := s.byHand()
			h.cycle(100)
			h.commit()
			// What was read up to 150 is lost with the leader that had it.
			h.session.Halt(p(s))
			h.epochs[p(s)] = h.session.Resume(p(s), 150)
			err := h.stopped()
			if !strings.Contains(err.Error(), "offsets from 100 to 149 were read, and the partition ends before them") || hintOf(err) == "" {
				t.Errorf("the partition stopped: %v (hint %q)", err, hintOf(err))
			}
		})
		t.Run("divergence", func(t *testing.T) {
			s := newScene(t, brokers, 1)
			h := s.byHand()
			h.assigned(1)
			// A leader was elected that did not have what we read. The client says so.
			loss := &kgo.ErrDataLoss{Topic: s.cfg.In[0], ConsumedTo: 30, ResetTo: 20}
			err := h.session.missing(ctx(t), p(s), 30, loss)
			if !strings.Contains(err.Error(), "offsets from 20 to 29 were read, and the partition has lost them") || hintOf(err) == "" {
				t.Errorf("the partition stopped: %v (hint %q)", err, hintOf(err))
			}
		})
	})
}

// A leader that is being elected when the process starts is waited for.
func TestOpenWaitsForALeader(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Fake(t, kfake.NumBrokers(1))
	s := newScene(t, cluster.ListenAddrs(), 1)
	refused := 0
	cluster.ControlKey(kmsg.NewPtrMetadataRequest().Key(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		ask := req.(*kmsg.MetadataRequest)
		if refused == 3 || len(ask.Topics) == 0 {
			return nil, nil, false
		}
		refused++
		resp := ask.ResponseKind().(*kmsg.MetadataResponse)
		for _, topic := range ask.Topics {
			electing := kmsg.NewMetadataResponseTopic()
			electing.Topic, electing.TopicID, electing.ErrorCode = topic.Topic, topic.TopicID, kerr.LeaderNotAvailable.Code
			resp.Topics = append(resp.Topics, electing)
		}
		return resp, nil, true
	})
	s.byHand().assigned(1)
	if refused != 3 {
		t.Errorf("%d answers were refused, want 3: the test has lost its fault", refused)
	}
}

func (s *scene) logged() *logged {
	l := &logged{}
	s.cfg.Logger = slog.New(slog.NewTextHandler(l, nil))
	return l
}

func (l *logged) has(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(l.String(), text) {
			t.Errorf("the log does not say %q:\n%s", text, l)
		}
	}
}

// What a compacted output does to records without a key, and to all but the last
// with one, is said before the first of them.
func TestOpenWarnsOfACompactedOutput(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		log := s.logged()
		s.byHand().assigned(1)
		if strings.Contains(log.String(), "compact") {
			t.Errorf("an output that is not compacted is warned of:\n%s", log)
		}
		s.cfg.Out = kafkatest.Topic(t, brokers, 1, map[string]*string{"cleanup.policy": kadm.StringPtr("compact,delete")})
		s.cfg.Group += "-compacted"
		log = s.logged()
		s.byHand().assigned(1)
		log.has(t, "level=WARN", "cleanup.policy=compact", s.cfg.Out)
	})
}

// After a start the partitions that the input got meanwhile are read from their
// beginning, and it is said that an ID may have moved there.
func TestOpenWarnsOfNewPartitions(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.unique(10)
		r := s.start()
		r.judged(20)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		s.grow(4, s.cfg.In[0], s.cfg.Out)
		log := s.logged()
		if _, err := Open(ctx(t), s.cfg); err == nil || !strings.Contains(err.Error(), "has 2 partitions, want 4") || !strings.Contains(hintOf(err), "--fix-topics") {
			t.Fatalf("got %v (hint %q)", err, hintOf(err))
		}
		s.cfg.FixTopics = true
		session, err := Open(ctx(t), s.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := session.Close(ctx(t), true); err != nil {
			t.Fatal(err)
		}
		log.has(t, "level=WARN", "the input has partitions that the group has not seen", "partitions_before=2 partitions=4")
	})
}

// Of several instances that start a new group, the later find positions of only those
// partitions that the first has come to by then. None of the others is new.
func TestOpenKnowsPartitionsThatHaveNotBegun(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 4)
		first := s.byHand()
		until(t, "the first partition begins", func() bool {
			polled, err := first.session.Poll(ctx(t), 100*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range polled.Assigned[:min(1, len(polled.Assigned))] {
				if err := first.session.commitStart(ctx(t), a.Partition, committed{}); err != nil {
					t.Fatal(err)
				}
			}
			if len(polled.Assigned) == 0 {
				first.session.Release() // which they wait for
			}
			return len(polled.Assigned) > 0
		})
		log := s.logged()
		s.cfg.Instance += "-second"
		session, err := Open(ctx(t), s.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := session.Close(ctx(t), true); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String(), "has not seen") {
			t.Errorf("partitions that have not begun are taken for new ones:\n%s", log)
		}
	})
}
