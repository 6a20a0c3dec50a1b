// Package kafkaio reads an input topic, writes an output topic and commits both
// in one Kafka transaction, or, where that is enough, one after the other. It is the [pipeline.Session] of a consumer group, and
// the [pipeline.Restorer] that gives a partition's memory back from the input.
//
// It promises that no record is skipped and, in transactions, none is written
// twice, whatever is killed, fenced, timed out or rebalanced. The rules that keep
// the promise:
//
//   - A commit carries the positions of the shards, never what was polled
//     (exactly.go, acknowledged.go).
//   - It is tried only when every record was acknowledged (deliver.go).
//   - What cannot be known from an answer is asked: a commit whose end is unclear
//     is closed first, then the group's offsets say what became of it (settle.go).
//   - Ownership is what the group says, and a partition that is named by an
//     assignment starts from nothing (assign.go).
//   - Positions are checked on the way in: a jump forward is explained by the
//     broker, or it stops the partition; what lies behind is thrown away (poll.go).
//   - A process takes its predecessor's transactional ID over before it reads any
//     offset (client.go).
//
// kgo.Client appears here and nowhere else.
package kafkaio
