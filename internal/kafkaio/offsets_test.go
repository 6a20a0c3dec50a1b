package kafkaio

import (
	"errors"
	"math"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// Brokers name a group's topics by their IDs. While their names cannot be looked up the
// group's offsets are not known, which is not the same as none.
func TestOffsetsOfTopicsWithoutAName(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Fake(t, kfake.NumBrokers(1))
	s := newScene(t, cluster.ListenAddrs(), 1)
	p := pipeline.Partition{Topic: s.cfg.In[0]}
	var at kadm.Offsets
	at.AddOffset(p.Topic, p.Number, 7, -1)
	if err := kadm.NewClient(s.client()).CommitAllOffsets(ctx(t), s.cfg.Group, at); err != nil {
		t.Fatal(err)
	}
	const unknown = 3
	asked := unnamed(cluster, nil, unknown)
	session := &Session{cfg: s.cfg, admin: s.client(), warn: newWarner(s.cfg.Logger)}
	got, err := session.committed(ctx(t), p)
	if err != nil || got.of(p).next != 7 {
		t.Errorf("the group is at %d (%v), want 7", got.of(p).next, err)
	}
	if asked.Load() <= unknown {
		t.Errorf("the topic's name was asked for %d times: the test has lost its fault", asked.Load())
	}
}

// A topic without a name that the group has left behind is no reason to wait: what is known
// of those asked for is known. It may be in the way of a topic that is not in the answer.
func TestOffsetsBesideATopicWithoutAName(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Fake(t, kfake.NumBrokers(1))
	s := newScene(t, cluster.ListenAddrs(), 1)
	left := kafkatest.Topic(t, s.brokers, 1, nil)
	adm := kadm.NewClient(s.client())
	details, err := adm.ListTopics(ctx(t), s.cfg.In[0])
	if err != nil {
		t.Fatal(err)
	}
	p := pipeline.Partition{Topic: s.cfg.In[0]}
	var at kadm.Offsets
	at.AddOffset(p.Topic, p.Number, 7, -1)
	at.AddOffset(left, 0, 9, -1)
	if err := adm.CommitAllOffsets(ctx(t), s.cfg.Group, at); err != nil {
		t.Fatal(err)
	}
	named := details[p.Topic]
	asked := unnamed(cluster, map[kadm.TopicID]string{named.ID: named.Topic}, math.MaxInt32)
	client := s.client()
	got, err := fetchOffsets(ctx(t), client, s.cfg.Group, p.Topic)
	if err != nil || got.of(p).next != 7 {
		t.Errorf("the group is at %d (%v), want 7", got.of(p).next, err)
	}
	if got, err := fetchOffsets(ctx(t), client, s.cfg.Group, p.Topic, left); !errors.Is(err, errUnnamed) {
		t.Errorf("of the topic without a name: %v (%v), want no answer", got, err)
	}
	if asked.Load() == 0 {
		t.Error("no name was asked for: the test has lost its fault")
	}
}

// unnamed makes a cluster not know the names of topics but these when it is asked for them
// by their IDs, so many times. It counts how often it was.
func unnamed(cluster *kfake.Cluster, but map[kadm.TopicID]string, times int32) *atomic.Int32 {
	asked := new(atomic.Int32)
	cluster.ControlKey(kmsg.NewPtrMetadataRequest().Key(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		ask := req.(*kmsg.MetadataRequest)
		if len(ask.Topics) == 0 || ask.Topics[0].Topic != nil || asked.Add(1) > times {
			return nil, nil, false
		}
		resp := ask.ResponseKind().(*kmsg.MetadataResponse)
		for _, topic := range ask.Topics {
			answer := kmsg.NewMetadataResponseTopic()
			answer.TopicID = topic.TopicID
			if name, known := but[topic.TopicID]; known {
				answer.Topic = kmsg.StringPtr(name)
			} else {
				answer.ErrorCode = kerr.UnknownTopicID.Code
			}
			resp.Topics = append(resp.Topics, answer)
		}
		return resp, nil, true
	})
	return asked
}
