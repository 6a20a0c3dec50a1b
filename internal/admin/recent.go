package admin

import (
	"slices"
	"sync"
	"time"

	"github.com/streamdedup/streamdedup/pipeline"
)

const (
	// recently is how far back the recent records reach: counts since the start would
	// take a day to show a stream that goes wrong after a day.
	recently = time.Minute
	// enough is from how many records on a share of them says something. A slow stream
	// has fewer in a minute; then the recent ones reach back to that many.
	enough = 50
	// step is what the recent records are kept in.
	step = 5 * time.Second
)

// recent are the counts of the newest records. They end with the last commit, not
// now: a stream that pauses stays what it was. It is safe for concurrent use.
type recent struct {
	mu    sync.Mutex
	steps []recentStep // oldest first
	sum   pipeline.Counts
}

type recentStep struct {
	began  time.Time
	counts pipeline.Counts
}

// add takes the counts of a commit.
func (r *recent) add(now time.Time, c *pipeline.Counts) {
	if c.In == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.steps); n == 0 || now.Sub(r.steps[n-1].began) >= step {
		r.steps = append(r.steps, recentStep{began: now})
	}
	r.steps[len(r.steps)-1].counts.Plus(c)
	in := uint64(0)
	for i := range r.steps {
		in += r.steps[i].counts.In
	}
	old := 0
	for now.Sub(r.steps[old].began) > recently && in-r.steps[old].counts.In >= enough {
		in -= r.steps[old].counts.In
		old++
	}
	r.steps = slices.Delete(r.steps, 0, old)
	r.sum = pipeline.Counts{}
	for i := range r.steps {
		r.sum.Plus(&r.steps[i].counts)
	}
}

// counts are those of the recent records.
func (r *recent) counts() pipeline.Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sum
}
