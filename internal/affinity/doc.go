// Package affinity keeps a thread on one processor, so that what it has in its
// caches stays there.
package affinity
