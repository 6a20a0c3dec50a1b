package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/spf13/cobra"

	"github.com/streamdedup/streamdedup/internal/admin"
	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/pipeline"
	"github.com/streamdedup/streamdedup/sizing"
)

func newRunCmd(a *app) *cobra.Command {
	s := defaultRun()
	file := &configurable{
		exclusive: [][]string{amounts, {"key", "preset"}, {"hash-seed", "hash-seed-file"}, {"sasl-password", "sasl-password-file"}},
		secrets:   []string{"sasl-password"},
	}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Deduplicate Kafka topics into another, exactly once",
		Long: `Deduplicate Kafka topics into another, exactly once.

Reads the input as a member of a consumer group, lets the first copy of each
event through, and commits output and input positions in one transaction, or,
with --delivery at-least-once, one after the other. Run it as often as there are
partitions; each process needs an --instance of its own.

Policies, and what they do with such records; each has an example:
  --on-missing    no ID: pass, drop, divert (to --divert-topic), fail
  --on-invalid    malformed before their ID: the same
  --on-late       more than the window behind: the same
  --on-duplicate  seen within the window: drop, divert, or tag: pass with a header
  --on-full       new, and the filter has what it was planned for: grow, pass, fail
  --refresh       seen: remembered for a window from now, not from the first
The header of --on-duplicate tag is streamdedup-duplicate: it shows what would go.
What a policy keeps from the output teaches nothing: the next copy comes out.

How much is remembered must be said: with --capacity, --rate or --memory, for the
whole input. Every flag is also a key of --config FILE and an environment
variable, STREAMDEDUP_BROKERS for --brokers; flags win over the environment, and
that over the file.

The first SIGINT or SIGTERM finishes the open transaction and leaves the group;
a second one, half a second later or more, quits at once.`,
		Example: `  streamdedup run --brokers localhost:9092 --in clicks --out clicks-unique --create-topics \
    --group dedup --key json:event_id --window 24h --rate 50k
  streamdedup run --config clicks.yaml --on-missing drop
  streamdedup run --config clicks.yaml --on-invalid divert --divert-topic clicks-broken
  streamdedup run --config clicks.yaml --time json:at --on-late drop
  streamdedup run --config clicks.yaml --on-duplicate tag --duplicates-topic clicks-seen
  streamdedup run --config clicks.yaml --on-full fail
  streamdedup run --config clicks.yaml --time json:at --refresh`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := file.load(cmd)
			log := slog.New(s.logger(a.stderr))
			for _, text := range mistyped(cmd, os.Environ()) {
				log.Warn(text)
			}
			if err != nil {
				return err
			}
			if file.print {
				return file.write(a.stdout, cmd)
			}
			if err := s.check(); err != nil {
				return err
			}
			return a.stream(cmd.Context(), s)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	alias(fs, "elements", "capacity")
	file.bind(fs)
	s.bind(fs)
	return cmd
}

// adminGrace is how long requests under way may hold up the end.
const adminGrace = time.Second

// stream runs the stream processor until ctx ends or it cannot go on.
func (a *app) stream(ctx context.Context, s *runSettings) (err error) {
	start := time.Now()
	limited := s.logger(a.stderr)
	log := slog.New(limited)
	client, err := s.options()
	if err != nil {
		return err
	}
	kafka, err := s.kafka(client, log)
	if err != nil {
		return err
	}
	s.idSettings.log(log)
	metrics := admin.NewMetrics()
	if s.metricsAddr != "" && s.metricsAddr != metricsOff {
		// Before anything else: a port that is taken should not cost the group a
		// rebalance.
		server, err := admin.Serve(s.metricsAddr, s.about(), metrics, log)
		if err != nil {
			return err
		}
		log.Info("serving metrics, health and readiness", "address", server.Addr())
		defer func() {
			grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminGrace)
			defer cancel()
			if err := server.Close(grace); err != nil {
				log.Warn("the metrics server did not end cleanly", "error", err)
			}
		}()
	}
	stages, err := s.open(ctx, kafka)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil // told to stop before there was anything to finish
		}
		return err
	}
	memories := s.checkpoints(stages.judge, log)
	defer memories.close()
	watching := newWatcher(log, s.more(), metrics.Warnings)
	heap := newHeapKeeper()
	engine, err := s.engine(stages, memories, metrics, watching, heap, a.stderr, log)
	if err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.sessionTimeout)
		defer cancel()
		return errors.Join(err, stages.close(closing))
	}
	defer heap.keep()()
	quiet := context.AfterFunc(ctx, func() {
		log.Info("stopping: what was read is written and committed first; another signal quits at once")
	})
	defer quiet()
	stopWatching := watching.start(ctx)
	err = stages.run(ctx, engine)
	stopWatching()
	limited.flush(time.Now())
	if err != nil && engine.Snapshot().Counts.In == 0 {
		return err // there is nothing to sum up
	}
	return errors.Join(err, s.sumUp(engine.Snapshot(), time.Since(start)).write(a.stderr, s.summary))
}

// engine makes what runs on the stages, and lets metrics watch it.
func (s *runSettings) engine(stages *stages, memories *checkpoints, metrics *admin.Metrics, watching *watcher, heap *heapKeeper, stderr io.Writer, log *slog.Logger) (*pipeline.Engine, error) {
	session := stages.judge
	plan, err := s.plan(int(session.Partitions()))
	if err != nil {
		return nil, err
	}
	if err := s.ready(plan, heap, stderr, log); err != nil {
		return nil, err
	}
	seed, err := s.givenSeed()
	if err != nil {
		return nil, err
	}
	if !seed.given {
		seed.n = derivedSeed(session.Cluster(), s.group)
	}
	rules, err := s.rules(plan, seed.n, s.divert != "")
	if err != nil {
		return nil, err
	}
	need := processNeed(plan, s.shares())
	rules.NewSet = whereThereIsRoom(plan.BytesPerPartition, func() uint64 { return need.rest(goMemory()) }, freeMemory, rules.NewSet)
	rules.LogChanges, rules.Scope, rules.ShowIDs = !s.unlogged, s.scope, s.showIDs
	if s.newSet != nil {
		rules.NewSet = s.newSet
	}
	log.Info("the seed of the hash", "seed", seed.n)
	var kept pipeline.Checkpoints
	if memories != nil {
		kept = memories
	}
	restorer := kafkaio.NewRestorer(session, kept)
	engine, err := pipeline.NewEngine(pipeline.EngineConfig{
		Rules:   rules,
		Workers: int(s.shards), Pin: s.pin,
		CommitInterval: s.commitInterval,
		Checkpoints:    kept, CheckpointInterval: s.checkpointInterval,
		Logger: log,
		Events: watching.watch(metrics.Events()),
	}, session, restorer)
	if err != nil {
		return nil, err
	}
	if err := stages.share(rules, s.commitInterval, log); err != nil {
		return nil, err
	}
	metrics.Watch(admin.Source{
		Snapshot: engine.Snapshot, Routes: stages.routes(), Lag: stages.lag,
		Restoring: restorer.Progress, Standstills: stages.standstills, NotCopied: session.NotCopied,
		Budget: plan.Workload.FPR, GenerationCapacity: plan.GenerationCapacity,
		Slice: time.Duration(rules.Window.Slice()) * time.Millisecond, Info: s.info(),
	})
	return engine, nil
}

// derivedSeed is the seed of a group that names none: all its processes find the
// same, and other groups have others.
func derivedSeed(cluster, group string) uint64 {
	return xxhash.Sum64String(cluster + "\x00" + group)
}

// about is one line for people: which stream this is.
func (s *runSettings) about() string {
	return fmt.Sprintf("group %s, instance %s: %s to %s, deduplicated by %s within %s",
		s.group, s.instance, strings.Join(s.in, ", "), s.out, strings.Join(s.keys, " + "), sizing.FormatDuration(s.window))
}

// info says the same to dashboards.
func (s *runSettings) info() admin.Info {
	return admin.Info{
		Key: strings.Join(s.keys, " + "), Time: s.time, Window: sizing.FormatDuration(s.window),
		Scope: s.scope.String(), Delivery: s.delivery.String(), OnDuplicate: s.onDuplicate.String(),
	}
}

// sumUp is the summary of a run. The rate is that of the fullest partition.
func (s *runSettings) sumUp(snap *pipeline.Snapshot, took time.Duration) *summary {
	var rate float64
	var bytes uint64
	for i := range snap.Partitions {
		w := &snap.Partitions[i].Window
		rate = max(rate, w.FPR)
		bytes += w.Bytes
	}
	sum := newSummary(&snap.Counts, rate, bytes, took)
	sum.warn(admin.WithoutID(&snap.Counts))
	sum.warn(admin.WithoutTime(&snap.Counts, s.time))
	return &sum
}
