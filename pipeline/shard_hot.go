package pipeline

import "github.com/streamdedup/streamdedup/filter"

// Hot is an ID that has a large share of a partition's records.
type Hot struct {
	Hash filter.Hash
	// Share is that of the records with an ID, 0 where no ID stands out.
	Share float64
	// Text is the ID itself, under [Config.ShowIDs] and once another copy was read.
	Text string
}
