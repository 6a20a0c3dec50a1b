//go:build unix

package e2e

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamdedup/streamdedup/filter"
	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/window"
)

const (
	restoreSeed = 7
	restoreFPR  = 0.01
	// restoreProbes are IDs that the changelog holds, and as many that it does not.
	restoreProbes = 1000
	// restoreChanges is in how many changes the memory was learned.
	restoreChanges = 1600
)

// TestRestoreOfManyIDs restores a memory of many IDs from a changelog, and after a
// kill -9 from the checkpoint that was taken meanwhile. The lines with a figure say
// how long that took: with STREAMDEDUP_LONG=1 it is a hundred million IDs.
func TestRestoreOfManyIDs(t *testing.T) {
	total := 1_000_000
	if long() {
		total = 100_000_000
	}
	s := newScene(t, 1, nil, nil)
	s.flags["layout"], s.flags["fpr"], s.flags["capacity"] = "fast", strconv.FormatFloat(restoreFPR, 'g', -1, 64), strconv.Itoa(total)
	s.flags["peak"], s.flags["skew"], s.flags["window"] = "1.5", "1", "7h"
	s.flags["hash-seed"], s.flags["checkpoint-interval"] = strconv.Itoa(restoreSeed), "1s"
	begin := time.Now().Add(-7 * time.Hour)
	s.remember(total, begin)

	probe := func(d *daemon, round int) {
		t.Helper()
		known, fresh := series("known", restoreProbes), series(fmt.Sprintf("new%d-", round), restoreProbes)
		var records []*kgo.Record
		for _, id := range append(known, fresh...) {
			r := event(0, id)
			r.Timestamp = begin.Add(7 * time.Hour) // before anything of the memory is too old
			records = append(records, r)
		}
		s.write(records...)
		s.caughtUp(d)
	}
	if _, err := program(); err != nil { // built before the clock runs
		t.Fatal(err)
	}
	launched := time.Now()
	d := s.run()
	d.ready(1)
	ready, took, cpu := time.Since(launched), restored(d), d.metric("process_cpu_seconds_total")
	t.Logf("figure: from the changelog: %d IDs in %v, %.1f million a second; %.1f s of CPU; ready %v after the launch",
		total, took.Round(time.Millisecond), float64(total)/took.Seconds()/1e6, cpu, ready.Round(time.Millisecond))
	probe(d, 0)
	await(t, "a checkpoint is durable", func() bool { return d.metric("streamdedup_checkpoint_seconds_count") >= 1 }, d.done)
	d.kill()

	bytes, plain := readCold(t, s.flags["state-dir"])
	evict(t, s.flags["state-dir"])
	launched = time.Now()
	d = s.run()
	d.ready(1)
	ready, took = time.Since(launched), restored(d)
	t.Logf("figure: from a checkpoint of %d MB that no cache has: in %v, a plain read of its file takes %v; ready %v after the launch",
		bytes/1e6, took.Round(time.Millisecond), plain.Round(time.Millisecond), ready.Round(time.Millisecond))
	if c := d.metric("streamdedup_window_coverage_ratio"); c != 1 {
		t.Errorf("coverage %v after a restore, want 1", c)
	}
	probe(d, 1)
	sum := d.stop()
	out := len(s.read(s.out)[0])
	// All that is known is withheld, and of the new ones some: by the filter's rate
	// 20 of 2,000, with a deviation of 4.5.
	most := uint64(2*restoreProbes*restoreFPR + 6*math.Sqrt(2*restoreProbes*restoreFPR))
	if withheld := 2*restoreProbes - out; withheld < 0 || uint64(withheld) > most {
		t.Errorf("%d of %d new IDs came out, at most %d may be missing", out, 2*restoreProbes, most)
	}
	if sum.Duplicate < restoreProbes {
		t.Errorf("%d duplicates after the second start, want at least the %d that are known", sum.Duplicate, restoreProbes)
	}
}

var restoredLine = regexp.MustCompile(`partition restored.*took=(\S+)`)

// restored is how long the restore took, by the log.
func restored(d *daemon) time.Duration {
	d.t.Helper()
	m := restoredLine.FindStringSubmatch(d.line("partition restored"))
	if m == nil {
		d.t.Fatal("the log does not say how long the restore took")
	}
	took, err := time.ParseDuration(m[1])
	if err != nil {
		d.t.Fatal(err)
	}
	return took
}

// readCold reads the newest checkpoint from the disk, as fast as a plain read can.
func readCold(t *testing.T, dir string) (bytes int64, took time.Duration) {
	t.Helper()
	files := evict(t, dir)
	began := time.Now()
	f, err := os.Open(files[len(files)-1])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for {
		n, err := f.Read(buf)
		if bytes += int64(n); errors.Is(err, io.EOF) {
			return bytes, time.Since(began)
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// evict takes the checkpoints out of the system's cache. They are returned, the
// newest last.
func evict(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*.checkpoint"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no checkpoint is in %s: %v", dir, err)
	}
	for _, file := range files {
		if err := evictFile(file); err != nil {
			t.Fatalf("evict %s: %v", file, err)
		}
	}
	slices.Sort(files)
	return files
}

// remember writes a changelog, and the offset that goes with it, as a group leaves
// them that has seen total IDs in a window that ends now.
func (s *scene) remember(total int, begin time.Time) {
	s.t.Helper()
	rules := pipeline.Config{Keys: s.keys, Seed: restoreSeed, Kind: "sliced"}
	print, err := rules.Fingerprint()
	if err != nil {
		s.t.Fatal(err)
	}
	known := make([]filter.Hash, restoreProbes)
	extractor, err := keys.Parse(s.keys, restoreSeed, keys.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	for i, id := range series("known", restoreProbes) {
		record := keys.Record{Value: event(0, id).Value}
		known[i], _ = extractor.Hash(&record)
	}
	// The input has an offset for each change.
	padding := make([]*kgo.Record, restoreChanges)
	for i := range padding {
		padding[i] = event(0, "padding")
	}
	s.write(padding...)

	input, err := s.admin.ListTopics(s.ctx(), s.in)
	if err != nil {
		s.t.Fatal(err)
	}
	id := input[s.in].ID
	topic := kafkaio.ChangelogTopic(s.group, s.in)
	settings := map[string]*string{}
	for name, value := range map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "message.timestamp.type": "CreateTime"} {
		settings[name] = kadm.StringPtr(value)
	}
	if _, err := s.admin.CreateTopic(s.ctx(), 1, -1, settings, topic); err != nil {
		s.t.Fatal(err)
	}

	writer, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer writer.Close()
	rng := rand.New(rand.NewPCG(seed(s.t), 0))
	slice := (7 * time.Hour / 7).Milliseconds()
	state := pipeline.State{Fingerprint: print, Window: window.State{Believed: true, Slice: slice}}
	var change pipeline.Change
	for i := range restoreChanges {
		at := begin.UnixMilli() + int64(i)*(7*time.Hour).Milliseconds()/restoreChanges
		number := at / slice
		gens := state.Window.Generations
		if len(gens) == 0 || gens[len(gens)-1].Number != number {
			if len(gens) > 0 {
				state.Window.Rotation++
			}
			gens = append(gens, window.Generation{Number: number, FirstOffset: int64(i)})
			state.Window.Generations = gens
		}
		state.Window.StreamTime = at
		hashes := make([]filter.Hash, total/restoreChanges)
		for k := range hashes {
			hashes[k] = filter.Hash(rng.Uint64())
		}
		if i > 0 && i*len(known)/restoreChanges != (i-1)*len(known)/restoreChanges || i == 0 {
			hashes = append(hashes, known[i*len(known)/restoreChanges])
		}
		change = pipeline.Change{Begin: int64(i), Next: int64(i + 1), State: state,
			Learned: []pipeline.Learned{{Rotation: state.Window.Rotation, Until: at, Hashes: hashes}}}
		for _, value := range change.AppendRecords(nil) {
			writer.Produce(s.ctx(), &kgo.Record{Topic: topic, Key: id[:], Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					s.t.Errorf("write the changelog: %v", err)
				}
			})
		}
	}
	if err := writer.Flush(s.ctx()); err != nil {
		s.t.Fatal(err)
	}
	at := kadm.Offsets{}
	at.Add(kadm.Offset{Topic: s.in, Partition: 0, At: change.Next, LeaderEpoch: -1, Metadata: change.State.Metadata()})
	if err := s.admin.CommitAllOffsets(s.ctx(), s.group, at); err != nil {
		s.t.Fatal(err)
	}
}
