package pipeline

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
)

// No lock is taken in filter, window or shard, and none is waited for: a run of
// the engine with every contention recorded shows none there. That the profile
// records at all is shown by a lock of the test's own.
func TestNoLockInTheShard(t *testing.T) {
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	for try := 1; !strings.Contains(mutexProfile(t), "pipeline.contend"); try++ {
		if try > 100 {
			t.Fatalf("the profile does not have the test's own lock:\n%s", mutexProfile(t))
		}
		contend()
	}
	rng := rand.New(rand.NewPCG(seed(t), 8))
	s := newStream(4)
	want := fill(s, rng, 50_000)
	if _, err := run(t, s, newMember(s, 1, 2000, nil), engineConfig()); err != nil {
		t.Fatal(err)
	}
	checkOutput(t, s, want)

	for stack := range strings.SplitSeq(mutexProfile(t), "\n\n") {
		// The runtime has locks of its own, for memory and goroutines.
		if strings.Contains(stack, "\truntime.unlock") {
			continue
		}
		for _, where := range []string{"streamdedup/filter.", "streamdedup/window.", "internal/keys.", "pipeline.(*Shard)", "pipeline.(*worker)", "pipeline.(*ring)"} {
			if strings.Contains(stack, where) {
				t.Errorf("a lock was contended in %s:\n%s", where, stack)
			}
		}
	}
}

// mutexProfile is where locks were contended so far.
func mutexProfile(t *testing.T) string {
	t.Helper()
	var profile bytes.Buffer
	if err := pprof.Lookup("mutex").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	return profile.String()
}

// contend makes goroutines wait for each other's lock until some surely have.
func contend() {
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 200 {
				mu.Lock()
				runtime.Gosched()
				mu.Unlock()
			}
		})
	}
	group.Wait()
}
