// Package workload makes streams with duplicates whose truth is known: which
// record is the first of its event and which is a copy.
//
// The streams look like those that need deduplication. Copies come as retries
// seconds later, as replays minutes later, and as one burst of a hot event;
// records come late and out of order, and a few devices have clocks that are
// minutes or hours behind or years ahead. A copy always lies in the partition of
// its first and is read before stream time has moved by the window, so that an
// exact deduplicator lets precisely the firsts through.
//
// Equal configurations give equal bytes, in the same order, on every platform.
package workload
