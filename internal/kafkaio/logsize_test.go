package kafkaio

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// The changelog takes at most 9 bytes for each new ID and 300 for each commit of a
// shard, as the broker has it on its disk: batches and markers included.
func TestChangelogIsSmall(t *testing.T) {
	t.Parallel()
	s := newScene(t, kafkatest.Brokers(t), 1)
	const many, few = 50_000, 3
	s.unique(many)
	r := s.start()
	r.judged(many)
	in := many
	for range 20 { // small commits
		s.unique(few)
		in += few
		r.judged(in)
	}
	s.again() // and some of duplicates only
	in *= 2
	r.judged(in)
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	snapshot := r.engine.Snapshot()
	ids, commits := snapshot.Counts.Verdicts[pipeline.Unique], snapshot.Settled[pipeline.Committed]
	topic := ChangelogTopic(s.cfg.Group, s.cfg.In[0])
	dirs, err := kadm.NewClient(s.client()).DescribeAllLogDirs(ctx(t), kadm.TopicsSet{topic: {0: {}}})
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	dirs.Each(func(d kadm.DescribedLogDir) { size += d.Size() })
	most := int64(9*ids + 300*commits)
	text := fmt.Sprintf("%d bytes for %d new IDs and %d commits, at most %d", size, ids, commits, most)
	if t.Log(text); size == 0 || size > most {
		t.Error(text)
	}
}
