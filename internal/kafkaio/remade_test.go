package kafkaio

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
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
