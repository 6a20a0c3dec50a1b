package kafkaio

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/streamdedup/streamdedup/pipeline"
)

// past is what the group and the changelog say of a partition.
type past struct {
	// begins says that there is nothing before at.
	begins bool
	// at is the committed offset, with next -1 when there is none.
	at committed
	// last is the last change, nil when there is none.
	last *loggedChange
	log  logBounds
}

// settled is whether no open transaction can make it another one: what is
// committed is in the changelog, or nothing is open there. That more was logged once
// than is committed says nothing: a group that was moved back goes over it again.
func (x *past) settled() bool {
	return x.log.stable >= x.log.end || x.last != nil && x.at.next == x.last.Next
}

// reason is why a restore takes the way that it takes.
type reason uint8

const (
	asCommitted reason = iota
	offsetsExpired
	movedForward
	movedBack
	notCommitted
	tailLost
	fromInput // there is no changelog yet
)

// course is the state to restore, and where reading goes on.
type course struct {
	why   reason
	state pipeline.State
	next  int64
	// known is the offset up to which the changelog says what was learned. What lies
	// between it and next is in no changelog.
	known int64
}

// course decides. Its error is that of the metadata, where that must be relied on.
func (x *past) course() (course, error) {
	if x.last == nil {
		state, err := pipeline.ParseMetadata(x.at.metadata)
		return course{why: fromInput, state: state, next: x.at.next, known: -1}, err
	}
	c := course{state: x.last.State, next: x.last.Next, known: x.last.Next}
	switch at := x.at.next; {
	case at < 0:
		c.why = offsetsExpired
	case at > x.last.Next:
		c.why, c.next, c.state = movedForward, at, x.last.State.Forward(at)
		state, err := pipeline.ParseMetadata(x.at.metadata)
		if errors.Is(err, pipeline.ErrForeignState) {
			return course{}, err
		}
		if err == nil {
			// An earlier version writes no changes, and counts no rotations.
			state.Window = state.Window.Following(x.last.State.Window.Rotation)
			c.why, c.state = tailLost, state
		}
	case at < x.last.Next && x.last.Acknowledged && at >= x.last.Begin:
		c.why = notCommitted
	case at < x.last.Next:
		c.why, c.next, c.state = movedBack, at, x.last.State.Rewind(at)
	}
	return c, nil
}

// past asks the group and the changelog, and waits for transactions that are open
// on either, until they agree.
func (r *Restorer) past(ctx context.Context, p pipeline.Partition) (past, error) {
	s := r.session
	began, noOffset := time.Now(), 0
	for try := 0; ; try++ {
		got, err := s.committed(ctx, p)
		if err != nil {
			return past{}, err
		}
		h := r.look(p, got)
		x := past{at: got.of(p)}
		if _, logs := s.found.changelogs[p.Topic]; logs {
			if x.log, err = s.logBounds(ctx, p); err != nil {
				return past{}, err
			}
			if x.last, err = s.lastChange(ctx, p, x.log.start, x.log.stable); err != nil {
				return past{}, err
			}
		}
		switch {
		case !x.settled():
			err = r.await(ctx, p, x, time.Since(began), try)
		case x.at.next >= 0:
			return x, nil
		case r.wasSeen(p):
			// No offset can be the answer of a coordinator that is not ready; of one that
			// we know to exist it is.
			s.warn.warn("the group has no offset for a partition that it had one for, asking again", "partition", p.String())
			err = pause(ctx, none)
		case noOffset == 0:
			noOffset++
			err = pause(ctx, none)
		case x.last != nil:
			return x, nil
		default:
			x.begins = true
			x.at.next, err = r.start(ctx, p, h)
			return x, err
		}
		if err != nil {
			return past{}, err
		}
	}
}

// await waits a little for the end of a transaction on the changelog.
func (r *Restorer) await(ctx context.Context, p pipeline.Partition, x past, since time.Duration, try int) error {
	s := r.session
	if since > r.patience {
		return hinted("`kafka-transactions.sh find-hanging` shows a transaction that never ends",
			"restore %s: a transaction is open at offset %d of changelog %s and has not ended in %v: what the state lacks may be in it",
			p, x.log.stable, s.found.changelogs[p.Topic].name, r.patience)
	}
	if since > quiet {
		s.warn.warn("waiting for a transaction on the changelog to end", "partition", p.String(),
			"offset", x.log.stable, "since", since.Round(time.Second))
	}
	return pause(ctx, min(backoff(try), maxPatience))
}

// start is where a partition begins.
func (r *Restorer) start(ctx context.Context, p pipeline.Partition, h history) (int64, error) {
	start := r.session.cfg.Start
	if h.began || p.Number >= h.partitions {
		start = Start{}
	}
	return start.offset(ctx, kadm.NewClient(r.session.admin), p)
}

// histories are what the group has had of the topics.
type histories struct {
	session *Session
	mu      sync.Mutex
	known   map[string]*history
}

func newHistories(s *Session) histories {
	return histories{session: s, known: map[string]*history{}}
}

// history is what the group has had of a topic, as far as this process knows. It
// tells a partition that is new from a group that is.
type history struct {
	// began says that the group has had an offset of the topic that we did not begin
	// with. Then a partition that has none is taken for new, and read from its
	// beginning: of two instances that start for the first time in the same moment, the
	// second may read more than --start latest asks for, but a new partition's records
	// are not passed over.
	began bool
	// own are the partitions whose start is ours.
	own map[pipeline.Partition]bool
	// partitions is how many there were at the start.
	partitions int32
	// seen are partitions that the group has had an offset for.
	seen map[pipeline.Partition]bool
}

func (r *histories) wasSeen(p pipeline.Partition) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[p.Topic].seen[p]
}

// look notes what the group has of p's topic.
func (r *histories) look(p pipeline.Partition, got offsets) history {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.known[p.Topic]
	if h == nil {
		h = &history{
			own:        map[pipeline.Partition]bool{},
			partitions: r.session.found.inputs[p.Topic].partitions,
			seen:       map[pipeline.Partition]bool{},
		}
		r.known[p.Topic] = h
	}
	for q, at := range got {
		if q.Topic == p.Topic && at.next >= 0 {
			h.seen[q] = true
			h.began = h.began || !h.own[q]
		}
	}
	return *h
}

// owns notes that p's start is ours.
func (r *histories) owns(p pipeline.Partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[p.Topic].own[p] = true
}

// progress is safe for concurrent use.
type progress struct {
	mu    sync.Mutex
	parts map[pipeline.Partition]float64
}

func (g *progress) set(p pipeline.Partition, done float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.parts == nil {
		g.parts = map[pipeline.Partition]float64{}
	}
	g.parts[p] = done
}

func (g *progress) clear(p pipeline.Partition) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.parts, p)
}

// Progress is how far the restores that are under way have come, from 0 to 1. It is
// safe for concurrent use.
func (r *Restorer) Progress() map[pipeline.Partition]float64 {
	r.progress.mu.Lock()
	defer r.progress.mu.Unlock()
	return maps.Clone(r.progress.parts)
}
