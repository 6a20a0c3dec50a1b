// Package pipeline turns batches of a stream into verdicts and verdicts into
// output, in cycles that end in one commit.
//
// A [Shard] is one partition's memory and its rules: it judges batches in
// offset order, learns what goes to the output, and can take back all it
// learned since the last commit. It has no lock, no clock and no I/O: the same
// records with the same reading times give the same outcomes, whatever the
// number of workers, the size of batches and the place of commits.
//
// An [Engine] runs shards on workers and cycles on a [Session]: poll, judge,
// deliver, commit. What a shard learned counts only once the commit that
// carries the record is confirmed; otherwise it is rolled back and the records
// are read again. So an ID is learned exactly when its record is in the output,
// which is what keeps a crash or an abort from losing a first copy.
//
// Each record gets one [Verdict] and one [Fate], and at every commit
//
//	in = unique + duplicate + missing + invalid
//	in = out + diverted + dropped
//
// Beside that a shard audits its filter by an exact record of one ID in 1,024, see
// [Audit], and looks for an ID with a large share of the traffic, see [Hot]. Neither
// changes an outcome.
//
// Sources and sinks are behind interfaces that pass whole batches; a file, a
// test or a Kafka group may stand there.
package pipeline
