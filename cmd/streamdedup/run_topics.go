package main

import (
	"slices"

	"github.com/streamdedup/streamdedup/internal/kafkaio"
)

// checkTopics refuses to write records to, or read them from, topics of our own: a
// record among the changes there would make the memory unreadable.
func (s *runSettings) checkTopics() error {
	var own []string
	for _, in := range s.in {
		between := kafkaio.RepartitionTopic(s.group, in)
		own = append(own, kafkaio.ChangelogTopic(s.group, in), between, kafkaio.ChangelogTopic(s.group, between))
	}
	for _, named := range []struct {
		flag   string
		topics []string
	}{
		{"in", s.in}, {"out", []string{s.out}}, {"divert-topic", []string{s.divert}}, {"duplicates-topic", []string{s.duplicates}},
	} {
		for _, topic := range named.topics {
			if topic != "" && slices.Contains(own, topic) {
				return withHint(usagef("--%s is %q, a topic that group %q keeps its own state in", named.flag, topic, s.group),
					"name another topic; `streamdedup state` shows and changes what is in that one")
			}
		}
	}
	return nil
}
