package peers

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/streamdedup/streamdedup/internal/workload"
)

// Oracle knows which events there are, and counts how often each came out. It is
// exact: a map from ID to a count.
type Oracle struct {
	passes  map[string]uint32
	foreign int
}

// NewOracle knows the events of the workload.
func NewOracle(records int, seed uint64) (*Oracle, error) {
	w := Workload(records, seed)
	generator, err := workload.New(w)
	if err != nil {
		return nil, err
	}
	o := &Oracle{passes: make(map[string]uint32, w.Events)}
	for {
		r, ok := generator.Next()
		if !ok {
			break
		}
		if !r.Copy {
			o.passes[string(idOf(r.Value))] = 0
		}
	}
	if len(o.passes) != w.Events {
		return nil, fmt.Errorf("seed %d gives %d IDs to %d events", seed, len(o.passes), w.Events)
	}
	return o, nil
}

// Passed is told that a record with this value came out.
func (o *Oracle) Passed(value []byte) {
	id := idOf(value)
	if n, ok := o.passes[string(id)]; ok {
		o.passes[string(id)] = n + 1
		return
	}
	o.foreign++
}

// Lines is told of all lines of a peer's output.
func (o *Oracle) Lines(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		o.Passed(lines.Bytes())
	}
	return lines.Err()
}

// Verdict is how many copies came out, missed, and how many events did not, lost.
// A record that never went in is an error.
func (o *Oracle) Verdict() (missed, lost uint64, err error) {
	if o.foreign > 0 {
		return 0, 0, fmt.Errorf("%d records came out that never went in", o.foreign)
	}
	for _, n := range o.passes {
		if n == 0 {
			lost++
		} else {
			missed += uint64(n - 1)
		}
	}
	return missed, lost, nil
}

// verdictOf is the same for peers that say of each record of a stream whether it
// passes.
func verdictOf(s *Stream, passed []bool) (missed, lost uint64, err error) {
	if len(passed) != s.Len() {
		return 0, 0, errors.New("not every record was judged")
	}
	passes := make([]uint32, s.Distinct)
	for i, p := range passed {
		if p {
			passes[s.events[i]]++
		}
	}
	for _, n := range passes {
		if n == 0 {
			lost++
		} else {
			missed += uint64(n - 1)
		}
	}
	return missed, lost, nil
}
