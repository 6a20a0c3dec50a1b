// Package state keeps copies of shards' memories on the local disk, so that a
// process that comes back has its memory at the speed of the disk.
//
// A checkpoint is a cache. What it says can be had from the changelog, so one
// that is not perfectly right is refused, said why, and never repaired. A
// checkpoint is a file; [Folder] keeps those of one instance of one group, and
// a lock on the folder keeps a second process out. format.go says what is in a
// file, byte by byte. [Look] reads them without the lock, for people.
//
// A checkpoint appears under its name whole or not at all: it is written to a
// temporary file beside, flushed to the disk, renamed, and the folder flushed,
// too. Whatever happens on the way, those before it stay as they are. The newest
// two of each partition are kept, so the disk needs room for three.
package state
