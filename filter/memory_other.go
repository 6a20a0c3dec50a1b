//go:build !linux

package filter

// mapHuge maps nothing: filters live on Go's heap here.
func mapHuge(int) (mapping, aligned []byte, err error) { return nil, nil, nil }

// populate has nothing to do with a mapping that there never is.
func populate([]byte) error { return nil }

// discard has nothing to do with a mapping that there never is.
func discard([]byte) {}

// free leaves the memory to the garbage collector.
func (m *memory) free() error { return nil }
