package kafkaio

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// A topic of our own is made as it must be; one with other settings is an error
// that names what is found and what is expected, and corrected on request.
func TestInternalTopic(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		adm := kadm.NewClient(s.client(kgo.MetadataMinAge(metadataMinAge)))
		name := s.cfg.Group + "-made"
		t.Cleanup(func() { _, _ = adm.DeleteTopic(ctx(t), name) })
		want := internalTopic{
			name: name, what: "changelog", partitions: 3, exact: true, settings: anyTime(kept()), leastBytes: 2 << 20,
		}
		for range 2 { // made, then found
			if err := ensureInternal(ctx(t), adm, want, false); err != nil {
				t.Fatal(err)
			}
		}
		// Partitions are added on request, and never taken away.
		want.partitions = 6
		err := ensureInternal(ctx(t), adm, want, false)
		if err == nil || !strings.Contains(err.Error(), "has 3 partitions, want 6") {
			t.Errorf("a topic with 3 partitions instead of 6: %v", err)
		}
		if err := ensureInternal(ctx(t), adm, want, true); err != nil {
			t.Errorf("add partitions: %v", err)
		}
		// Of several instances that start together all but the first find it done.
		if err := want.fit(ctx(t), adm, 3, true); err != nil {
			t.Errorf("add partitions that another has added meanwhile: %v", err)
		}
		want.partitions = 3
		err = ensureInternal(ctx(t), adm, want, true)
		if err == nil || !strings.Contains(err.Error(), "has 6 partitions, want 3") {
			t.Errorf("a topic with 6 partitions instead of 3: %v", err)
		}
		want.exact = false
		if err := ensureInternal(ctx(t), adm, want, false); err != nil {
			t.Errorf("any number of partitions: %v", err)
		}

		hour, size := "3600000", "1000"
		want.name = kafkatest.Topic(t, brokers, 6, map[string]*string{"retention.ms": &hour, "max.message.bytes": &size})
		err = ensureInternal(ctx(t), adm, want, false)
		for _, text := range []string{"retention.ms is 3600000, want -1", "max.message.bytes is 1000, want at least 2097152"} {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("a topic with wrong settings: %v, want %q in it", err, text)
			}
		}
		if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(e.Hint(), "--fix-topics") {
			t.Errorf("%v has no hint that names --fix-topics", err)
		}
		for _, fix := range []bool{true, false} {
			if err := ensureInternal(ctx(t), adm, want, fix); err != nil {
				t.Errorf("correct the settings, then check them: %v", err)
			}
		}
	})
}

// A broker that has not heard yet of the partitions that were added is asked again.
func TestInternalTopicAwaitsItsPartitions(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Fake(t, kfake.NumBrokers(1))
	s := newScene(t, cluster.ListenAddrs(), 1)
	adm := kadm.NewClient(s.client(kgo.MetadataMinAge(metadataMinAge)))
	want := internalTopic{
		name: kafkatest.Topic(t, s.brokers, 3, nil), what: "changelog", partitions: 6, exact: true,
	}
	old := 0
	cluster.ControlKey(kmsg.NewPtrCreatePartitionsRequest().Key(), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		old = 3
		return nil, nil, false
	})
	cluster.ControlKey(kmsg.NewPtrMetadataRequest().Key(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		ask := req.(*kmsg.MetadataRequest)
		if old == 0 || len(ask.Topics) == 0 {
			return nil, nil, false
		}
		old--
		return asBefore(cluster, ask, 3), nil, true
	})
	if err := ensureInternal(ctx(t), adm, want, true); err != nil {
		t.Fatalf("add partitions: %v", err)
	}
	if err := ensureInternal(ctx(t), adm, want, false); err != nil {
		t.Errorf("partitions that were added: %v", err)
	}
	if old != 0 {
		t.Errorf("%d old answers were not asked for: the test has lost its fault", old)
	}
}

// asBefore is an answer in which each topic has so many partitions, with leaders.
func asBefore(cluster *kfake.Cluster, ask *kmsg.MetadataRequest, partitions int32) *kmsg.MetadataResponse {
	resp := ask.ResponseKind().(*kmsg.MetadataResponse)
	broker := kmsg.NewMetadataResponseBroker()
	host, port, _ := net.SplitHostPort(cluster.ListenAddrs()[0])
	number, _ := strconv.Atoi(port)
	broker.Host, broker.Port = host, int32(number)
	resp.Brokers = append(resp.Brokers, broker)
	for _, topic := range ask.Topics {
		old := kmsg.NewMetadataResponseTopic()
		old.Topic, old.TopicID = topic.Topic, topic.TopicID
		for n := range partitions {
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Partition, p.Replicas, p.ISR = n, []int32{0}, []int32{0}
			old.Partitions = append(old.Partitions, p)
		}
		resp.Topics = append(resp.Topics, old)
	}
	return resp
}
