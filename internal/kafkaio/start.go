package kafkaio

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/streamdedup/streamdedup/pipeline"
)

// offset resolves the start in p.
func (s Start) offset(ctx context.Context, adm *kadm.Client, p pipeline.Partition) (int64, error) {
	list := adm.ListStartOffsets
	switch {
	case s.latest:
		// The last stable offset: what an open transaction holds is read later.
		list = adm.ListCommittedOffsets
	case s.millis > 0:
		list = func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
			return adm.ListOffsetsAfterMilli(ctx, s.millis, topics...)
		}
	}
	at, err := lookUp(ctx, list, p)
	if err != nil {
		return 0, fmt.Errorf("resolve --start %s for %s: %w", s, p, err)
	}
	return at, nil
}

// lookUp asks for one of a partition's offsets, until ctx ends.
func lookUp(ctx context.Context, list func(context.Context, ...string) (kadm.ListedOffsets, error), p pipeline.Partition) (offset int64, err error) {
	err = persist(ctx, func() error {
		listed, err := list(ctx, p.Topic)
		if err != nil {
			return fmt.Errorf("ask for an offset of %s: %w", p, err)
		}
		at, ok := listed.Lookup(p.Topic, p.Number)
		switch {
		case !ok:
			return fmt.Errorf("the brokers do not know partition %s", p)
		case at.Err != nil:
			return fmt.Errorf("ask for an offset of %s: %w", p, at.Err)
		}
		offset = at.Offset
		return nil
	})
	return offset, err
}
