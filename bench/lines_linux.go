package bench

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugeMemory is memory like that of a large filter: huge pages, resident.
func hugeMemory(size int) (memory []byte, free func() error, err error) {
	mapping, err := unix.Mmap(-1, 0, size+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	memory = mapping[-uintptr(unsafe.Pointer(unsafe.SliceData(mapping)))&(hugePage-1):][:size]
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE)
	for i := 0; i < size; i += 4096 {
		memory[i] = 1
	}
	return memory, func() error { return unix.Munmap(mapping) }, nil
}
