// Package filter remembers hashes for a window of a stream: whether one was
// seen, and how long ago, in a few bytes each. It is the memory of a
// deduplicator, which decides when the window moves and what is learned.
//
// Which function do I call? [Size] gives the geometry for a number of elements
// and a rate, [NewSliced] makes the filter, and [Set] says what it does. For what is
// one window as a whole there are [SingleSize] and [NewSingle], and for what may hold more
// than it was planned for [NewGrowing].
//
// # What it promises
//
// A hash that was learned is found, always, until the eighth rotation after it.
// One that was not is taken for seen at a rate of [Params.FPR] at most, as long
// as no generation holds more than its share of the elements: count them, and
// give TestAndAdd the room that is left. FPREstimate says what the rate is now, by the
// bits that are set. What was learned since the last commit can be undone to the byte.
// The same calls leave the same bytes everywhere.
//
// # How a Sliced works
//
// A Bloom filter answers whether some bits are all set. The sliced filter puts
// a byte where the textbook has a bit, one bit of it for each of eight
// generations: seven complete ones and the one that is filling. The AND of a
// hash's bytes is at once the set of generations that hold it, so a look-up
// costs the same for eight generations as for one, and it tells the age.
//
//	a line, 64 bytes:  cell 0 | cell 1 | ... | cell 62 | stamp
//	a cell, 8 bits:    one for each generation, by rotation modulo 8
//
// A hash picks two to four lines, and some of the 63 cells in each. Few lines
// are fast, for each is a miss of all caches in a large filter; more lines need
// less memory, for the load of a line varies and a hash that is spread over several
// meets the average. That is the choice between [Fast] and [Compact].
//
// A rotation makes a new generation, and its bit is still set wherever the one
// of eight rotations ago left it. The stamp of a line says at which rotation it
// was last cleaned of such bits. A look-up masks what has expired since; an
// addition cleans its lines; and every rotation owes the cleaning of one line in
// 128, wherever they are, which later calls pay in small steps. So a rotation
// takes no time, and no stamp grows so old that its eight bits would wrap.
//
// # Without a window
//
// An input that is remembered as a whole, from its first record to its last, has no
// use for generations. A [Single] keeps a bit where the sliced filter keeps a byte, and
// neither shares its rate nor leaves room for a generation that fills: 9.7 bits an
// element at a rate of 1e-2 where the sliced filter takes 16.9, and 19.8 at 1e-4 where
// it takes 29.7.
//
// # More than planned
//
// A filter that holds more than it was sized for answers wrongly more and more often: at
// 1e-3, three times the plan in all generations withholds 58% of what is new. A [Growing]
// adds filters instead, slabs of half the first one's capacity, for lower and lower rates,
// and its rate stays below 1.2 times the plan's. It takes 3.8 times the memory for three
// times the hashes, each slab is a look-up more, and both go back to what they were when
// the window has moved on.
//
// # What it costs
//
// Memory is that of [Params.Bytes], and a journal of 16 bytes for each hash
// learned since the last commit and 72 for each line cleaned since then. Large
// filters are outside Go's heap, so set GOMEMLIMIT to what they leave.
//
// TestAndAdd computes the lines of 64 hashes and asks the processor for all of them
// before it looks at the first, so that their misses overlap. Batches of 64 or
// more are best.
//
// # How it is stored
//
// Its state is a small head and a body, which is the lines as they are. A body may
// be copied in pieces between calls, while the filter goes on and even rotates: the
// stamps tell what has expired since, and Load does for a line what the sweep did
// after it was copied. Both are described byte by byte at the top of body.go.
package filter
