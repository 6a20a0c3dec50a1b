//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// clock is how times are printed, as the instances print theirs.
const clock = "15:04:05.000"

// around is how far from a record's writing a fault is named beside it.
const around = 30 * time.Second

// table is what is counted in a run.
type table struct {
	mu     sync.Mutex
	faults [kinds]int
	events []happening
	// restarts are of processes that ended by themselves. The reasons that an end may
	// have, of those and of processes that were asked to, are counted one by one.
	restarts, fenced, stillborn, cleanEnds int
}

// happening is a fault and its time.
type happening struct {
	at   time.Time
	what string
}

func (t *table) add(k kind, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults[k]++
	t.events = append(t.events, happening{time.Now(), what})
}

func (t *table) count(k kind) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.faults[k]
}

// print writes the final table.
func (t *table) print(w io.Writer, v verdict, long standstill) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name string, value any) { fmt.Fprintf(tw, "%s\t%v\n", name, value) }
	line("records in", v.Records)
	line("events", v.Events)
	line("copies", v.Records-v.Events)
	line("records out", v.Out)
	for k, n := range t.faults {
		line(kind(k).String(), n)
	}
	line("restarts after an end by itself", t.restarts)
	line("ends of the fenced", t.fenced)
	line("ends before the beginning, brokers not reached", t.stillborn)
	line("clean ends, sums checked", t.cleanEnds)
	line("longest standstill of a partition", long)
	line("lost", v.Lost)
	line("missed duplicates", v.Missed)
	line("extra", v.Extra)
	line("later copy instead of the first", v.Swapped)
	line("foreign", v.Foreign)
	line("out of order", v.Disordered)
	line("withheld", v.Withheld)
	if v.Unwritten > 0 {
		line("not as written", v.Unwritten)
	}
	_ = tw.Flush() // as all that is printed
}

// explain says for each example where its copies are, and which faults were near.
func (r *run) explain(ctx context.Context, v verdict) error {
	copies := map[uint64][]string{}
	written := map[uint64]time.Time{}
	for _, e := range v.examples {
		if e.known {
			copies[e.number] = nil
		}
	}
	find := func(side string) func(*kgo.Record) {
		return func(rec *kgo.Record) {
			number, nth, ok := r.load.parse(rec.Value)
			if _, wanted := copies[number]; !ok || !wanted {
				return
			}
			if _, known := written[number]; !known {
				written[number] = rec.Timestamp
			}
			copies[number] = append(copies[number], fmt.Sprintf("%s partition %d offset %d, copy %d of %s",
				side, rec.Partition, rec.Offset, nth, rec.Timestamp.UTC().Format(clock)))
		}
	}
	if err := readTopic(ctx, r.cluster, r.in, find("input")); err != nil {
		return err
	}
	if err := readTopic(ctx, r.cluster, r.out, find("output")); err != nil {
		return err
	}
	for _, e := range v.examples {
		if !e.known {
			r.fail("%s", e.what)
			continue
		}
		r.fail("event %d: %s\n    %s\n    faults within %v: %s", e.number, e.what, strings.Join(copies[e.number], "\n    "),
			around, strings.Join(r.table.near(written[e.number]), "; "))
	}
	return nil
}

// near names the faults around a time.
func (t *table) near(at time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []string
	for _, h := range t.events {
		if h.at.Sub(at).Abs() <= around {
			list = append(list, h.at.UTC().Format(clock)+" "+h.what)
		}
	}
	if len(list) == 0 {
		return []string{"none"}
	}
	return slices.Clip(list)
}
