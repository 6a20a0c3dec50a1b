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

// These are surprises of the input: what is not as it was when the process began.
// After none of them it is safe to go on, since positions, or what a partition
// remembers, would be of something else. Each is an error that says from what to
// what, and the way out.

// wayAnew is the way out where nothing of the group is of use any more.
const wayAnew = "the group's offsets and its state are those of the old topic: drop them with `streamdedup state reset`, " +
	"or begin anew under another --group"

func madeAnew(topic string, was, is kadm.TopicID) error {
	return hinted(wayAnew, "input topic %q was deleted and made again: its ID was %s, now it is %s", topic, was, is)
}

func deleted(topic string, id kadm.TopicID) error {
	return hinted(wayAnew, "input topic %q, ID %s, was deleted", topic, id)
}

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

// surprise compares an input with what it was. Gone says that the topic was
// missing the last time, too: a broker that has just come back may not know it yet.
func surprise(topic string, was input, now kadm.TopicDetail, gone bool) error {
	switch unknown := (kadm.TopicID{}); {
	case errors.Is(now.Err, kerr.UnknownTopicOrPartition) && gone:
		return deleted(topic, was.id)
	case now.Err != nil:
		return nil
	case now.ID != was.id && now.ID != unknown && was.id != unknown:
		return madeAnew(topic, was.id, now.ID)
	case int32(len(now.Partitions)) > was.partitions:
		return grown(topic, was, int32(len(now.Partitions)))
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
