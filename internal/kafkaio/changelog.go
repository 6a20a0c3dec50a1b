package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/pipeline"
)

// changelog is the topic that keeps what the shards of one input learn, a partition
// for each of the input's. It is in the transactions of the output, so it says what
// came out, no more and no less.
type changelog struct {
	name string
	id   kadm.TopicID
}

// ChangelogTopic is the name of the changelog of a group for one of its inputs.
func ChangelogTopic(group, input string) string { return ownTopic(group, input, "seen") }

// maxTopicName is Kafka's limit.
const maxTopicName = 249

// ownTopic is the name of a topic of ours. A group may have a name that no topic can
// have; then a digest of the names keeps it apart from others.
func ownTopic(group, input, what string) string {
	name := group + "-" + input + "-" + what
	legal := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	if legal == name && len(name) <= maxTopicName {
		return name
	}
	end := fmt.Sprintf("-%016x-%s", xxhash.Sum64String(group+"\x00"+input), what)
	legal = strings.TrimSuffix(legal, "-"+what)
	return legal[:min(len(legal), maxTopicName-len(end))] + end
}

// TopicIDs are the IDs of an input and of its changelog, zero where there is none.
func (s *Session) TopicIDs(input string) (in, changelog [16]byte) {
	return s.found.inputs[input].id, s.found.changelogs[input].id
}

// changelogBytes is how large a batch a changelog must take: as large as the client
// makes them, which is twice the largest record of a change.
const changelogBytes = defaultMaxBytes

// lookAtChangelogs creates and checks the changelogs of the inputs.
func (f *found) lookAtChangelogs(ctx context.Context, cfg Config, adm *kadm.Client) error {
	f.changelogs = map[string]changelog{}
	for _, in := range cfg.In {
		name := ChangelogTopic(cfg.Group, in)
		err := ensureInternal(ctx, adm, internalTopic{
			name: name, what: "changelog topic", partitions: f.inputs[in].partitions, exact: true,
			settings: kept(), leastBytes: changelogBytes,
			grown: func(had int32) { warnOfNewPartitions(cfg.Logger, in, had, f.inputs[in].partitions) },
		}, cfg.FixTopics)
		if err != nil {
			return err
		}
		details, err := adm.ListTopics(ctx, name)
		if err == nil {
			err = details[name].Err
		}
		if err != nil {
			return fmt.Errorf("look at changelog topic %q: %w", name, err)
		}
		f.changelogs[in] = changelog{name: name, id: details[name].ID}
	}
	return nil
}

// warnOfNewPartitions says what an input that got more partitions while the group was
// away means. Only the changelog knows: a group has no offsets of partitions that it
// has not come to yet either.
func warnOfNewPartitions(log *slog.Logger, topic string, before, now int32) {
	log.Warn("the input has partitions that the group has not seen: they are read from their beginning, "+
		"and an ID that moved there passes once more", "topic", topic, "partitions_before", before, "partitions", now)
}

// logChanges sends what the cycle taught to the changelog. Each record has the ID
// of the input topic as its key: offsets of another topic of that name mean nothing.
func (s *Session) logChanges(positions []pipeline.Position) {
	clear(s.logged)
	s.logged = s.logged[:0]
	for _, at := range positions {
		log, ok := s.found.changelogs[at.Partition.Topic]
		if !ok || at.Change == nil {
			continue
		}
		at.Change.Acknowledged = s.cfg.Delivery == AtLeastOnce
		id := s.found.inputs[at.Partition.Topic].id
		for _, value := range at.Change.AppendRecords(nil) {
			r := &kgo.Record{Topic: log.name, Partition: at.Partition.Number, Key: id[:], Value: value}
			s.logged = append(s.logged, loggedRecord{at.Partition, r})
			s.client().Produce(s.cycle.sending, r, s.failures.logged)
		}
	}
}

// loggedRecord is a record of the changelog and the partition that it is about.
type loggedRecord struct {
	partition pipeline.Partition
	record    *kgo.Record
}

// logged is the client's answer to a record of the changelog.
func (f *failures) logged(r *kgo.Record, err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == nil {
		f.first = fmt.Errorf("write to changelog %s/%d: %w", r.Topic, r.Partition, err)
	}
	f.any.Store(true)
}

// logEnds are the ends of the changelog's partitions after what was logged.
func (s *Session) logEnds() map[pipeline.Partition]int64 {
	if len(s.logged) == 0 {
		return nil
	}
	ends := make(map[pipeline.Partition]int64, len(s.logged))
	for _, l := range s.logged {
		ends[l.partition] = max(ends[l.partition], l.record.Offset+1)
	}
	return ends
}

// logReader reads changes of one partition.
type logReader struct {
	*reader
	// input is the topic that the changes must be about.
	input kadm.TopicID
}

func (s *Session) readLog(p pipeline.Partition, from int64) *logReader {
	log := s.found.changelogs[p.Topic]
	r := newReader(s.admin, log.id, pipeline.Partition{Topic: log.name, Number: p.Number}, from)
	return &logReader{r, s.found.inputs[p.Topic].id}
}

// loggedChange is a change, or a part of one, where it is in the changelog.
type loggedChange struct {
	pipeline.Change
	last   bool
	offset int64
}

// changes are the next ones below end. There are none when there are none yet.
func (r *logReader) changes(ctx context.Context, end int64) ([]loggedChange, error) {
	records, err := r.read(ctx)
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return nil, r.followTrim(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	changes := make([]loggedChange, 0, len(records))
	for _, record := range records {
		if record.Attrs.IsControl() || record.Offset >= end {
			continue
		}
		c, last, err := pipeline.ParseRecord(record.Value)
		if err != nil && !errors.Is(err, pipeline.ErrForeignState) {
			err = fmt.Errorf("%w: %w", errDamagedLog, err)
		}
		if err != nil {
			return nil, fmt.Errorf("changelog %s, offset %d: %w", r.partition, record.Offset, err)
		}
		if id := (kadm.TopicID{}); r.input != id && len(record.Key) == len(id) && string(record.Key) != string(r.input[:]) {
			return nil, fmt.Errorf("changelog %s, offset %d: %w", r.partition, record.Offset, errOtherInput)
		}
		changes = append(changes, loggedChange{c, last, record.Offset})
	}
	return changes, nil
}

// followTrim goes to where the changelog begins by now: the owner before us may still
// be deleting what the window has forgotten.
func (r *logReader) followTrim(ctx context.Context, cause error) error {
	start, err := lookUp(ctx, kadm.NewClient(r.client).ListStartOffsets, r.partition)
	if err != nil || start <= r.next {
		return errors.Join(cause, err)
	}
	r.next = start
	return nil
}

// errOtherInput is the error of a state whose offsets are of another topic.
var errOtherInput = errors.New("it is about another input topic: the input was deleted and made again, or another group has a changelog of that name")

// errDamagedLog is the error of a record that no version of ours has written.
var errDamagedLog = errors.New("it is no record of a changelog")

// tail is how far before the end the last change is looked for first: a small one
// is a record and a marker.
const tail = 8

// lastChange is the change below end that a restore goes on from, nil if there is
// none. What it taught is left out.
func (s *Session) lastChange(ctx context.Context, p pipeline.Partition, start, end int64) (*loggedChange, error) {
	for back := int64(tail); ; back *= 8 {
		from := max(start, end-back)
		var ended []loggedChange
		for r := s.readLog(p, from); r.next < end; {
			changes, err := r.changes(ctx, end)
			if err != nil {
				return nil, err
			}
			for _, c := range changes {
				if c.Learned = nil; c.last {
					ended = append(ended, c)
				}
			}
		}
		if len(ended) > 0 || from == start {
			return decisive(ended), nil
		}
	}
}

// decisive is the one of the changes, in the order of the log, whose state is the
// newest: the last one. In a log that is not part of transactions a process that lost
// the partition without noticing may have written after the one that had it. There it
// is the last one of those whose stream is furthest: that never goes back, also when
// the group is moved back.
func decisive(changes []loggedChange) (best *loggedChange) {
	for i := range changes {
		if c := &changes[i]; best == nil || !c.Acknowledged || !isBehind(c, best) {
			best = c
		}
	}
	return best
}

// isBehind is whether the stream was further in the other change, or in the same
// moment the reading.
func isBehind(c, other *loggedChange) bool {
	s, o := &c.State.Window, &other.State.Window
	switch {
	case s.Rotation != o.Rotation:
		return s.Rotation < o.Rotation
	case s.Believed != o.Believed:
		return o.Believed
	case s.StreamTime != o.StreamTime:
		return s.StreamTime < o.StreamTime
	}
	return c.Next < other.Next
}

// logBounds are the ends of a partition of the changelog: what is in it, what can
// be read, and what is written.
type logBounds struct{ start, stable, end int64 }

func (s *Session) logBounds(ctx context.Context, p pipeline.Partition) (b logBounds, err error) {
	log := pipeline.Partition{Topic: s.found.changelogs[p.Topic].name, Number: p.Number}
	adm := kadm.NewClient(s.admin)
	// The end last: then what lies before it was there when the stable end was not.
	for _, ask := range []struct {
		to   *int64
		list func(context.Context, ...string) (kadm.ListedOffsets, error)
	}{{&b.start, adm.ListStartOffsets}, {&b.stable, adm.ListCommittedOffsets}, {&b.end, adm.ListEndOffsets}} {
		if *ask.to, err = lookUp(ctx, ask.list, log); err != nil {
			return b, fmt.Errorf("look for the ends of changelog %s: %w", log, err)
		}
	}
	return b, nil
}
