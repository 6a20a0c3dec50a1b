//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fpr is so low that no first copy of a run may be withheld: the expectation for
// ten million events is a hundredth of one.
const fpr = 1e-9

// trace is what the two topics hold of one event.
type trace struct {
	first  int64 // offset of the first copy in the input
	nth    uint8 // which copy that is
	copies uint8
	outs   uint8
	came   uint8 // which copy came out
}

// audit compares the output with the input, and the input with what was written,
// event by event. It shares nothing with what it judges.
type audit struct {
	load   *load
	traces []trace
	// last is how far the output of a partition has come, as an offset of the input.
	last map[int32]int64

	result verdict
}

// verdict is what an audit found.
type verdict struct {
	Records, Events, Out uint64
	// Lost first copies are not in the output and no budget has room for them;
	// withheld ones are in the budget of false positives.
	Lost, Withheld uint64
	// Missed duplicates came out beside their first copy. Extra is one record that
	// came out more than once.
	Missed, Extra uint64
	// Swapped events came out as a later copy, and their first did not.
	Swapped uint64
	// Foreign records are of no event, or of another partition, or not as written.
	Foreign uint64
	// Disordered records came out before one that was read before them.
	Disordered uint64
	// Unwritten is how many records the input has too few or too many: not ours to
	// answer for, but nothing can be said of them.
	Unwritten uint64

	examples []example
}

// example is one thing that is wrong.
type example struct {
	what   string
	number uint64
	known  bool // number is an event
}

// mostExamples is how many are shown of each thing that can be wrong.
const mostExamples = 3

func (v *verdict) example(count *uint64, e example) {
	*count++
	if *count <= mostExamples {
		v.examples = append(v.examples, e)
	}
}

func (v *verdict) ok() bool {
	return v.Lost+v.Missed+v.Extra+v.Swapped+v.Foreign+v.Disordered+v.Unwritten == 0
}

func newAudit(l *load) *audit {
	return &audit{load: l, traces: make([]trace, len(l.events)), last: map[int32]int64{}}
}

// input takes the next record of a partition of the input.
func (a *audit) input(partition int32, offset int64, value []byte) {
	a.result.Records++
	number, nth, ok := a.load.parse(value)
	if !ok || partition != a.load.events[number].partition {
		a.result.example(&a.result.Unwritten, example{what: fmt.Sprintf("input partition %d offset %d: a record that nobody wrote", partition, offset)})
		return
	}
	t := &a.traces[number]
	if t.copies == 0 {
		t.first, t.nth = offset, nth
	}
	t.copies++
}

// output takes the next record of a partition of the output; the input is known.
func (a *audit) output(partition int32, offset int64, value []byte) {
	v := &a.result
	v.Out++
	number, nth, ok := a.load.parse(value)
	if !ok || partition != a.load.events[number].partition || a.traces[number].copies == 0 {
		v.example(&v.Foreign, example{what: fmt.Sprintf("output partition %d offset %d: not a record of the input's partition: %.60q", partition, offset, value)})
		return
	}
	t := &a.traces[number]
	t.outs++
	switch {
	case t.outs == 1 && nth != t.nth:
		t.came = nth
		v.example(&v.Swapped, example{fmt.Sprintf("copy %d came out, copy %d was the first", nth, t.nth), number, true})
	case t.outs == 1:
		t.came = nth
		if last, some := a.last[partition]; some && t.first < last {
			v.example(&v.Disordered, example{"came out after a later record", number, true})
		}
		a.last[partition] = max(a.last[partition], t.first)
	case nth == t.came:
		v.example(&v.Extra, example{fmt.Sprintf("copy %d came out twice", nth), number, true})
	default:
		v.example(&v.Missed, example{fmt.Sprintf("copies %d and %d came out", t.came, nth), number, true})
	}
}

// finish looks for what is absent.
func (a *audit) finish() verdict {
	v := &a.result
	v.Events = uint64(len(a.traces))
	budget := uint64(fpr * float64(v.Events))
	for n, t := range a.traces {
		number := uint64(n)
		if e := a.load.events[n]; t.copies != e.landed {
			v.example(&v.Unwritten, example{fmt.Sprintf("%d copies were acknowledged, the input has %d", e.landed, t.copies), number, true})
		}
		if t.copies == 0 || t.outs > 0 {
			continue
		}
		if v.Withheld < budget {
			v.Withheld++
		} else {
			v.example(&v.Lost, example{"no copy came out", number, true})
		}
	}
	return *v
}

// readTopic reads a topic as a reader of committed records does, up to where it
// ends now.
func readTopic(ctx context.Context, c *cluster, topic string, take func(*kgo.Record)) error {
	ends, err := c.admin.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("look for the end of %s: %w", topic, err)
	}
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			from[end.Partition], left[end.Partition] = kgo.NewOffset().At(0), end.Offset
		}
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(c.seeds...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	defer client.Close()
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < ends[topic][r.Partition].Offset && !r.Attrs.IsControl() {
				take(r)
			}
			if r.Offset >= left[r.Partition]-1 {
				delete(left, r.Partition)
			}
		})
	}
	return nil
}

// awaitStable waits until no transaction is open in a topic: one that a killed
// process left ends by its time-out.
func awaitStable(ctx context.Context, c *cluster, topic string) error {
	for began := time.Now(); ; time.Sleep(pollEvery) {
		stable, err := c.admin.ListCommittedOffsets(ctx, topic)
		if err != nil {
			return fmt.Errorf("look for open transactions in %s: %w", topic, err)
		}
		ends, err := c.admin.ListEndOffsets(ctx, topic)
		if err != nil {
			return fmt.Errorf("look for open transactions in %s: %w", topic, err)
		}
		open := -1
		ends.Each(func(end kadm.ListedOffset) {
			if at, _ := stable.Lookup(topic, end.Partition); at.Offset < end.Offset {
				open = int(end.Partition)
			}
		})
		if open < 0 {
			return nil
		}
		if time.Since(began) > patience {
			return fmt.Errorf("a transaction stays open in partition %d of %s", open, topic)
		}
	}
}
