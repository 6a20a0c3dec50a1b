package affinity

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Pin lets the calling thread run on the given processor only. The caller has
// locked its goroutine to the thread, and never unlocks it: another goroutine
// would inherit the restriction.
func Pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin thread to processor %d: %w", cpu, err)
	}
	return nil
}

// Allowed is the processors that the calling thread may run on, ascending.
func Allowed() []int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil
	}
	cpus := make([]int, 0, set.Count())
	for cpu := 0; len(cpus) < cap(cpus); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}
