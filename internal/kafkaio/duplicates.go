package kafkaio

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
)

const (
	// HeaderDuplicate marks a duplicate that comes out, where duplicates are tagged.
	// Its value is the age of the first copy in whole seconds, as exact as a
	// generation is long.
	HeaderDuplicate = "streamdedup-duplicate"
	// HeaderAge is the same age on a copy in the topic for duplicates, behind the
	// headers that a diverted record has.
	HeaderAge = "streamdedup-age"
	// tagRoom is more than the tag takes, with what it adds to lengths.
	tagRoom = 64
)

// ageText is the age of the first copy of duplicate i, as headers have it.
func ageText(b *pipeline.Batch, i int) []byte {
	return strconv.AppendInt(nil, int64(b.Age(i)/time.Second), 10)
}

// tag marks record i of b, a duplicate on its way to the output.
func tag(b *pipeline.Batch, i int, r *kgo.Record) {
	r.Headers = append(slices.Clip(r.Headers), kgo.RecordHeader{Key: HeaderDuplicate, Value: ageText(b, i)})
}

// copies are those of duplicates that are dropped or tagged. A copy is for people to look at: what its
// topic cannot take is left out, and holds up nobody.
type copies struct {
	// refused are places in the input of copies that the topic refused although it
	// should take them. They are left out when they are read again.
	refused map[place]bool
}

// place is where a record is in what we read.
type place struct {
	partition pipeline.Partition
	offset    int64
}

// copyBeside is the copy of a duplicate that comes out as well, tagged: nil where there
// is to be none. It shares key and value with the record.
func (s *Session) copyBeside(src *source, b *pipeline.Batch, i int) *kgo.Record {
	r := src.records[i]
	c := &kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}
	if !s.copyOf(src, b, i, c) {
		return nil
	}
	src.copies = append(src.copies, copied{c, i})
	return c
}

// copyOf makes the record of a duplicate its copy in the topic for duplicates.
// It reports false where there is to be none. A time that the topic would refuse is
// moved, which is no mark: that would be of the record in the output.
func (s *Session) copyOf(src *source, b *pipeline.Batch, i int, r *kgo.Record) bool {
	to := s.found.outputs.duplicates
	if to == nil || b.Outcomes[i].Verdict != pipeline.Duplicate {
		return false
	}
	from, offset := s.whence(src, b, i)
	r.Headers = append(slices.Clip(r.Headers), diversion(b.Outcomes[i].Reason, from, offset)...)
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: HeaderAge, Value: ageText(b, i)})
	r.Topic, r.Partition = to.topic, from.Number%to.partitions
	if s.copies.refused[place{b.Partition, b.Offsets[i]}] || !to.surelyTakes(r) {
		s.cycle.uncopied++
		s.warn.warn("a duplicate is too large for the topic for duplicates: there is no copy of it",
			"topic", to.topic, "partition", from.String(), "offset", offset, "max_message_bytes", to.maxBytes)
		return false
	}
	if accepted := to.accept(b.Records[i].Time, b.Now, s.slack.Milliseconds()); accepted != b.Records[i].Time {
		r.Timestamp = time.UnixMilli(accepted)
	}
	return true
}

// refusedCopies looks into copies that their topic refused as too large. It returns
// an error when its limit has changed: the client must be replaced to know it.
func (s *Session) refusedCopies(ctx context.Context, at []place) error {
	if len(at) == 0 {
		return nil
	}
	if err := s.lookAgain(ctx, s.found.outputs.duplicates); err != nil {
		return err
	}
	if s.copies.refused == nil {
		s.copies.refused = map[place]bool{}
	}
	for _, p := range at {
		s.copies.refused[p] = true
	}
	return nil
}

// passed forgets what was refused before the partitions' present positions.
func (c *copies) passed(parts map[pipeline.Partition]*tenancy) {
	maps.DeleteFunc(c.refused, func(at place, _ bool) bool {
		t := parts[at.partition]
		return t == nil || at.offset < t.committed.offset
	})
}

// NotCopied is how many duplicates, of those in cycles that were committed, were too
// large for their topic. It may be called from any goroutine.
func (s *Session) NotCopied() uint64 { return s.notCopied.Load() }
