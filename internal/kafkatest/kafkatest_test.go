package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// roundTrip writes to each partition and reads all of it back.
func roundTrip(t *testing.T, brokers []string, topic string, partitions int32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), adminLimit)
	defer cancel()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	var want []string
	for p := range partitions {
		value := fmt.Sprintf("value of partition %d", p)
		want = append(want, value)
		record := &kgo.Record{Topic: topic, Partition: p, Value: []byte(value)}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			t.Fatalf("produce to partition %d: %v", p, err)
		}
	}

	var got []string
	for len(got) < len(want) {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("poll after %d of %d records: %v", len(got), len(want), err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("read back %q, want %q", got, want)
	}
}

// topicLives proves that a topic works while its test runs and is gone after it.
func topicLives(t *testing.T, brokers []string) {
	t.Helper()
	const partitions = 3
	retention := "-1"
	var name string
	t.Run("while it lives", func(t *testing.T) {
		name = Topic(t, brokers, partitions, map[string]*string{"retention.ms": &retention})
		roundTrip(t, brokers, name, partitions)

		configs, err := admin(t, brokers).DescribeTopicConfigs(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		found := ""
		for _, c := range configs[0].Configs {
			if c.Key == "retention.ms" {
				found = c.MaybeValue()
			}
		}
		if found != retention {
			t.Errorf("retention.ms is %q, want %q", found, retention)
		}
	})
	// A broker may find it for a moment more after it has answered.
	adm := admin(t, brokers)
	for deadline := time.Now().Add(adminLimit); ; time.Sleep(readyPoll) {
		topics, err := adm.ListTopics(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err = topics[name].Err; errors.Is(err, kerr.UnknownTopicOrPartition) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("topic %s after its test: %v, want it unknown", name, err)
		}
	}
}

func TestTopicOnFake(t *testing.T) {
	topicLives(t, Fake(t).ListenAddrs())
}

func TestTopicOnRealKafka(t *testing.T) {
	topicLives(t, Brokers(t))
}

func TestParseBrokers(t *testing.T) {
	f := func(list string, want ...string) {
		t.Helper()
		if got := parseBrokers(list); !slices.Equal(got, want) {
			t.Errorf("parseBrokers(%q) = %q, want %q", list, got, want)
		}
	}
	f("")
	f(" , ")
	f("127.0.0.1:9092", "127.0.0.1:9092")
	f("a:1, b:2,", "a:1", "b:2")
}

func TestTopicName(t *testing.T) {
	long := topicName("TestA/sub test_(é)" + strings.Repeat("x", 300))
	if want := "TestA-sub-test_---xxx"; !strings.HasPrefix(long, want) {
		t.Errorf("topicName starts %q, want %q", long[:len(want)], want)
	}
	if len(long) > 150 {
		t.Errorf("topicName is %d characters long", len(long))
	}
	if first, second := topicName("A"), topicName("A"); first == second {
		t.Errorf("topicName gave %s twice", first)
	}
}

// stop ends a recorded test the way testing.T ends a real one.
type stop struct{ how string }

// recorder is a testing.TB that notes how it was ended.
type recorder struct {
	testing.TB
	message string
}

func (r *recorder) Helper() {}
func (r *recorder) Fatal(args ...any) {
	r.message = fmt.Sprint(args...)
	panic(stop{"failed"})
}

func (r *recorder) Skip(args ...any) {
	r.message = fmt.Sprint(args...)
	panic(stop{"skipped"})
}

func TestBrokersMissing(t *testing.T) {
	f := func(require, want string) {
		t.Helper()
		t.Setenv(brokersEnv, "")
		t.Setenv(requireEnv, require)
		r := &recorder{TB: t}
		defer func() {
			t.Helper()
			ended, ok := recover().(stop)
			if !ok || ended.how != want {
				t.Errorf("with %s=%q the test was %q, want %q", requireEnv, require, ended.how, want)
			}
			if !strings.Contains(r.message, "scripts/kafka/start.sh") {
				t.Errorf("the message %q does not say how to get a broker", r.message)
			}
		}()
		Brokers(r)
	}
	f("", "skipped")
	f("1", "failed")
}
