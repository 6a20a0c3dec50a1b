//go:build unix

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestCase_EOS_03: six instances with transactions of a second are restarted one
// after the other. No rebalance starves another: each partition's committed offset
// moves on within three session time-outs, all the time.
func TestCase_EOS_03(t *testing.T) {
	const (
		instances  = 6
		partitions = 12
		session    = 6 * time.Second
	)
	s := newScene(t, partitions, nil, nil)
	s.flags["commit-interval"], s.flags["session-timeout"], s.flags["txn-timeout"] = "1s", session.String(), session.String()
	var group [instances]*daemon
	start := func(i int) { group[i] = s.run(fmt.Sprintf("instance=%d", i)) }
	for i := range group {
		start(i)
	}
	for _, d := range group {
		d.ready(partitions / instances)
	}
	stream := s.stream()
	var committed, undone float64
	count := func(d *daemon) {
		committed += d.metric("streamdedup_transactions_total", `outcome="committed"`)
		undone += d.undone()
	}
	for i := range group {
		count(group[i])
		group[i].stop()
		start(i)
		for _, d := range group {
			d.ready(partitions / instances)
		}
	}
	slowest, gap := stream.end()
	for _, d := range group {
		s.caughtUp(d)
		count(d)
		d.stop()
	}
	s.check()
	t.Logf("of %.0f transactions %.0f were undone, %.1f%%; the slowest partition, %d, stood for %v",
		committed+undone, undone, 100*undone/(committed+undone), slowest, gap.Round(time.Millisecond))
	if gap > 3*session {
		t.Errorf("partition %d stood for %v, want at most %v", slowest, gap, 3*session)
	}
}

// streamed writes to every partition all the time, new events and one repeat, and
// looks how long each partition's committed offset stands.
type streamed struct {
	*scene
	cancel context.CancelFunc
	done   chan struct{}
	failed error

	last map[int32]int64
	at   map[int32]time.Time
	gaps map[int32]time.Duration
}

func (s *scene) stream() *streamed {
	ctx, cancel := context.WithCancel(s.t.Context())
	st := &streamed{scene: s, cancel: cancel, done: make(chan struct{}),
		last: map[int32]int64{}, at: map[int32]time.Time{}, gaps: map[int32]time.Duration{}}
	go func() {
		defer close(st.done)
		for n := 0; ctx.Err() == nil && st.failed == nil; n++ {
			st.failed = st.step(n)
			time.Sleep(100 * time.Millisecond) // a stream, not a flood
		}
	}()
	s.t.Cleanup(func() { cancel(); <-st.done })
	return st
}

// step does not end with the stream: what was written must be known.
func (st *streamed) step(n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var records []*kgo.Record
	for p := range st.partitions {
		for _, id := range []string{fmt.Sprintf("%d-%d", p, n), fmt.Sprintf("%d-%d", p, n/2)} {
			r := event(p, id)
			r.Topic = st.in
			st.expect(p, string(r.Value))
			records = append(records, r)
		}
	}
	if err := st.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("write the input: %w", err)
	}
	st.written += len(records)
	got, err := st.admin.FetchOffsets(ctx, st.group)
	if err != nil {
		return fmt.Errorf("fetch the group's offsets: %w", err)
	}
	now := time.Now()
	for p := range st.partitions {
		at, ok := got.Lookup(st.in, p)
		if !ok || at.Err != nil {
			at = kadm.OffsetResponse{Offset: kadm.Offset{At: -1}}
		}
		if _, known := st.at[p]; !known || at.At > st.last[p] {
			st.at[p] = now
		}
		st.last[p] = max(st.last[p], at.At)
		st.gaps[p] = max(st.gaps[p], now.Sub(st.at[p]))
	}
	return nil
}

// end ends the writing, and says which partition stood longest.
func (st *streamed) end() (slowest int32, gap time.Duration) {
	st.t.Helper()
	st.cancel()
	<-st.done
	if st.failed != nil && !errors.Is(st.failed, context.Canceled) {
		st.t.Fatal(st.failed)
	}
	for p, d := range st.gaps {
		if d > gap {
			slowest, gap = p, d
		}
	}
	return slowest, gap
}
