// Package files is the file door: it takes lines from files and pipes, has a
// [pipeline.Shard] judge them, and writes the survivors.
//
// A record is a line, and its value is the line without its end ("\n" or
// "\r\n"). What survives is cut from the input and never re-encoded: its own
// bytes, its own line end. Only two things differ: a last line without an end
// gets "\n", and a byte order mark at the start of an input is dropped. Lines
// with nothing in them are left out and not counted; a line of spaces is a line.
//
// All inputs together are one stream, in the order they are named. Output is in
// input order and written when the input has nothing more to give at once, so
// that a pipe which trickles is followed line by line.
//
// The memory is that of the shard, plus the longest line twice.
package files
