package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/pipeline"
)

var scopeFlag = kindOf[pipeline.Scope]{"SCOPE", pipeline.ParseScope, pipeline.Scope.String}

// shares is whether the input is shared out by IDs before it is judged.
func (s *runSettings) shares() bool { return s.scope == pipeline.ScopeTopic }

// checkScope refuses what does not go with a scope of the topic.
func (s *runSettings) checkScope() error {
	if !s.shares() {
		return nil
	}
	if len(s.in) > 1 {
		return withHint(usagef("--scope topic is for one --in, not for %d: an ID belongs to its topic", len(s.in)),
			"run a process with a --group of its own for each input")
	}
	if s.delivery != kafkaio.ExactlyOnce {
		return withHint(usagef("--scope topic goes with --delivery %s only, not with %s", kafkaio.ExactlyOnce, s.delivery),
			"leave out --delivery, or use --scope partition where all copies of an ID are in one partition")
	}
	return nil
}

// stages are what a run has of the group: a member that judges, and with --scope
// topic one before it that shares the input out.
type stages struct {
	judge  *kafkaio.Session
	route  *kafkaio.RouteSession // nil with --scope partition
	router *pipeline.Router
}

// open opens the stages.
func (s *runSettings) open(ctx context.Context, cfg kafkaio.Config) (*stages, error) {
	g := &stages{}
	var err error
	if s.shares() {
		g.route, g.judge, err = kafkaio.OpenStages(ctx, cfg)
	} else {
		g.judge, err = kafkaio.Open(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// close leaves the group, where nothing runs yet.
func (g *stages) close(ctx context.Context) error {
	err := g.judge.Close(ctx, true)
	if g.route != nil {
		err = errors.Join(err, g.route.Close(ctx, true))
	}
	return err
}

// share makes what shares the input out by the rules of the shards, if that is
// wanted.
func (g *stages) share(rules pipeline.Config, commitInterval time.Duration, log *slog.Logger) (err error) {
	if g.route == nil {
		return nil
	}
	g.router, err = pipeline.NewRouter(pipeline.RouterConfig{
		Rules: rules, Partitions: g.route.Targets(), CommitInterval: commitInterval,
		Logger: log.With("stage", "repartition"),
	}, g.route)
	return err
}

// run runs the stages until ctx ends or one of them cannot go on; then the other
// ends, too. The first finishes before the second is told to.
func (g *stages) run(ctx context.Context, engine *pipeline.Engine) error {
	if g.router == nil {
		return engine.Run(ctx)
	}
	routing, stopRouting := context.WithCancel(ctx)
	judging, stopJudging := context.WithCancel(context.WithoutCancel(ctx))
	ends := make(chan error, 2)
	go func() {
		defer stopJudging()
		err := g.router.Run(routing)
		if err != nil {
			err = fmt.Errorf("share out the input: %w", err)
		}
		ends <- err
	}()
	go func() {
		defer stopRouting()
		ends <- engine.Run(judging)
	}()
	first := <-ends
	return errors.Join(first, <-ends)
}

// lag is that of both stages; their topics tell them apart.
func (g *stages) lag() map[pipeline.Partition]int64 {
	behind := g.judge.Lag()
	if g.route != nil {
		maps.Copy(behind, g.route.Lag())
	}
	return behind
}

// standstills are those of both stages.
func (g *stages) standstills() []pipeline.Standstill {
	all := g.judge.Standstills()
	if g.route != nil {
		all = append(all, g.route.Standstills()...)
	}
	return all
}

// routes is what metrics show of the first stage, nil where there is none.
func (g *stages) routes() func() *pipeline.RouteSnapshot {
	if g.router == nil {
		return nil
	}
	return g.router.Snapshot
}
