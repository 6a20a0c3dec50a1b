package kafkaio

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
)

// checkScope refuses a group that was run with the other scope: it would begin
// anew, and all that it has written would come out again. It is asked before any
// topic is made, so that who is refused leaves nothing behind.
func checkScope(ctx context.Context, cfg Config, cl *kgo.Client) error {
	if cfg.source != "" {
		return nil // the stage before has looked
	}
	group, was := cfg.Group, pipeline.ScopeTopic
	other := func(in string) string { return RepartitionTopic(group, in) }
	if cfg.routes {
		group, was = cfg.judge, pipeline.ScopePartition
		other = func(in string) string { return in }
	}
	adm := kadm.NewClient(cl)
	if err := reach(ctx, cfg, adm); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.TxnTimeout)
	defer cancel()
	others := make([]string, len(cfg.In))
	for i, in := range cfg.In {
		others[i] = other(in)
	}
	var got kadm.OffsetResponses
	err := persist(ctx, func() (err error) {
		got, err = groupOffsets(ctx, adm, group, others...)
		if errors.Is(err, kerr.GroupIDNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("fetch the offsets of group %q: %w", group, err)
	}
	for _, topic := range others {
		for number, at := range got[topic] {
			if at.At >= 0 {
				return hinted("go back to --scope "+was.String()+", or begin anew under another --group",
					"group %q was run with --scope %s: it has an offset of %s/%d", group, was, topic, number)
			}
		}
	}
	return nil
}

// reach tells an address where nobody answers, which no patience heals, from a
// group whose coordinator takes its time.
func reach(ctx context.Context, cfg Config, adm *kadm.Client) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if _, err := adm.BrokerMetadata(ctx); err != nil {
		return unreachable(cfg, err)
	}
	return nil
}

// lookAtSource looks at the input of both stages. Its limits are those that people
// know: the topic between has some room more.
func lookAtSource(ctx context.Context, adm *kadm.Client, topic string) (input, error) {
	details, err := adm.ListTopics(ctx, topic)
	if err == nil {
		err = details[topic].Err
	}
	if err != nil {
		return input{}, fmt.Errorf("look at input topic %q: %w", topic, err)
	}
	configs, err := topicConfigs(ctx, adm, topic)
	if err != nil {
		return input{}, err
	}
	limits := limitsOf(topic, int32(len(details[topic].Partitions)), configs[topic])
	return input{partitions: limits.partitions, maxBytes: limits.maxBytes}, nil
}
