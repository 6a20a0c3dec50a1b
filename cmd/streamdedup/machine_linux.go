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

// freeMemory is how much more memory this process can have now, which is less than
// [machineMemory] where others, or this process itself, have some. What the system only
// caches counts as free.
func freeMemory() (bytes uint64, known bool) {
	root := os.DirFS("/")
	free, known := available(root)
	return min(free, groupFree(root)), known
}

// available is what the system says it has for new programs without swapping.
func available(root fs.FS) (bytes uint64, known bool) {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0, false
	}
	kilobytes, known := field(text, "MemAvailable:")
	return kilobytes << 10, known
}

// field is the number that follows a name at the beginning of a line.
func field(text []byte, name string) (n uint64, known bool) {
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == name {
			n, err := strconv.ParseUint(words[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// groupFiles names the files of a control group of one version.
type groupFiles struct {
	base, limit, used string
	cached            []string // what of used is only cached, in memory.stat
}

var (
	groupFiles1 = groupFiles{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_inactive_file", "total_active_file"}}
	groupFiles2 = groupFiles{"sys/fs/cgroup", "memory.max", "memory.current", []string{"inactive_file", "active_file"}}
)

// groupLimit is the least memory limit of our control group and those around it, of
// either version. Without a limit it is the largest number there is.
func groupLimit(root fs.FS) uint64 {
	limit := uint64(math.MaxUint64)
	eachGroup(root, func(dir string, files groupFiles) {
		if n, known := number(root, path.Join(dir, files.limit)); known {
			limit = min(limit, n)
		}
	})
	return limit
}

// groupFree is what the fullest of these groups leaves.
func groupFree(root fs.FS) uint64 {
	free := uint64(math.MaxUint64)
	eachGroup(root, func(dir string, files groupFiles) {
		limit, known := number(root, path.Join(dir, files.limit))
		used, counted := number(root, path.Join(dir, files.used))
		if !known || !counted {
			return
		}
		if text, err := fs.ReadFile(root, path.Join(dir, "memory.stat")); err == nil {
			for _, name := range files.cached {
				cached, _ := field(text, name)
				used -= min(used, cached)
			}
		}
		free = min(free, limit-min(limit, used))
	})
	return free
}

// number is what a file holds. The outermost group of version 2 has no such file, and no
// limit is the word "max" or a number that no machine has.
func number(root fs.FS, file string) (n uint64, known bool) {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// eachGroup visits the folders of our control group and those around it.
func eachGroup(root fs.FS, visit func(dir string, files groupFiles)) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return // no control groups
	}
	for line := range strings.Lines(string(groups)) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(line, ":")
		files := groupFiles1
		switch {
		case controllers == "":
			files = groupFiles2
		case !slices.Contains(strings.Split(controllers, ","), "memory"):
			continue
		}
		for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
			visit(path.Join(files.base, dir), files)
			if dir == "/" {
				break
			}
		}
	}
}
