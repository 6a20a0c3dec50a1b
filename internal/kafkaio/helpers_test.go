package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

// everyBroker runs a test on an embedded broker and, where there is one, on a
// real one. Beside others: such a test waits more than it works.
func everyBroker(t *testing.T, test func(t *testing.T, brokers []string)) {
	t.Helper()
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		test(t, kafkatest.Fake(t, kfake.NumBrokers(1)).ListenAddrs())
	})
	t.Run("real", func(t *testing.T) { test(t, kafkatest.Brokers(t)) })
}

// scene is an input, an output and a configuration.
type scene struct {
	t       *testing.T
	brokers []string
	cfg     Config
	rules   pipeline.Config
	wire    *wire
	writer  *kgo.Client
	next    []int // the next ID of each partition
	// at is when all records are of: wherever the wall clock is, no generation of the
	// window ends between two of them.
	at time.Time
	// checkpoints are taken as often as can be, nil for never.
	checkpoints *shelf
	// around, if any, stands between an engine and its session and restorer.
	around func(*Session, pipeline.Restorer) (pipeline.Session, pipeline.Restorer)
}

func newScene(t *testing.T, brokers []string, partitions int) *scene {
	t.Helper()
	s := &scene{t: t, brokers: brokers, next: make([]int, partitions), at: time.Now()}
	in := kafkatest.Topic(t, brokers, int32(partitions), nil)
	out := kafkatest.Topic(t, brokers, int32(partitions), nil)
	s.cfg = Config{
		Brokers: brokers, In: []string{in}, Out: out,
		Group: "g-" + in, Instance: "i",
		CommitInterval: 50 * time.Millisecond, SessionTimeout: 6 * time.Second, TxnTimeout: 20 * time.Second,
		Changelog: true, WarmUp: true,
		Compression: "auto", Logger: testLog(t),
	}
	s.deleteAfter(ChangelogTopic(s.cfg.Group, in))
	s.rewire()
	s.rules = pipeline.Config{
		Keys: []string{"value"}, Seed: 7, Time: "record", Kind: "sliced", LogChanges: true,
		Window: window.Config{Span: time.Hour, GenerationCapacity: 1 << 16},
		NewSet: func() (filter.Set, error) {
			return filter.NewSliced(filter.Params{Lines: 1 << 12, LinesPerKey: 4, CellsPerLine: 4})
		},
	}
	s.writer = s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	return s
}

// deleteAfter deletes a topic that the session makes.
func (s *scene) deleteAfter(topic string) {
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...))
		if err != nil {
			s.t.Fatal(err)
		}
		defer cl.Close()
		if _, err := kadm.NewClient(cl).DeleteTopic(ctx, topic); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			s.t.Errorf("delete topic %s: %v", topic, err)
		}
	})
}

func (s *scene) client(opts ...kgo.Opt) *kgo.Client {
	s.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.brokers...)}, opts...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(cl.Close)
	return cl
}

func ctx(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// write writes records to the input and waits for them.
func (s *scene) write(records ...*kgo.Record) {
	s.t.Helper()
	if err := s.writer.ProduceSync(ctx(s.t), records...).FirstErr(); err != nil {
		s.t.Fatalf("write the input: %v", err)
	}
}

func (s *scene) record(partition int, id string) *kgo.Record {
	return &kgo.Record{Topic: s.cfg.In[0], Partition: int32(partition), Value: []byte(id), Timestamp: s.at}
}

// unique writes n records with IDs of their own to each partition, in one go.
func (s *scene) unique(n int) {
	s.t.Helper()
	var records []*kgo.Record
	for p := range s.next {
		for range n {
			records = append(records, s.record(p, fmt.Sprintf("p%d-%d", p, s.next[p])))
			s.next[p]++
		}
	}
	s.write(records...)
}

// again writes all IDs so far once more.
func (s *scene) again() {
	s.t.Helper()
	s.latest(math.MaxInt)
}

// latest writes the latest IDs of each partition once more, at most so many.
func (s *scene) latest(most int) {
	s.t.Helper()
	var records []*kgo.Record
	for p, n := range s.next {
		for i := max(0, n-most); i < n; i++ {
			records = append(records, s.record(p, fmt.Sprintf("p%d-%d", p, i)))
		}
	}
	s.write(records...)
}

// wanted are the IDs that must come out, once each.
func (s *scene) wanted() map[string]int {
	want := map[string]int{}
	for p, n := range s.next {
		for i := range n {
			want[fmt.Sprintf("p%d-%d", p, i)] = 1
		}
	}
	return want
}

// output counts what a reader of committed records sees in a topic.
func (s *scene) output(topic string) map[string]int {
	s.t.Helper()
	got := map[string]int{}
	for _, r := range s.read(topic) {
		got[string(r.Value)]++
	}
	return got
}

// read reads a topic's committed records up to its present end.
func (s *scene) read(topic string) []*kgo.Record {
	s.t.Helper()
	ctx := ctx(s.t)
	cl := s.client()
	f, err := extentOf(ctx, cl, topic)
	if err != nil {
		s.t.Fatal(err)
	}
	var all []*kgo.Record
	for p, end := range f.ends {
		r := newReader(cl, f.id, pipeline.Partition{Topic: topic, Number: p}, f.starts[p])
		for r.next < end {
			records, err := r.read(ctx)
			if err != nil {
				s.t.Fatalf("read %s/%d at %d of %d: %v", topic, p, r.next, end, err)
			}
			for _, record := range records {
				if !record.Attrs.IsControl() {
					all = append(all, record)
				}
			}
		}
	}
	return all
}

// same compares an output with what was wanted, and names a few differences.
func same(t *testing.T, got, want map[string]int) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	lost, extra := 0, 0
	var names []string
	for id, n := range want {
		if got[id] < n {
			lost++
			names = append(names, fmt.Sprintf("%s lost", id))
		}
	}
	for id, n := range got {
		if n > want[id] {
			extra++
			names = append(names, fmt.Sprintf("%s %d times, want %d", id, n, want[id]))
		}
	}
	t.Errorf("the output has %d IDs, want %d: %d lost, %d too often: %s", len(got), len(want), lost, extra,
		strings.Join(names[:min(len(names), 10)], ", "))
}

// run is a running engine.
type run struct {
	t       *testing.T
	session *Session
	engine  *pipeline.Engine
	stop    context.CancelFunc
	end     chan error
	killed  bool
}

// start starts an engine with the scene's configuration.
func (s *scene) start() *run {
	s.t.Helper()
	return s.startAs(s.cfg)
}

func (s *scene) startAs(cfg Config) *run {
	s.t.Helper()
	session, err := Open(ctx(s.t), cfg)
	if err != nil {
		s.t.Fatalf("open the session: %v", err)
	}
	running := pipeline.EngineConfig{
		Rules: s.rules, Workers: 1, Pin: pipeline.PinOff, CommitInterval: cfg.CommitInterval, Logger: cfg.Logger,
	}
	restorer := NewRestorer(session, nil)
	if s.checkpoints != nil {
		running.Checkpoints, running.CheckpointInterval = s.checkpoints, time.Nanosecond
		restorer = NewRestorer(session, s.checkpoints)
	}
	var with pipeline.Session = session
	var memory pipeline.Restorer = restorer
	if s.around != nil {
		with, memory = s.around(session, restorer)
	}
	engine, err := pipeline.NewEngine(running, with, memory)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &run{t: s.t, session: session, engine: engine, stop: stop, end: make(chan error, 1)}
	go func() { r.end <- engine.Run(ctx) }()
	s.t.Cleanup(func() {
		if !r.killed { // it would say goodbye to nobody for as long as it may
			_ = r.finish()
		}
	})
	return r
}

// extent is where a topic begins and ends, by partition.
type extent struct {
	id           kadm.TopicID
	starts, ends map[int32]int64
}

func extentOf(ctx context.Context, cl *kgo.Client, topic string) (extent, error) {
	adm := kadm.NewClient(cl)
	meta, err := adm.Metadata(ctx, topic)
	if err != nil {
		return extent{}, err
	}
	e := extent{id: meta.Topics[topic].ID, starts: map[int32]int64{}, ends: map[int32]int64{}}
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return extent{}, err
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	starts.Each(func(o kadm.ListedOffset) { e.starts[o.Partition] = o.Offset })
	ends.Each(func(o kadm.ListedOffset) { e.ends[o.Partition] = o.Offset })
	return e, err
}

// kill ends the engine as a killed process ends: from one moment to the next the
// brokers hear nothing of it any more. The scene gets a new wire.
func (s *scene) kill(r *run) {
	s.wire.cut()
	r.stop()
	r.killed = true
	s.rewire()
}

// rewire gives the next sessions a wire of their own.
func (s *scene) rewire() {
	s.wire = &wire{}
	s.cfg.Client = []kgo.Opt{kgo.Dialer(s.wire.dial), kgo.RequestRetries(3),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond })}
}

// caughtUp waits until the group has committed the input's end.
func (s *scene) caughtUp() {
	s.t.Helper()
	ctx, cl := ctx(s.t), s.client()
	until(s.t, "the group is at the input's end", func() bool {
		e, err := extentOf(ctx, cl, s.cfg.In[0])
		if err != nil {
			s.t.Fatal(err)
		}
		got, err := fetchOffsets(ctx, cl, s.cfg.Group, s.cfg.In...)
		for p, end := range e.ends {
			if err != nil || got.of(pipeline.Partition{Topic: s.cfg.In[0], Number: p}).next < end {
				return false
			}
		}
		return true
	})
}

// behind is the lag of all partitions together, -1 while none is read.
func behind(s *Session) int64 {
	total := int64(-1)
	for _, n := range s.Lag() {
		total = max(total, 0) + n
	}
	return total
}
