package kafkaio

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// What compaction has taken from the input leaves gaps, batches with no record left,
// and markers of transactions that have none. Reading passes them; what is left comes
// out, and the lag gets to zero. It takes the broker's cleaner some seconds.
func TestCase_EOS_11_Compaction(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.Brokers(t)
	s := newScene(t, brokers, 1)
	configs := map[string]*string{}
	for name, value := range map[string]string{
		"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "0",
	} {
		configs[name] = kadm.StringPtr(value)
	}
	s.cfg.In = []string{kafkatest.Topic(t, brokers, 1, configs)}
	want := map[string]int{}
	keyed := func(key, id string) *kgo.Record {
		r := s.record(0, id)
		r.Key, r.Timestamp = []byte(key), time.Now() // the broker begins a segment by the time of its records
		return r
	}
	// Each key many times, in plain batches and in transactions, committed and not.
	upstream := s.client(kgo.TransactionalID("upstream-"+s.cfg.Group), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for round := range 10 {
		var plain, inside []*kgo.Record
		for key := range 20 {
			plain = append(plain, keyed(fmt.Sprintf("plain-%d", key), fmt.Sprintf("plain-%d-%d", key, round)))
			inside = append(inside, keyed(fmt.Sprintf("txn-%d", key), fmt.Sprintf("txn-%d-%d", key, round)))
		}
		s.write(plain...)
		if err := upstream.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := upstream.ProduceSync(ctx(t), inside...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		// All are aborted but two, so that whole batches go.
		if err := upstream.EndTransaction(ctx(t), kgo.TransactionEndTry(round == 3 || round == 6)); err != nil {
			t.Fatal(err)
		}
	}
	for key := range 20 {
		want[fmt.Sprintf("plain-%d-9", key)] = 1
		want[fmt.Sprintf("txn-%d-6", key)] = 1
	}
	// The last segment is not compacted: it must be another one. How many of its records
	// are left depends on the moment.
	last := 0
	settled := func(topic string) map[string]int {
		got := s.output(topic)
		for i := range last {
			delete(got, fmt.Sprintf("last-%d", i))
		}
		return got
	}
	until(t, "the input is compacted, all of it", func() bool {
		s.write(keyed("last", fmt.Sprintf("last-%d", last)))
		last++
		time.Sleep(200 * time.Millisecond) // segment.ms goes by
		return maps.Equal(settled(s.cfg.In[0]), want)
	})
	r := s.start()
	s.caughtUp()
	until(t, "the lag is none", func() bool { return behind(r.session) == 0 })
	end := committedOf(t, s, 0)
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	if snapshot := r.engine.Snapshot(); end.next < int64(snapshot.Counts.In)+200 || snapshot.Counts.Verdicts[pipeline.Duplicate] != 0 {
		t.Errorf("%d records were judged up to offset %d: the test has lost its gaps", snapshot.Counts.In, end.next)
	}
	same(t, settled(s.cfg.Out), want)
}
