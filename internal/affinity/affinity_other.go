//go:build !linux

package affinity

import (
	"errors"
	"runtime"
)

// Pin is not available here.
func Pin(int) error {
	return errors.New("pin thread to processor: not available on " + runtime.GOOS)
}

// Allowed is every processor: what a thread is restricted to is not known here.
func Allowed() []int {
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus
}
