package peers

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// ownCPU is the processor time of this process so far.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("BUG: getrusage of the own process: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// tick is the unit of times in /proc, the same on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// cpuOf is the processor time of another process so far, with that of its children
// that have ended.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(text)
}

// parseStat adds up utime, stime, cutime and cstime, fields 14 to 17. The second
// field is a name in parentheses, which may have anything in it.
func parseStat(text []byte) (time.Duration, error) {
	const firstBehindName, utime, times = 3, 14, 4
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < utime-firstBehindName+times {
		return 0, fmt.Errorf("read a process's times: no such fields in %q", text)
	}
	var sum time.Duration
	for _, field := range fields[utime-firstBehindName:][:times] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read a process's times: %w", err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// cpuOfGroup sums up the processes that are pid or have it as their parent.
func cpuOfGroup(pid int) (time.Duration, error) {
	sum, err := cpuOf(pid)
	if err != nil {
		return 0, err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	for _, field := range bytes.Fields(children) {
		child, err := strconv.Atoi(string(field))
		if err != nil {
			return 0, fmt.Errorf("read the children of process %d: %w", pid, err)
		}
		if cpu, err := cpuOf(child); err == nil { // it may have ended meanwhile
			sum += cpu
		}
	}
	return sum, nil
}
