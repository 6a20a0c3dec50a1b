package pipeline

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/streamdedup/streamdedup/filter"
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

// A filter is made where its worker runs, so that its memory lies there.
func TestFilterIsFirstTouchedByItsWorkersProcessor(t *testing.T) {
	cpus := affinity.Allowed()
	if len(cpus) < 2 {
		t.Skip("one processor: everything runs on it")
	}
	for _, pin := range []PinMode{PinOn, PinOff} {
		var mu sync.Mutex
		var touched [][]int
		cfg := engineConfig()
		cfg.Workers, cfg.Pin = 2, pin
		newSet := cfg.Rules.NewSet
		cfg.Rules.NewSet = func() (filter.Set, error) {
			mu.Lock()
			defer mu.Unlock()
			touched = append(touched, affinity.Allowed())
			return newSet()
		}
		s := newStream(4)
		fill(s, rand.New(rand.NewPCG(seed(t), 9)), 100)
		if _, err := run(t, s, newMember(s, 1, 100, nil), cfg); err != nil {
			t.Fatal(err)
		}
		var want [][]int // two partitions for each worker
		for range 2 {
			want = append(want, cpus[len(cpus)-2:len(cpus)-1], cpus[len(cpus)-1:])
		}
		if pin == PinOff {
			want = [][]int{cpus, cpus, cpus, cpus}
		}
		slices.SortFunc(touched, slices.Compare)
		slices.SortFunc(want, slices.Compare)
		if !reflect.DeepEqual(touched, want) {
			t.Errorf("pin %s: filters were made on processors %v, want %v", pin, touched, want)
		}
	}
}

// What a filter grows by is made where its worker runs, too.
func TestSlabsAreFirstTouchedByTheirWorkersProcessor(t *testing.T) {
	cpus := affinity.Allowed()
	for _, pin := range []PinMode{PinOn, PinOff} {
		w := startWorkers(1, pin)[0]
		want := cpus
		if pin == PinOn {
			want = []int{w.cpu}
		}
		for range 2 { // a thread that is pinned must not come back to another
			var touched []int
			a := newAside(w.near)
			a.Run(func() { touched = affinity.Allowed() })
			a.Wait()
			if !slices.Equal(touched, want) {
				t.Errorf("pin %s: memory is touched on processors %v, want %v", pin, touched, want)
			}
		}
		w.stop()
		if got := affinity.Allowed(); !slices.Equal(got, cpus) {
			t.Errorf("pin %s: afterwards this thread may run on %v, want %v", pin, got, cpus)
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
