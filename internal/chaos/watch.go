//go:build unix

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// pollEvery is how often the cluster is asked how far things are.
	pollEvery = 250 * time.Millisecond
	// adminLimit bounds one question.
	adminLimit = 10 * time.Second
)

// progress follows the committed offsets of the group.
type progress struct {
	cluster      *cluster
	group, topic string

	mu   sync.Mutex
	at   map[int32]standing
	lag  map[int32]int64
	long standstill
}

// standing is since when a partition has stood where it stands.
type standing struct {
	offset int64
	since  time.Time
}

// standstill is a time in which a partition with records to read did not move.
type standstill struct {
	partition int32
	began     time.Time
	length    time.Duration
}

func (s standstill) String() string {
	if s.length == 0 {
		return "none"
	}
	return fmt.Sprintf("%v, partition %d from %s", s.length.Round(100*time.Millisecond), s.partition, s.began.UTC().Format(clock))
}

func newProgress(c *cluster, group, topic string) *progress {
	return &progress{cluster: c, group: group, topic: topic, at: map[int32]standing{}, lag: map[int32]int64{}}
}

// follow looks until ctx ends.
func (p *progress) follow(ctx context.Context) {
	for ctx.Err() == nil {
		p.look(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
	}
}

// look asks once. An answer that does not come, as while a coordinator moves, is
// a time without progress.
func (p *progress) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, adminLimit)
	defer cancel()
	ends, err := p.cluster.admin.ListCommittedOffsets(ctx, p.topic)
	if err != nil {
		return
	}
	committed, err := p.cluster.admin.FetchOffsets(ctx, p.group)
	if err != nil {
		return
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range int32(partitions) {
		end, known := ends.Lookup(p.topic, n)
		if !known || end.Err != nil {
			continue
		}
		offset := max(0, committed[p.topic][n].At)
		p.lag[n] = end.Offset - offset
		was, seen := p.at[n]
		if !seen || offset > was.offset || p.lag[n] == 0 {
			p.at[n] = standing{offset, now}
		}
		if length := now.Sub(was.since); seen && length > p.long.length && (offset > was.offset || p.lag[n] > 0) {
			p.long = standstill{n, was.since, length}
		}
	}
}

// behind is the lag of each partition that has one; all of them must be known.
func (p *progress) behind() (lag map[int32]int64, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lag = maps.Clone(p.lag)
	maps.DeleteFunc(lag, func(_ int32, n int64) bool { return n == 0 })
	return lag, len(p.lag) == partitions
}

func (p *progress) longest() standstill {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.long
}

// begun waits until every partition has been read from.
func (p *progress) begun(ctx context.Context) error {
	for began := time.Now(); ; time.Sleep(pollEvery) {
		p.mu.Lock()
		at := 0
		for _, s := range p.at {
			if s.offset > 0 {
				at++
			}
		}
		p.mu.Unlock()
		if at == partitions {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Since(began) > patience {
			return fmt.Errorf("the group has begun to read %d of %d partitions within %v", at, partitions, patience)
		}
	}
}

// atEnd waits until the group has read everything, for as long as it moves.
func (p *progress) atEnd(ctx context.Context) error {
	for last, since := int64(-1), time.Now(); ; time.Sleep(pollEvery) {
		lag, known := p.behind()
		if known && len(lag) == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		sum := int64(0)
		for _, n := range lag {
			sum += n
		}
		if sum != last {
			last, since = sum, time.Now()
		} else if time.Since(since) > patience {
			return fmt.Errorf("the group stands still for %v: %s", patience, lagText(lag))
		}
	}
}

func lagText(lag map[int32]int64) string {
	var parts []string
	for _, n := range slices.Sorted(maps.Keys(lag)) {
		parts = append(parts, fmt.Sprintf("partition %d is %d behind", n, lag[n]))
	}
	return strings.Join(parts, ", ")
}
