package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
	"github.com/streamdedup/streamdedup/pipeline"
)

// The topic between the stages takes what the input takes, and what says where it was.
func TestRoutedBytes(t *testing.T) {
	for in, want := range map[int32]int32{
		1_000: 1_000 + originRoom, math.MaxInt32 - originRoom: math.MaxInt32, math.MaxInt32 - 1: math.MaxInt32, math.MaxInt32: math.MaxInt32,
	} {
		if got := routedBytes(in); got != want {
			t.Errorf("for batches of %d bytes: %d, want %d", in, got, want)
		}
	}
}

// startStages starts both stages of a scope of the topic. The end of one is the end
// of the other.
func (s *scene) startStages(cfg Config) *run {
	s.t.Helper()
	route, judge, err := OpenStages(ctx(s.t), cfg)
	if err != nil {
		s.t.Fatalf("open the stages: %v", err)
	}
	between := RepartitionTopic(cfg.Group, cfg.In[0])
	s.deleteAfter(between)
	s.deleteAfter(ChangelogTopic(cfg.Group, between))
	rules := s.rules
	rules.Scope = pipeline.ScopeTopic
	router, err := pipeline.NewRouter(pipeline.RouterConfig{
		Rules: rules, Partitions: route.Targets(), CommitInterval: cfg.CommitInterval, Logger: cfg.Logger,
	}, route)
	if err != nil {
		s.t.Fatal(err)
	}
	engine, err := pipeline.NewEngine(pipeline.EngineConfig{
		Rules: rules, Workers: 1, Pin: pipeline.PinOff, CommitInterval: cfg.CommitInterval, Logger: cfg.Logger,
	}, judge, NewRestorer(judge, nil))
	if err != nil {
		s.t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	judging, done := context.WithCancel(context.Background())
	r := &run{t: s.t, session: judge, engine: engine, stop: stop, end: make(chan error, 1)}
	routed := make(chan error, 1)
	go func() {
		defer done()
		routed <- router.Run(running)
	}()
	go func() {
		err := engine.Run(judging)
		stop()
		r.end <- errors.Join(<-routed, err)
	}()
	s.t.Cleanup(func() {
		if !r.killed { // see startAs
			_ = r.finish()
		}
	})
	return r
}

// Case EOS-16: two partitions have the same ID. Under the scope of the topic one copy
// comes out; under that of the partition, both.
func TestCase_EOS_16_scope(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		for _, scope := range []struct {
			name  string
			start func(*scene) *run
			want  int
		}{
			{"partition", func(s *scene) *run { return s.start() }, 2},
			{"topic", func(s *scene) *run { return s.startStages(s.cfg) }, 1},
		} {
			s := newScene(t, brokers, 6)
			r := scope.start(s)
			s.unique(20)
			s.write(s.record(1, "the same"), s.record(4, "the same"))
			r.judged(122)
			if err := r.finish(); err != nil {
				t.Fatal(err)
			}
			want := s.wanted()
			want["the same"] = scope.want
			same(t, s.output(s.cfg.Out), want)
		}
	})
}

// Between the stages a record gets a header and loses it again: what comes out is
// what came in, byte by byte, in the partition of its first copy, and in the order
// of its ID.
func TestStagesLeaveRecordsAsTheyAre(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 3)
		s.cfg.In = []string{kafkatest.Topic(t, brokers, 3, pointers(anyTime(map[string]string{})))}
		s.cfg.Out = kafkatest.Topic(t, brokers, 3, pointers(anyTime(map[string]string{})))
		s.rules.Keys = []string{"header:id"}
		s.cfg.Headers = true
		var sent []*kgo.Record
		for i := range 60 {
			r := &kgo.Record{Topic: s.cfg.In[0], Partition: int32(i % 3), Timestamp: time.UnixMilli(int64(1_000_000_000_000 + i)),
				Key: []byte{byte(i), 0, 255}, Value: []byte(fmt.Sprint("value ", i))}
			if i%4 == 0 {
				r.Value = nil
			}
			if i%7 == 0 {
				r.Timestamp = time.Now().AddDate(10, 0, 0).Truncate(time.Millisecond)
			}
			for range i % 3 {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: "twice", Value: []byte{byte(i)}})
			}
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "id", Value: []byte(fmt.Sprint(i / 2 * 2))}, kgo.RecordHeader{Key: headerSource})
			sent = append(sent, r)
			s.write(r)
		}
		r := s.startStages(s.cfg)
		r.judged(len(sent))
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		type seen struct {
			partition  int32
			key, value string
			null       bool
			time       int64
			headers    string
		}
		view := func(r *kgo.Record) seen {
			return seen{r.Partition, string(r.Key), string(r.Value), r.Value == nil, r.Timestamp.UnixMilli(), fmt.Sprint(r.Headers)}
		}
		// Of each pair one came out, whichever was first; all are as they were sent.
		got := map[string]bool{}
		for _, r := range s.read(s.cfg.Out) {
			i := slices.IndexFunc(sent, func(was *kgo.Record) bool { return was.Key[0] == r.Key[0] })
			if want := view(sent[i]); !reflect.DeepEqual(view(r), want) {
				t.Errorf("came out as %+v, was %+v", view(r), want)
			}
			id := fmt.Sprint(i / 2 * 2)
			if got[id] {
				t.Errorf("ID %s came out twice", id)
			}
			got[id] = true
		}
		if len(got) != 30 {
			t.Errorf("%d IDs came out, want 30", len(got))
		}
	})
}

// A diverted record says where it was in the input, not where it was in between.
func TestDivertedRecordOfAStageNamesItsSource(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 3)
		s.cfg.Divert, s.cfg.CreateTopics = s.cfg.Out+"-aside", true
		s.rules.OnMissing, s.rules.Diverts = pipeline.Divert, true
		s.unique(5)
		s.write(&kgo.Record{Topic: s.cfg.In[0], Partition: 2, Timestamp: time.Now()})
		r := s.startStages(s.cfg)
		r.judged(16)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		aside := s.read(s.cfg.Divert)
		if len(aside) != 1 {
			t.Fatalf("%d records were diverted, want 1", len(aside))
		}
		got := map[string]string{}
		for _, h := range aside[0].Headers {
			got[h.Key] = string(h.Value)
		}
		want := map[string]string{HeaderReason: "missing", HeaderTopic: s.cfg.In[0], HeaderPartition: "2", HeaderOffset: "5"}
		if !maps.Equal(got, want) {
			t.Errorf("headers %v, want %v", got, want)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// Two instances come and go, one by a crash, while IDs are written to several
// partitions: each comes out once, and the repartition topic is emptied behind them.
func TestStagesAreExactOnce(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		rng := random(t)
		s := newScene(t, brokers, 4)
		want := map[string]int{}
		total := 0
		write := func(n int) {
			var records []*kgo.Record
			for range n {
				id := fmt.Sprint("id-", rng.IntN(2*(total+1)))
				want[id] = 1
				for range 1 + rng.IntN(3) {
					records = append(records, s.record(rng.IntN(4), id))
					total++
				}
			}
			s.write(records...)
		}
		other := s.cfg
		other.Instance, other.Client = "j", nil
		write(500)
		a := s.startStages(s.cfg)
		write(500)
		b := s.startStages(other)
		write(500)
		caughtUp(t, s, 1)
		s.kill(a)
		write(500)
		a = s.startStages(s.cfg)
		write(500)
		caughtUp(t, s, 1)
		if err := b.finish(); err != nil {
			t.Fatal(err)
		}
		write(rng.IntN(500) + 1)
		caughtUp(t, s, 0)
		if err := a.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), want)
	})
}

// What the second stage has committed is deleted between the stages, a round later;
// the memory comes back from the changelog, and repeats are still caught.
func TestTopicBetweenTheStagesIsEmptied(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.unique(50)
		r := s.startStages(s.cfg)
		r.judged(100)
		caughtUp(t, s, 0)
		between := r.session.cfg.In[0]
		var before judged
		for round := range 3 {
			r.session.trimJudged(ctx(t), &before)
			before.since = time.Time{} // as if a minute had passed
			e, err := extentOf(ctx(t), s.client(), between)
			if err != nil {
				t.Fatal(err)
			}
			for p, start := range e.starts {
				if trimmed := start == e.ends[p]; trimmed != (round > 0) || start > 0 && !trimmed {
					t.Errorf("round %d: partition %d of %s holds offsets %d to %d", round, p, between, start, e.ends[p])
				}
			}
		}
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		s.again()
		r = s.startStages(s.cfg)
		r.judged(100)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		same(t, s.output(s.cfg.Out), s.wanted())
	})
}

// caughtUp waits until the second stage has committed all, or all but a part.
func caughtUp(t *testing.T, s *scene, part int64) {
	t.Helper()
	route, _ := s.cfg.stages()
	cl := s.client()
	until(t, "both stages are at the end", func() bool {
		behind := int64(0)
		for group, topic := range map[string]string{route.Group: s.cfg.In[0], s.cfg.Group: route.Out} {
			e, err := extentOf(ctx(t), cl, topic)
			if err != nil {
				t.Fatal(err)
			}
			got, err := fetchOffsets(ctx(t), cl, group)
			if err != nil {
				return false
			}
			for p, end := range e.ends {
				behind += max(0, end-max(0, got.of(pipeline.Partition{Topic: topic, Number: p}).next))
			}
		}
		return behind <= part*100
	})
}

// A group cannot change its scope: it would begin anew.
func TestGroupKeepsItsScope(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		s.unique(5)
		r := s.start()
		r.judged(10)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		_, _, err := OpenStages(ctx(t), s.cfg)
		if err == nil || !strings.Contains(err.Error(), "was run with --scope partition") {
			t.Errorf("scope topic after scope partition: %v", err)
		}
		topic := RepartitionTopic(s.cfg.Group, s.cfg.In[0])
		if made, err := kadm.NewClient(s.client()).ListTopics(ctx(t), topic); err != nil || made.Has(topic) {
			t.Errorf("the refused start has made %s: %v", topic, err)
		}

		s = newScene(t, brokers, 2)
		log := s.logged()
		s.unique(5)
		r = s.startStages(s.cfg)
		r.judged(10)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String(), "takes smaller records than the input") {
			t.Errorf("the output is as large as the input, and the log says otherwise:\n%s", log)
		}
		if _, err := Open(ctx(t), s.cfg); err == nil || !strings.Contains(err.Error(), "was run with --scope topic") {
			t.Errorf("scope partition after scope topic: %v", err)
		}
	})
}

// A start that was killed before all partitions of the topic between had begun is no
// reason to speak of new ones: that topic never gets any.
func TestStagesKnowNoNewPartitions(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 2)
		between := RepartitionTopic(s.cfg.Group, s.cfg.In[0])
		s.unique(5)
		r := s.startStages(s.cfg)
		r.judged(10)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		s.committed(pipeline.Partition{Topic: between, Number: 1}) // what is on its way would come back
		var begun kadm.TopicsSet
		begun.Add(between, 1)
		answers, err := kadm.NewClient(s.client()).DeleteOffsets(ctx(t), s.cfg.Group, begun)
		if err = errors.Join(err, answers.Error()); err != nil {
			t.Fatal(err)
		}
		log := s.logged()
		r = s.startStages(s.cfg)
		s.unique(5)
		r.judged(10)
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String(), "has partitions that the group has not seen") {
			t.Errorf("partitions that had not begun are taken for new ones:\n%s", log)
		}
	})
}

// What someone else writes between the stages stops the partition by name.
func TestForeignRecordBetweenTheStages(t *testing.T) {
	everyBroker(t, func(t *testing.T, brokers []string) {
		s := newScene(t, brokers, 1)
		s.unique(5)
		r := s.startStages(s.cfg)
		r.judged(5)
		s.write(&kgo.Record{Topic: RepartitionTopic(s.cfg.Group, s.cfg.In[0]), Value: []byte("x"), Timestamp: time.Now()})
		select {
		case err := <-r.end:
			close(r.end)
			if err == nil || !strings.Contains(err.Error(), "does not say where it came from") {
				t.Errorf("the stages ended with %v", err)
			}
		case <-time.After(limit):
			t.Fatal("a foreign record was not noticed")
		}
	})
}

func TestOriginRoundTrip(t *testing.T) {
	for _, o := range []origin{{0, 0}, {5, 127}, {1<<31 - 1, 1<<63 - 1}} {
		r := &kgo.Record{Offset: o.offset, Headers: []kgo.RecordHeader{{Key: "own"}}}
		made := newOrigins(o.partition, []*kgo.Record{r})
		headers := made.add(r.Headers, o.offset)
		if cap(made.headers) != len(made.headers) || cap(made.values) != len(made.values) {
			t.Errorf("%v: %d headers and %d bytes were made for %d and %d", o, cap(made.headers), cap(made.values), len(made.headers), len(made.values))
		}
		if len(headers) != 2 || headers[0].Key != "own" {
			t.Fatalf("headers %v: want the record's own first", headers)
		}
		if got, ok := parseOrigin(headers[1].Value); !ok || got != o {
			t.Errorf("%v came back as %v, %v", o, got, ok)
		}
		if n := len(headers[1].Key) + len(headers[1].Value) + 4; n > originRoom {
			t.Errorf("%v takes %d bytes, more than the %d that are kept for it", o, n, originRoom)
		}
	}
	for _, bad := range []string{"", "\x00\x01\x01", "\x01", "\x01\x01", "\x01\x01\x01\x01", "\x01\xff\xff\xff\xff\xff\x01\x01"} {
		if o, ok := parseOrigin([]byte(bad)); ok {
			t.Errorf("%q is origin %v, want none", bad, o)
		}
	}
}
