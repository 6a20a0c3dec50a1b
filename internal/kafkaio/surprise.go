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

// These are surprises of the topics: what is not as it was when the process began.
// After none of them it is safe to go on, since positions, or what a partition
// remembers, would be of something else. Each is an error that says from what to
// what, and the way out.

// wayAnew is the way out where nothing of the group is of use any more.
const wayAnew = "the group's offsets and its state are those of the old topic: begin anew under another --group, " +
	"or, unless it runs with --scope topic, drop them with `streamdedup state reset`"

// topicThen is a topic as it was at the start.
type topicThen struct {
	what string // it is, in the words of the guide
	id   kadm.TopicID
	// way is the way out where it is another one, or none, by now.
	way string
}

func (in input) then() topicThen { return topicThen{"input topic", in.id, wayAnew} }

// written are the topics that we write to.
func (s *Session) written() map[string]topicThen {
	const goOn = "start again to go on, with the topic made again; what the old one held is not written again"
	written := map[string]topicThen{}
	for _, to := range s.found.outputs.all() {
		written[to.topic] = topicThen{"output topic", to.id, goOn}
	}
	if s.cfg.routes {
		written[s.cfg.Out] = topicThen{"repartition topic", s.found.outputs.out.id, wayAnew}
	}
	for _, log := range s.found.changelogs {
		written[log.name] = topicThen{"changelog topic", log.id,
			"start again to go on: it is made again, and what it knew is learned from the input, as far as that reaches back"}
	}
	return written
}

// another is an error if a topic is another one now, or none. Gone says that it was
// missing the last time, too: a broker that has just come back may not know it yet.
func (t topicThen) another(topic string, now kadm.TopicDetail, gone bool) error {
	switch unknown := (kadm.TopicID{}); {
	case isMissing(now) && gone:
		return hinted(t.way, "%s %q, ID %s, was deleted", t.what, topic, t.id)
	case now.Err == nil && now.ID != t.id && now.ID != unknown && t.id != unknown:
		return t.madeAnew(topic, now.ID)
	}
	return nil
}

func (t topicThen) madeAnew(topic string, is kadm.TopicID) error {
	return hinted(t.way, "%s %q was deleted and made again: its ID was %s, now it is %s", t.what, topic, t.id, is)
}

func isMissing(now kadm.TopicDetail) bool { return errors.Is(now.Err, kerr.UnknownTopicOrPartition) }

func grown(topic string, was input, is int32) error {
	if was.shared {
		return hinted(fmt.Sprintf("start again to go on: new partitions are read from their beginning, and IDs are known wherever they moved; "+
			"the output must have %d partitions by then", is),
			"input topic %q had %d partitions, now it has %d", topic, was.partitions, is)
	}
	return hinted(fmt.Sprintf("start again to go on, with --fix-topics: new partitions are read from their beginning, and an ID that moved to another "+
		"partition passes once more, which --scope topic prevents; the output must have %d partitions by then", is),
		"input topic %q had %d partitions, now it has %d: IDs may have moved to partitions that do not know them", topic, was.partitions, is)
}

// surprise compares an input with what it was, see another.
func surprise(topic string, was input, now kadm.TopicDetail, gone bool) error {
	if err := was.then().another(topic, now, gone); err != nil {
		return err
	}
	if n := int32(len(now.Partitions)); now.Err == nil && n > was.partitions {
		return grown(topic, was, n)
	}
	return nil
}

// missing says which offsets a position that the broker refuses has lost, and
// gives err back where that cannot be found out.
func (s *Session) missing(ctx context.Context, p pipeline.Partition, next int64, err error) error {
	const move = "move the group on with kafka-consumer-groups --reset-offsets to go without them"
	var loss *kgo.ErrDataLoss
	if errors.As(err, &loss) && loss.ResetTo < loss.ConsumedTo {
		return hinted(move, "offsets from %d to %d were read, and the partition has lost them, or has others in their place: %w",
			loss.ResetTo, loss.ConsumedTo-1, err)
	}
	if !errors.Is(err, kerr.OffsetOutOfRange) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	adm := kadm.NewClient(s.admin)
	start, startErr := lookUp(ctx, adm.ListStartOffsets, p)
	end, endErr := lookUp(ctx, adm.ListEndOffsets, p)
	switch {
	case startErr == nil && next < start:
		return hinted(move, "records from offset %d to %d were deleted before they were read: %w", next, start-1, err)
	case endErr == nil && next > end:
		return hinted(move, "offsets from %d to %d were read, and the partition ends before them: a broker lost them: %w", end, next-1, err)
	}
	return hinted(move, "offset %d is not in the partition any more: %w", next, err)
}
