// Package kafkatest gives tests a Kafka to talk to: a real broker that already
// runs, named by the environment, or a broker of the test's own in this process.
//
// It is for tests only; nothing that ships may import it.
package kafkatest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	brokersEnv = "KAFKA_BROKERS"
	// requireEnv turns a missing broker from a skip into a failure, so that a run
	// meant for a real broker cannot pass without one.
	requireEnv = "STREAMDEDUP_REQUIRE_KAFKA"

	// adminLimit bounds one step of setting up or cleaning up.
	adminLimit = 30 * time.Second
	// readyPoll is how often Topic asks whether a new topic is ready, and so how
	// old the metadata that answers may be.
	readyPoll = 20 * time.Millisecond

	// maxNamePart keeps what Topic takes from the test's name far below Kafka's
	// limit of 249 characters, so that a tested program can add its own suffixes.
	maxNamePart = 100
)

// Brokers returns the addresses of a real Kafka from the environment variable
// KAFKA_BROKERS (HOST:PORT, separated by commas). Without it the test is
// skipped, or fails if STREAMDEDUP_REQUIRE_KAFKA=1.
func Brokers(t testing.TB) []string {
	t.Helper()
	brokers := parseBrokers(os.Getenv(brokersEnv))
	if len(brokers) > 0 {
		return brokers
	}
	const missing = "needs a real Kafka: set " + brokersEnv + " or run scripts/kafka/start.sh, which prints it"
	if os.Getenv(requireEnv) == "1" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return nil
}

func parseBrokers(list string) []string {
	var brokers []string
	for addr := range strings.SplitSeq(list, ",") {
		if addr = strings.TrimSpace(addr); addr != "" {
			brokers = append(brokers, addr)
		}
	}
	return brokers
}

// Fake starts a broker inside this process that speaks the Kafka protocol, and
// ends it with the test. ListenAddrs gives its addresses. Topics must be made
// first (Topic, or kfake.SeedTopics); a request of the client can be seen,
// changed or failed with ControlKey.
func Fake(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatalf("start the embedded broker: %v", err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

// Topic creates a topic with a name of its own and deletes it with the test.
// It returns once each partition is served. configs are topic settings, such
// as cleanup.policy; replication is the broker's default.
func Topic(t testing.TB, brokers []string, partitions int32, configs map[string]*string) string {
	t.Helper()
	adm := admin(t, brokers)
	name := topicName(t.Name())

	ctx, cancel := context.WithTimeout(t.Context(), adminLimit)
	defer cancel()
	const defaultReplication = -1
	if _, err := adm.CreateTopic(ctx, partitions, defaultReplication, configs, name); err != nil {
		t.Fatalf("create topic %s on %v: %v", name, brokers, err)
	}
	t.Cleanup(func() { deleteTopic(t, adm, name) })

	if err := waitUntilHosted(ctx, adm, name, partitions); err != nil {
		t.Fatalf("wait until topic %s is served: %v", name, err)
	}
	return name
}

func admin(t testing.TB, brokers []string) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(readyPoll))
	if err != nil {
		t.Fatalf("make a client for %v: %v", brokers, err)
	}
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// topicName is unique, legal and tells which test left the topic behind when a
// test process was killed.
func topicName(testName string) string {
	legal := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, testName)
	if len(legal) > maxNamePart {
		legal = legal[:maxNamePart]
	}
	var unique [6]byte
	_, _ = rand.Read(unique[:]) // documented never to fail
	return legal + "-" + hex.EncodeToString(unique[:])
}

// waitUntilHosted asks for offsets and not for metadata: a broker tells who
// leads a new partition before it serves it, and a client that is refused then
// waits for seconds until it tries again.
func waitUntilHosted(ctx context.Context, adm *kadm.Client, name string, partitions int32) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		ends, err := adm.ListEndOffsets(ctx, name)
		if err == nil {
			err = ends.Error()
		}
		if err == nil && len(ends[name]) == int(partitions) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func deleteTopic(t testing.TB, adm *kadm.Client, name string) {
	t.Helper()
	// The test's own context has ended when cleanups run.
	ctx, cancel := context.WithTimeout(context.Background(), adminLimit)
	defer cancel()
	_, err := adm.DeleteTopic(ctx, name)
	if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("delete topic %s: %v", name, err)
	}
}
