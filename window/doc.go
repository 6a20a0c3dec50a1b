// Package window is a set of hashes that forgets by the time of the stream it
// watches: a hash learned at stream time M is held while the stream moves by
// less than the span W, and forgotten before it has moved by W plus one slice
// (up to 6 ms more, since seven slices are W rounded up).
//
// A [Window] belongs to one partition. It owns a [filter.Set], which remembers
// hashes by generation, and decides from the records' times when that set
// rotates. The whole of its input is a [Batch]: offsets, times, hashes, and the
// wall clock at reading. There is no other clock and no randomness, so the same
// records with the same reading times give the same verdicts however they are
// cut into batches and wherever the commits lie.
//
// # Stream time
//
// M is the largest believed record time and never falls. A generation is a
// slice of M, ceil(W/7) milliseconds long, numbered floor(M/slice); seven
// complete ones and the one filling are live. A record is added to the
// generation of the M that it was read at, not of its own time, so an old or
// out-of-order record is judged like any other. What a record's time may do:
//
//   - Believed: at most MaxAhead above the batch's wall clock. It may move M. A
//     move past more than one generation is marked [MarkJump].
//   - Ahead of that: marked [MarkAhead], judged at M, moves nothing.
//   - Unusable (zero, negative, beyond 2^62): marked [MarkNoTime], judged at M,
//     moves nothing.
//   - More than W below M: marked [MarkLate].
//
// Until a partition has shown a believed time, the wall clock stands in: M is the
// largest one seen. The first believed time then sets M wherever it lies. The
// filling generation takes the number of that time, the older ones keep their
// distance to it, and no bit moves: a bit belongs to a rotation, not to a number.
// The new M may lie elsewhere in its slice than the old one. Where it lies later,
// and there are older generations, the filling one takes the next number, so that
// nothing is held for less than W. What was learned until that generation ends may
// be held for up to one slice of movement more. This happens at most once in a
// partition's life.
//
// # Order
//
// Each record is handled in the order time, look-up, learn. A repeat is not
// learned again, so it does not extend the window and does not count as load; with
// [Config.Refresh] it is and does, once in each generation. A generation that has
// taken its planned number of hashes is full: its set would answer wrongly too often
// if it took more. Then the set grows ([GrowWhenFull]), or records pass unlearned
// (counted by [MarkUnlearned]), or Observe stops before the first that would be.
//
// # Undo
//
// Everything [Window.Observe] changes can be taken back. [Window.Seal] ends a
// section, [Window.Commit] makes the oldest sealed section final, and
// [Window.Rollback] restores what was after the last committed one, across any
// number of rotations and exactly.
//
// # Restart
//
// [State] is all that a window knows but its hashes, a few hundred bytes as text.
// [Rebuild] makes the window again from that and from up to three sources:
//
//   - A copy of the set that was made earlier, a checkpoint: [Rebuilder.Loaded]
//     moves its generations on to where the state is.
//   - A log of what was learned, in the runs that [Batch] gives out:
//     [Rebuilder.LearnRun]. A run is of a rotation, so it finds its generation also
//     where a first believed time has given that another number.
//   - The input, read again: [Rebuilder.Learn]. Since M never falls, a generation is
//     a range of offsets, and those alone say which one a record belongs to.
//
// From a copy and a log the window is the very one that it was. One that is rebuilt
// from the input may hold a hash longer, never shorter but for what [Rebuilder]
// says.
//
// Whether repeats extend the window may change over a restart: each generation holds
// what it was taught, whatever others hold.
//
// A window may be rebuilt with another span, and generations of another length.
// Rotations of the old ones mean nothing then: the high half of a rotation, its
// lineage, counts such changes. What is of another lineage finds its place by its
// stream time, and a copy of another is refused.
//
// # Units and concurrency
//
// Times are milliseconds since the epoch. A Window and a Rebuilder each have one
// owner: no method may run concurrently with another. Observe does not allocate.
package window
