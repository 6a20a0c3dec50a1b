package kafkaio

import (
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
	var asked atomic.Int32
	cluster.ControlKey(kmsg.NewPtrMetadataRequest().Key(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		ask := req.(*kmsg.MetadataRequest)
		if len(ask.Topics) == 0 || ask.Topics[0].Topic != nil || asked.Add(1) > unknown {
			return nil, nil, false
		}
		resp := ask.ResponseKind().(*kmsg.MetadataResponse)
		for _, topic := range ask.Topics {
			none := kmsg.NewMetadataResponseTopic()
			none.TopicID, none.ErrorCode = topic.TopicID, kerr.UnknownTopicID.Code
			resp.Topics = append(resp.Topics, none)
		}
		return resp, nil, true
	})
	session := &Session{cfg: s.cfg, admin: s.client(), warn: newWarner(s.cfg.Logger)}
	got, err := session.committed(ctx(t), p)
	if err != nil || got.of(p).next != 7 {
		t.Errorf("the group is at %d (%v), want 7", got.of(p).next, err)
	}
	if asked.Load() <= unknown {
		t.Errorf("the topic's name was asked for %d times: the test has lost its fault", asked.Load())
	}
}
