package main

import (
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machineMemory is how much memory this process can have at most: the machine's,
// or less where a control group says so. It is false where that is not known.
func machineMemory() (bytes uint64, known bool) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, false
	}
	return min(uint64(info.Totalram)*uint64(info.Unit), groupLimit(os.DirFS("/"))), true //nolint:unconvert // 32 bits elsewhere
}

// groupLimit is the least memory limit of our control group and those around it, of
// either version. Without a limit it is the largest number there is.
func groupLimit(root fs.FS) uint64 {
	limit := uint64(math.MaxUint64)
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return limit // no control groups
	}
	for line := range strings.Lines(string(groups)) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(line, ":")
		base, file := "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		switch {
		case controllers == "":
			base, file = "sys/fs/cgroup", "memory.max"
		case !slices.Contains(strings.Split(controllers, ","), "memory"):
			continue
		}
		for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
			text, err := fs.ReadFile(root, path.Join(base, dir, file))
			// The outermost of version 2 has no such file, and no limit is the word "max"
			// or a number that no machine has.
			if n, bad := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil {
				limit = min(limit, n)
			}
			if dir == "/" {
				break
			}
		}
	}
	return limit
}
