package kafkaio

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/streamdedup/streamdedup/pipeline"
)

// heldRestorer restores a partition only when it is told to.
type heldRestorer struct {
	pipeline.Restorer
	begun, goOn chan struct{}
	once        sync.Once // a partition that was lost is restored again
}

func (r *heldRestorer) Restore(ctx context.Context, p pipeline.Partition, b pipeline.Builder) (pipeline.Restored, error) {
	r.once.Do(func() { close(r.begun) })
	<-r.goOn
	return r.Restorer.Restore(ctx, p, b)
}

// While a partition is restored, retention takes records that it has still to read. That
// is an error that says which, and nobody goes on behind them in silence.
func TestCase_OPS_14(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.unique(100)
		r := s.start()
		r.judged(100)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		known := s.wanted()
		s.unique(100)
		held := &heldRestorer{begun: make(chan struct{}), goOn: make(chan struct{})}
		s.around = func(session *Session, r pipeline.Restorer) (pipeline.Session, pipeline.Restorer) {
			held.Restorer = r
			return session, held
		}
		r = s.start()
		<-held.begun
		before := kadm.Offsets{}
		before.AddOffset(s.cfg.In[0], 0, 150, -1)
		if _, err := kadm.NewClient(s.client()).DeleteRecords(ctx(t), before); err != nil {
			t.Fatal(err)
		}
		close(held.goOn)
		err := r.ended()
		if err == nil || !strings.Contains(err.Error(), "records from offset 100 to 149 were deleted before they were read") || hintOf(err) == "" {
			t.Errorf("the engine ended: %v (hint %q)", err, hintOf(err))
		}
		same(t, s.output(s.cfg.Out), known)
	})
}
