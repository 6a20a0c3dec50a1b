// Package survey measures what a deduplicator of a stream will have to remember: how
// fast IDs come, how many of the records are copies, and how long after the first copy
// the others come. From that it proposes a window and the room that a plan needs.
//
// It reads each record once, in the order of its partition, and its memory is bounded,
// whatever the stream:
//
//   - Counts, sizes, times and the records of each minute are exact.
//   - The number of IDs is that of a HyperLogLog, one for each partition.
//   - Ages of copies are those of a sample of the IDs, with all of their copies. It is
//     chosen by hash and begins as all IDs; when it is full, half of it is forgotten, so
//     that what is left is one in two, in four, and so on. Of the IDs in it everything is
//     known, and while it has all of them, all figures are exact.
//
// Time is stream time, as for the window of a deduplicator: the largest time of its
// partition so far that is not too far ahead of the clock. The age of a copy is by how
// much it has moved on since the first copy in the same partition.
//
// The package reads nothing itself: callers bring the records.
package survey
