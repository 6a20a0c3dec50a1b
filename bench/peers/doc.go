// Package peers lets other programs do streamdedup's work, on the same events and
// held to the same truth: a ring of Bloom filters, Redis, PostgreSQL, Pebble,
// Benthos, stream processors on Kafka, and what removes duplicate lines of files.
//
// It is a module of its own, so that what it compares with is never a dependency of
// the product. run.sh beside it installs and runs everything; it needs Linux, whose
// /proc tells the CPU time of a server.
package peers
