package kafkaio

import (
	"errors"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// remove deletes a topic, and waits until the broker has heard of it: who asks before
// still finds the old one.
func (s *scene) remove(topic string) {
	s.t.Helper()
	adm := kadm.NewClient(s.client())
	if _, err := adm.DeleteTopic(ctx(s.t), topic); err != nil {
		s.t.Fatal(err)
	}
	until(s.t, "the topic is gone", func() bool {
		topics, err := adm.ListTopics(ctx(s.t), topic)
		return err == nil && errors.Is(topics[topic].Err, kerr.UnknownTopicOrPartition)
	})
}

// grow gives topics more partitions, and waits until they are served: until then the
// broker may answer as it was, of each topic for itself.
func (s *scene) grow(partitions int, topics ...string) {
	s.t.Helper()
	adm := kadm.NewClient(s.client(kgo.MetadataMinAge(metadataMinAge)))
	answers, err := adm.UpdatePartitions(ctx(s.t), partitions, topics...)
	if err = errors.Join(err, answers.Error()); err != nil {
		s.t.Fatal(err)
	}
	until(s.t, "the new partitions are served", func() bool {
		ends, err := adm.ListEndOffsets(ctx(s.t), topics...)
		for _, topic := range topics {
			if err != nil || ends.Error() != nil || len(ends[topic]) != partitions {
				return false
			}
		}
		return true
	})
}

// remake deletes a topic and makes it again.
func (s *scene) remake(topic string, partitions int32, settings map[string]*string) {
	s.t.Helper()
	s.remove(topic)
	adm := kadm.NewClient(s.client())
	until(s.t, "the topic is made again", func() bool {
		_, err := adm.CreateTopic(ctx(s.t), partitions, -1, settings, topic)
		return err == nil
	})
	until(s.t, "it has leaders", func() bool {
		topics, err := adm.ListTopics(ctx(s.t), topic)
		return err == nil && hasLeaders(topics[topic])
	})
}

// lower sets how large batches of a topic may be, and waits until larger ones are refused:
// the broker answers before it does what it was told. What it aborts is not read.
func (s *scene) lower(topic string, maxBytes int) {
	s.t.Helper()
	limit := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: maxMessageBytes, Value: kadm.StringPtr(strconv.Itoa(maxBytes))}}
	if _, err := kadm.NewClient(s.client()).AlterTopicConfigs(ctx(s.t), limit, topic); err != nil {
		s.t.Fatal(err)
	}
	probe := s.client(kgo.TransactionalID("probe-"+s.cfg.Group), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	until(s.t, "the topic refuses what is too large now", func() bool {
		if err := probe.BeginTransaction(); err != nil {
			s.t.Fatal(err)
		}
		err := probe.ProduceSync(ctx(s.t), &kgo.Record{Topic: topic, Value: make([]byte, maxBytes)}).FirstErr()
		if ended := probe.EndTransaction(ctx(s.t), kgo.TryAbort); ended != nil {
			s.t.Fatal(ended)
		}
		return errors.Is(err, kerr.MessageTooLarge)
	})
}
