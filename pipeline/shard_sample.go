package pipeline

// SampleStats is what an audit's exact record holds.
type SampleStats struct {
	// IDs are those that it remembers.
	IDs int
	// Known is the share of the live generations of which it knows everything: less
	// than 1 for a window after a restore from a checkpoint, which has no sample. The
	// rate that is measured meanwhile is that share of the true one.
	Known float64
	// Full says that it has no room and takes no more IDs.
	Full bool
}
