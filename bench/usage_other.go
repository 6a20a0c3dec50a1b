//go:build !unix

package bench

import "time"

// CPUTime is not known here.
func CPUTime() time.Duration { return 0 }
