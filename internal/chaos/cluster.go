//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// copies is how many brokers the cluster has, and each topic copies.
const copies = 3

// cluster is the Kafka of a run: its own, or a given one whose brokers are left
// alone.
type cluster struct {
	scripts string // empty for a given one
	dir     string
	seeds   []string
	brokers map[int32]string
	client  *kgo.Client
	admin   *kadm.Client
}

// start starts three brokers.
func (c *cluster) start(ctx context.Context, port int) error {
	line, err := c.script(ctx, "start.sh", "--brokers", strconv.Itoa(copies), "--port", strconv.Itoa(port))
	if err != nil {
		return err
	}
	list, ok := strings.CutPrefix(strings.TrimSpace(line), "KAFKA_BROKERS=")
	if !ok {
		return fmt.Errorf("start the cluster: the script printed %q", line)
	}
	return c.connect(ctx, strings.Split(list, ","))
}

func (c *cluster) connect(ctx context.Context, seeds []string) (err error) {
	c.seeds = seeds
	if c.client, err = kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(100*time.Millisecond)); err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	c.admin = kadm.NewClient(c.client)
	details, err := c.admin.ListBrokers(ctx)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	c.brokers = map[int32]string{}
	for _, b := range details {
		c.brokers[b.NodeID] = b.Host + ":" + strconv.Itoa(int(b.Port))
	}
	return nil
}

func (c *cluster) owned() bool { return c.scripts != "" }

// script runs one of scripts/kafka on the cluster's folder.
func (c *cluster) script(ctx context.Context, name string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(c.scripts, name), append(args, "--dir", c.dir)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out), nil
}

// crash kills a broker.
func (c *cluster) crash(ctx context.Context, node int) error {
	_, err := c.script(ctx, "stop.sh", "--node", strconv.Itoa(node), "--kill")
	return err
}

// revive starts a broker that crashed, and keeps its log of before.
func (c *cluster) revive(ctx context.Context, node, lives int) error {
	log := filepath.Join(c.dir, fmt.Sprintf("node-%d", node), "broker.log")
	if err := os.Rename(log, fmt.Sprintf("%s.%d", log, lives)); err != nil {
		return fmt.Errorf("keep the broker's log: %w", err)
	}
	_, err := c.script(ctx, "start.sh", "--node", strconv.Itoa(node))
	return err
}

// whole is whether every partition of every topic, Kafka's own too, has all of its
// copies: then one broker may be lost and nothing stops.
func (c *cluster) whole(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, adminLimit)
	defer cancel()
	topics, err := c.admin.ListTopicsWithInternal(ctx)
	if err != nil || len(topics) == 0 {
		return false
	}
	for _, topic := range topics {
		for _, p := range topic.Partitions {
			if p.Err != nil || len(p.ISR) < len(p.Replicas) {
				return false
			}
		}
	}
	return true
}

func (c *cluster) createTopics(ctx context.Context, partitions int32, topics ...string) error {
	n := int16(min(copies, len(c.brokers)))
	created, err := c.admin.CreateTopics(ctx, partitions, n, nil, topics...)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	for _, topic := range created.Sorted() {
		if topic.Err != nil {
			return fmt.Errorf("create topic %s: %w", topic.Topic, topic.Err)
		}
	}
	return nil
}

// close leaves a given cluster, and stops one of our own.
func (c *cluster) close(ctx context.Context) error {
	if c.client != nil {
		c.client.Close()
	}
	if !c.owned() {
		return nil
	}
	_, err := c.script(ctx, "stop.sh", "--kill")
	return err
}
