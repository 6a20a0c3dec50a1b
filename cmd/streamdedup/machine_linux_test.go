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

func TestMachineMemoryIsKnown(t *testing.T) {
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
