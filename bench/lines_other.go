//go:build !linux

package bench

// hugeMemory is memory like that of a large filter: Go's heap, resident.
func hugeMemory(size int) (memory []byte, free func() error, err error) {
	memory = make([]byte, size)
	for i := 0; i < size; i += 4096 {
		memory[i] = 1
	}
	return memory, func() error { return nil }, nil
}
