package kafkaio

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/streamdedup/streamdedup/pipeline"
)

// watcher asks the brokers, again and again, for what no fetch tells: the ends of
// partitions that nobody fetches, and whether the topics are what they were. The
// client would notice a topic that was made anew late or never, and new partitions
// only after minutes; a restore would wait for a changelog that is no more.
type watcher struct {
	session *Session
	inputs  map[string]input // as they were at the start
	written map[string]topicThen
	cancel  context.CancelFunc
	done    chan struct{}

	gone map[string]bool // topics that were missing the last time

	mu       sync.Mutex
	surprise error
}

// watchInterval is how often the brokers are asked.
const watchInterval = 5 * time.Second

// watch asks until it is closed.
func (s *Session) watch() *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{session: s, inputs: s.found.inputs, written: s.written(), cancel: cancel, done: make(chan struct{}), gone: map[string]bool{}}
	go func() {
		defer close(w.done)
		var before judged
		for pause(ctx, watchInterval) == nil {
			w.ends(ctx)
			s.trimJudged(ctx, &before)
			if err := w.compare(ctx); err != nil {
				w.mu.Lock()
				w.surprise = err
				w.mu.Unlock()
			}
		}
	}()
	return w
}

func (w *watcher) close() {
	w.cancel()
	<-w.done
}

// found is the surprise that ends the session, nil while there is none.
func (w *watcher) found() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.surprise
}

// ends looks how far the partitions are, and says which stand still.
func (w *watcher) ends(ctx context.Context) {
	s := w.session
	adm := kadm.NewClient(s.admin)
	// The stable ends first: what is written in between must not look like a
	// transaction.
	stable, err := adm.ListCommittedOffsets(ctx, s.cfg.In...)
	var ends kadm.ListedOffsets
	if err == nil {
		ends, err = adm.ListEndOffsets(ctx, s.cfg.In...)
	}
	if err != nil && ctx.Err() == nil {
		s.warn.warn("cannot ask for the ends of the input; the lag shown is old", "error", err)
	}
	now := time.Now()
	ends.Each(func(end kadm.ListedOffset) {
		at, ok := stable.Lookup(end.Topic, end.Partition)
		if ok && at.Err == nil && end.Err == nil {
			s.lag.see(pipeline.Partition{Topic: end.Topic, Number: end.Partition}, now, at.Offset, end.Offset)
		}
	})
	for _, still := range s.lag.unsaid(now, s.cfg.stuckLimit()) {
		args := []any{"partition", still.Partition.String(), "offset", still.Offset, "for", still.For.Round(time.Second)}
		if still.OpenTransaction {
			s.log.Warn("a transaction of another producer is open on the input: nothing behind it can be read", args...)
			continue
		}
		s.log.Error("a partition has records to read, and nothing was committed", append(args, "lag", still.Lag)...)
	}
}

// compare is the surprise of a topic, nil if there is none.
func (w *watcher) compare(ctx context.Context) error {
	s := w.session
	now, err := kadm.NewClient(s.admin).ListTopics(ctx, slices.AppendSeq(slices.Clone(s.cfg.In), maps.Keys(w.written))...)
	if err != nil {
		if ctx.Err() == nil {
			s.warn.warn("cannot look whether the topics are what they were", "error", err)
		}
		return nil
	}
	for topic, detail := range now {
		var err error
		if in, ok := w.inputs[topic]; ok {
			err = surprise(topic, in, detail, w.gone[topic])
		} else if out, ok := w.written[topic]; ok {
			err = out.another(topic, detail, w.gone[topic])
		}
		if err != nil {
			return err
		}
		w.gone[topic] = isMissing(detail)
	}
	return nil
}
