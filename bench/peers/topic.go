package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/bench"
	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/workload"
)

// Fill makes a topic that has the workload in it.
func Fill(ctx context.Context, brokers []string, topic string, events int, seed uint64) error {
	b, err := bench.ConnectBroker(brokers)
	if err != nil {
		return err
	}
	defer b.Close()
	generator, err := workload.New(Workload(events, seed))
	if err != nil {
		return err
	}
	if err := b.CreateTopic(ctx, topic, Partitions); err != nil {
		return err
	}
	return b.Produce(ctx, topic, generator, events, nil, kgo.ProducerBatchCompression(kgo.NoCompression()))
}

// CreateOutput makes a topic for a peer's output.
func CreateOutput(ctx context.Context, brokers []string, topic string) error {
	b, err := bench.ConnectBroker(brokers)
	if err != nil {
		return err
	}
	defer b.Close()
	return b.CreateTopic(ctx, topic, Partitions)
}

// Discard deletes topics.
func Discard(ctx context.Context, brokers []string, topics ...string) error {
	b, err := bench.ConnectBroker(brokers)
	if err != nil {
		return err
	}
	defer b.Close()
	return b.Discard(ctx, "", topics...)
}

// TopicJob is to deduplicate a topic that [Fill] made into one that is there.
type TopicJob struct {
	Brokers []string
	In, Out string
	Events  int
	Seed    uint64
	Dir     string
}

// ready is what run logs before it reads the first record.
const ready = `msg="partition restored"`

// RunTopic lets streamdedup run in a process of its own. What counts lies between the
// moment it is ready to read and its last commit.
func RunTopic(ctx context.Context, streamdedup, delivery string, j TopicJob) (r Result, err error) {
	name := map[string]string{"exactly-once": "run-eos", "at-least-once": "run-alo"}[delivery]
	r = Result{Peer: name, Version: "this tree", What: TopicToTopic,
		Note: "run --delivery " + delivery + ", --fpr 1e-4, its own peak and skew, commits every 200 ms; bytes are of the filters"}
	port, err := freePort()
	if err != nil {
		return r, err
	}
	metrics := "127.0.0.1:" + strconv.Itoa(port)
	state := filepath.Join(j.Dir, name+"-state")
	defer func() { _ = os.RemoveAll(state) }()
	b, err := bench.ConnectBroker(j.Brokers)
	if err != nil {
		return r, err
	}
	defer b.Close()
	// A new broker makes the coordinator of its groups when it is first asked for, in
	// seconds: before there is something to miss.
	if lag, err := j.lag(ctx, b); err != nil {
		return r, err
	} else if lag != int64(j.Events) {
		return r, fmt.Errorf("group %q has %d records to read, want all %d: it is another run's", j.Out, lag, j.Events)
	}
	distinct := Workload(j.Events, j.Seed).Events
	defer func() { // the next round's has the same name
		err = errors.Join(err, b.Discard(context.WithoutCancel(ctx), j.Out, kafkaio.ChangelogTopic(j.Out, j.In)))
	}()
	cmd := exec.Command(streamdedup, "run", "--brokers", strings.Join(j.Brokers, ","), "--in", j.In, "--out", j.Out,
		"--group", j.Out, "--instance", "peers", "--key", "json:event_id", "--window", "24h", "--capacity", strconv.Itoa(distinct),
		"--delivery", delivery, "--state-dir", state, "--metrics-addr", metrics, "--summary", "none")
	begin := newMark(ready)
	cmd.Stderr = begin
	srv, err := startServer(ctx, j.Dir, name, cmd)
	if err != nil {
		return r, err
	}
	defer srv.stop(syscall.SIGTERM)
	took, cpu, err := j.measure(ctx, b, srv, begin)
	if err != nil {
		return r, err
	}
	r.measured(j.Events, took, cpu)
	filters, err := gauge(ctx, metrics, "streamdedup_filter_bytes")
	if err != nil {
		return r, err
	}
	r.remembers(filters, distinct)
	srv.stop(syscall.SIGTERM)
	return r, j.Check(ctx, &r)
}

// measure takes the clocks when the process begins and when the input is read.
func (j TopicJob) measure(ctx context.Context, b *bench.Broker, srv *server, begin *mark) (took, cpu time.Duration, err error) {
	select {
	case <-begin.seen:
	case <-srv.ended:
		return 0, 0, srv.gone()
	case <-ctx.Done():
		return 0, 0, context.Cause(ctx)
	}
	began := time.Now()
	used, err := srv.cpu()
	if err == nil {
		err = j.awaitRead(ctx, b, srv)
	}
	if err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	uses, err := srv.cpu()
	return took, uses - used, err
}

// lookInterval is how often the progress is asked for.
const lookInterval = 20 * time.Millisecond

// awaitRead waits until the input is read.
func (j TopicJob) awaitRead(ctx context.Context, b *bench.Broker, srv *server) error {
	for {
		if lag, err := j.lag(ctx, b); err != nil || lag == 0 {
			return err
		}
		select {
		case <-time.After(lookInterval):
		case <-srv.ended:
			return srv.gone()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lag is that of the group, which is called like its output.
func (j TopicJob) lag(ctx context.Context, b *bench.Broker) (int64, error) {
	for {
		lag, _, err := b.Lag(ctx, j.Out, j.In)
		if !kerr.IsRetriable(err) {
			return lag, err
		}
		select {
		case <-time.After(lookInterval):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// gauge sums up the samples of a metric.
func gauge(ctx context.Context, address, name string) (sum uint64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	found := false
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		sample, value, _ := strings.Cut(lines.Text(), " ")
		if metric, _, _ := strings.Cut(sample, "{"); metric != name {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("read metric %s: %w", name, err)
		}
		sum, found = sum+uint64(n), true
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	if !found {
		return 0, fmt.Errorf("%s has no metric %s", address, name)
	}
	return sum, nil
}

// Check reads what is committed in the output and records the oracle's verdict.
func (j TopicJob) Check(ctx context.Context, r *Result) error {
	oracle, err := NewOracle(j.Events, j.Seed)
	if err != nil {
		return err
	}
	from := map[int32]kgo.Offset{}
	for p := range int32(Partitions) {
		from[p] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(j.Brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{j.Out: from}))
	if err != nil {
		return err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListCommittedOffsets(ctx, j.Out)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("ask for the ends of topic %q: %w", j.Out, err)
	}
	left := map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			left[end.Partition] = end.Offset
		}
	})
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read topic %q: %w", j.Out, err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if !record.Attrs.IsControl() {
				oracle.Passed(record.Value)
			}
			if record.Offset+1 >= left[record.Partition] {
				delete(left, record.Partition)
			}
		})
	}
	return r.judged(oracle.Verdict())
}
