package kafkaio

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
)

// output is what a topic accepts, as its broker says. It does not change.
type output struct {
	topic string
	// id tells it from a topic of the same name that was made later.
	id         kadm.TopicID
	partitions int32
	// compacted topics take no record without a key, and keep the last of each.
	compacted bool
	// room is what we add to a record on its way to the topic.
	room int64
	// maxBytes is the largest record batch, max.message.bytes.
	maxBytes int32
	// clock says that the broker looks at the records' own times; with
	// LogAppendTime it replaces them.
	clock bool
	// before and after are how far a record's time may lie from the broker's
	// clock, in milliseconds.
	before, after int64
}

// outputs are the output and the topics for diverted records and for copies of
// duplicates, nil if none.
type outputs struct{ out, divert, duplicates *output }

// all are those that there are.
func (o outputs) all() []*output {
	return slices.DeleteFunc([]*output{o.out, o.divert, o.duplicates}, func(to *output) bool { return to == nil })
}

// clone is for the client, whose goroutines read it while we may learn better.
func (o outputs) clone() outputs {
	for _, to := range []**output{&o.out, &o.divert, &o.duplicates} {
		if *to != nil {
			mine := **to
			*to = &mine
		}
	}
	return o
}

// What kgo accepts as a limit, and its own default for a request.
const (
	minBatchLimit       = 512
	maxBatchLimit       = 1 << 30
	defaultRequestLimit = 100 << 20
	requestOverhead     = 1 << 20
)

// batchOverhead is the length of a record batch without records.
const batchOverhead = 61

// batchLimit is kgo's limit for batches of a topic. kgo counts the length
// prefix of the batch into it, a number of seven bits a byte; the broker does not.
func (o outputs) batchLimit(topic string) int32 {
	limit := int64(defaultMaxBytes)
	for _, to := range o.all() {
		if to.topic == topic {
			limit = int64(to.maxBytes)
		}
	}
	limit += int64(bits.Len64(uint64(limit+1))+6) / 7
	return int32(min(max(limit, minBatchLimit), maxBatchLimit))
}

// defaultMaxBytes is Kafka's default for max.message.bytes.
const defaultMaxBytes = 1048588

// requestLimit lets the largest batch into a request.
func (o outputs) requestLimit() int32 {
	limit := int64(defaultRequestLimit)
	for _, to := range o.all() {
		limit = max(limit, int64(to.maxBytes)+requestOverhead)
	}
	return int32(min(limit, maxBatchLimit))
}

// tooLarge is whether r cannot be written even alone: a producer does not know
// how small compression would make it, and refuses it by its plain size.
func (o *output) tooLarge(r *kgo.Record) bool {
	// Only what could be too large is counted to the byte.
	most := batchOverhead + 3 + 4*longestVarint + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		most += len(r.Headers[i].Key) + len(r.Headers[i].Value) + 2*longestVarint
	}
	if int64(most)+o.room <= int64(o.maxBytes) {
		return false
	}
	return batchOverhead+recordLength(r)+o.room > int64(o.maxBytes)
}

// surelyTakes is whether r can be written also where a client is more careful.
func (o *output) surelyTakes(r *kgo.Record) bool {
	return batchOverhead+recordLength(r)+almost <= int64(o.maxBytes)
}

// longestVarint is the length of the longest number that a record has of its lengths.
const longestVarint = 5

// recordLength is the length of r as the first record of a batch, from the
// record format of Kafka's message format 2.
func recordLength(r *kgo.Record) int64 {
	n := 1 + 1 + 1 // attributes, the differences of time and offset to the batch's
	n += kbin.VarintLen(int32(len(r.Key))) + len(r.Key)
	n += kbin.VarintLen(int32(len(r.Value))) + len(r.Value)
	n += kbin.VarintLen(int32(len(r.Headers)))
	for _, h := range r.Headers {
		n += kbin.VarintLen(int32(len(h.Key))) + len(h.Key)
		n += kbin.VarintLen(int32(len(h.Value))) + len(h.Value)
	}
	return int64(kbin.VarintLen(int32(n)) + n)
}

// maxMillis is the last time that kgo can write: it counts in nanoseconds.
const maxMillis = math.MaxInt64/int64(time.Millisecond) - 1

// accept is the time nearest to t that the output takes, at now. Slack is kept
// clear of the limits, because the broker compares with its own clock, and later.
func (o *output) accept(t, now, slack int64) int64 {
	if t == noTimestamp {
		return t
	}
	lowest, highest := -maxMillis, maxMillis
	// A limit that reaches past all times is none.
	if o.clock && o.before < maxMillis-now {
		lowest = now - o.before + min(slack, o.before)
	}
	if o.clock && o.after < maxMillis-now {
		highest = now + o.after - min(slack, o.after)
	}
	return max(lowest, min(t, highest))
}

// noTimestamp is Kafka's "none". Every broker takes it as it is.
const noTimestamp = -1
