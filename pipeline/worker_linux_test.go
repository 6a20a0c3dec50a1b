package pipeline

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/streamdedup/streamdedup/internal/affinity"
)

// allowed reads which processors each thread of this process may run on, as the
// kernel tells it.
func allowed(t *testing.T) map[string]int {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, thread := range threads {
		status, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%s/status", thread.Name()))
		if err != nil {
			continue // the thread has ended
		}
		for _, line := range strings.Split(string(status), "\n") {
			if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
				count[strings.TrimSpace(list)]++
			}
		}
	}
	return count
}

func TestPinnedWorkersRunOnOneProcessorEach(t *testing.T) {
	cpus := affinity.Allowed()
	if len(cpus) < 2 {
		t.Skip("one processor: a thread that may run on it alone is not a pinned one")
	}
	before := allowed(t)
	workers := startWorkers(2, PinOn)
	during := allowed(t)
	for i, w := range workers {
		if w.pinned != nil {
			t.Fatalf("worker %d: %v", i, w.pinned)
		}
	}
	for _, cpu := range cpus[len(cpus)-2:] {
		list := fmt.Sprint(cpu)
		if during[list] != before[list]+1 {
			t.Errorf("%d threads may run on processor %s only, want %d: %v", during[list], list, before[list]+1, during)
		}
	}
	for _, w := range workers {
		w.stop()
	}
}

func TestUnpinnedWorkersLeaveThreadsAlone(t *testing.T) {
	before := allowed(t)
	workers := startWorkers(2, PinOff)
	during := allowed(t)
	for _, w := range workers {
		w.stop()
	}
	for list := range during {
		if _, ok := before[list]; !ok {
			t.Errorf("a thread was restricted to processors %s", list)
		}
	}
}

// Auto leaves processors to the network, the compression and the collector.
func TestAutoPinsOnlyWhereProcessorsAreLeft(t *testing.T) {
	cpus := affinity.Allowed()
	workers := startWorkers(len(cpus), PinAuto)
	for i, w := range workers {
		if w.pin {
			t.Errorf("worker %d of %d is pinned on %d processors", i, len(workers), len(cpus))
		}
		w.stop()
	}
	if len(cpus) < 1+sparesForAuto {
		return
	}
	one := startWorkers(1, PinAuto)[0]
	defer one.stop()
	if !one.pin || !slices.Contains(cpus, one.cpu) {
		t.Errorf("one worker on %d processors: pinned %v to %d", len(cpus), one.pin, one.cpu)
	}
}
