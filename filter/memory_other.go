//go:build !linux

package filter

// mapHuge maps nothing: filters live on Go's heap here.
func mapHuge(int) (mapping, aligned []byte, err error) { return nil, nil, nil }

// free leaves the memory to the garbage collector.
func (m *memory) free() error { return nil }
