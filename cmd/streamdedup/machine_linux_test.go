package main

import (
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

func TestGroupLimitIsTheLeastOfAllAround(t *testing.T) {
	f := func(want uint64, files map[string]string) {
		t.Helper()
		root := fstest.MapFS{}
		for name, text := range files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := groupLimit(root); got != want {
			t.Errorf("%v: %d, want %d", files, got, want)
		}
	}
	const self = "proc/self/cgroup"
	f(math.MaxUint64, nil)
	f(math.MaxUint64, map[string]string{self: "0::/\n"})
	f(math.MaxUint64, map[string]string{self: "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"})
	// A container sees its own group as the root.
	f(5, map[string]string{self: "0::/\n", "sys/fs/cgroup/memory.max": "5\n"})
	f(3, map[string]string{
		self: "12:memory:/old\n0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "3\n",
		"sys/fs/cgroup/old/memory.max": "1\n",
	})
	// Version 1, beside which a machine may have version 2 for other things.
	f(7, map[string]string{
		self: "12:cpu,cpuacct:/c\n5:memory:/a/b\n0::/x\n", "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",
		"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "7\n", "sys/fs/cgroup/memory/c/memory.limit_in_bytes": "1\n",
	})
	f(4, map[string]string{self: "5:hugetlb,memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "4\n"})
	f(2, map[string]string{self: "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "2\n", "sys/fs/cgroup/a/memory.max": "3\n"})
}

// Of the memory of a group, what is used is not free, but for what the system caches.
func TestGroupFreeIsTheLeastOfAllAround(t *testing.T) {
	f := func(want uint64, files map[string]string) {
		t.Helper()
		root := fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal: 9 kB\nMemAvailable:       3 kB\n")}}
		for name, text := range files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := groupFree(root); got != want {
			t.Errorf("%v: %d, want %d", files, got, want)
		}
		if got, known := available(root); got != 3<<10 || !known {
			t.Errorf("%d of the machine, %v", got, known)
		}
	}
	const self = "proc/self/cgroup"
	f(math.MaxUint64, nil)
	f(math.MaxUint64, map[string]string{self: "0::/\n", "sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "5\n"})
	f(30, map[string]string{
		self: "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "100\n", "sys/fs/cgroup/a/b/memory.current": "60\n",
		"sys/fs/cgroup/a/memory.max": "100\n", "sys/fs/cgroup/a/memory.current": "90\n",
		"sys/fs/cgroup/a/memory.stat": "anon 5\nfile 25\ninactive_file 13\nactive_file 7\n",
	})
	f(0, map[string]string{self: "0::/\n", "sys/fs/cgroup/memory.max": "100\n", "sys/fs/cgroup/memory.current": "101\n"})
	f(90, map[string]string{
		self: "5:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "100\n",
		"sys/fs/cgroup/memory/memory.usage_in_bytes": "40\n", "sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 28\ntotal_active_file 2\n",
	})
}

func TestMachineMemoryIsKnown(t *testing.T) {
	if free, known := freeMemory(); !known || free < 1<<20 || free > 1<<50 {
		t.Errorf("%d free, %v", free, known)
	}
	if n, known := machineMemory(); !known || n < 1<<26 || n > 1<<50 {
		t.Errorf("%d, %v", n, known)
	}
}

// A plan that the machine cannot hold is refused before it is filled.
func TestRunRefusesWhatTheMachineCannotHold(t *testing.T) {
	brokers := kafkatest.Fake(t).ListenAddrs()
	in := kafkatest.Topic(t, brokers, 2, nil)
	code, _, stderr := exec("", runArgs(brokers, in, in+"-out", "--capacity", "3e12")...)
	if code != exitFailed || !strings.Contains(stderr, "error: the plan takes ") || !strings.Contains(stderr, "each of 2 partitions takes") ||
		!strings.Contains(stderr, "hint: instances of a group share the partitions") || !strings.Contains(stderr, "streamdedup size") {
		t.Errorf("exit code %d, stderr:\n%s", code, stderr)
	}
	if strings.Contains(stderr, `"in":`) {
		t.Errorf("a summary of nothing:\n%s", stderr)
	}
}
