package peers

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// A worker judges records of one partition by asking a server. The indices are in
// order and written back into passed.
type worker func(ctx context.Context, s *Stream, indices []int, passed []bool) error

// measureRemote gives each partition of the stream to a worker of its own, in
// batches, all at the same time. CPU is that of this process, the client, and that of
// the server; the note tells them apart.
func measureRemote(ctx context.Context, r Result, s *Stream, srv *server, batch int, workers []worker) (Result, error) {
	shares := make([][]int, len(workers))
	for i, p := range s.partitions {
		shares[p] = append(shares[p], i)
	}
	passed := make([]bool, s.Len())
	serverUsed, err := srv.cpu()
	if err != nil {
		return r, err
	}
	began, used := time.Now(), ownCPU()
	group, ctx := errgroup.WithContext(ctx)
	for p, work := range workers {
		group.Go(func() error {
			for share := shares[p]; len(share) > 0; {
				n := min(batch, len(share))
				if err := work(ctx, s, share[:n], passed); err != nil {
					return err
				}
				share = share[n:]
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return r, fmt.Errorf("%s: %w", r.Peer, err)
	}
	took, client := time.Since(began), ownCPU()-used
	serverUses, err := srv.cpu()
	if err != nil {
		return r, err
	}
	r.What = InMemory
	r.measured(s.Len(), took, client+serverUses-serverUsed)
	r.Note = fmt.Sprintf("%s; CPU of the server alone %.0f ns", r.Note, float64((serverUses-serverUsed).Nanoseconds())/float64(s.Len()))
	return r, r.judged(verdictOf(s, passed))
}
