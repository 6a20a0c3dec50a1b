// Package files is the file door: it takes records from files and pipes, has a
// [pipeline.Shard] judge them, and writes the survivors.
//
// A record is a line, or a row of CSV whose quotes may hold line ends, and its
// value is the line without its end ("\n" or "\r\n"). What survives is cut from
// the input and never re-encoded: its own bytes, its own line end. Only two things
// differ: a last line without an end gets "\n", and a byte order mark at the start
// of an input is dropped. Lines with nothing in them are left out and not counted;
// a line of spaces is a line. A header is written once and not counted.
//
// All inputs together are one stream, in the order they are named. Output is in
// input order and written when the input has nothing more to give at once, so
// that a pipe which trickles is followed line by line.
//
// Each of several workers carries a chunk of whole records through four steps:
// read it, find its IDs, have it judged, write it. All but the second go in turn,
// in the order of the input; so cores work side by side, a chunk stays in the
// cache of one of them, and verdicts and output are those of a single worker. A
// [Door] has the function to read first, carry.
//
// The memory is that of the shard, a chunk for each worker, and for lines longer
// than a chunk the longest line twice.
package files
