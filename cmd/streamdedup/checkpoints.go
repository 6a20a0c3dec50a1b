package main

import (
	"log/slog"
	"sync"
	"time"

	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/state"
	"github.com/streamdedup/streamdedup/pipeline"
)

const (
	defaultStateDir           = "./streamdedup-state"
	stateDirOff               = "off"
	defaultCheckpointInterval = time.Minute
)

// checkpoints are those of a folder that may not be there yet: another process may
// have it, or its disk may be full. The pipeline goes on without, and each new
// checkpoint tries again.
type checkpoints struct {
	cfg state.Config

	mu     sync.Mutex
	folder *state.Folder // nil until it is open
}

// checkpoints are where the settings say, nil for none.
func (s *runSettings) checkpoints(session *kafkaio.Session, log *slog.Logger) *checkpoints {
	if s.stateDir == stateDirOff {
		return nil
	}
	return &checkpoints{cfg: state.Config{
		Dir: s.stateDir, Group: s.group, Instance: s.instance, Logger: log,
		IDs: func(topic string) (state.Identity, error) {
			input, changelog := session.TopicIDs(topic)
			return state.Identity{Input: input, Changelog: changelog}, nil
		},
	}}
}

func (c *checkpoints) open() (*state.Folder, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.folder == nil {
		folder, err := state.Open(c.cfg)
		if err != nil {
			return nil, err
		}
		c.folder = folder
	}
	return c.folder, nil
}

// Create implements [pipeline.Checkpoints].
func (c *checkpoints) Create(p pipeline.Partition) (pipeline.CheckpointWriter, error) {
	folder, err := c.open()
	if err != nil {
		return nil, err
	}
	return folder.Create(p)
}

// List implements [pipeline.Checkpoints].
func (c *checkpoints) List(p pipeline.Partition) []pipeline.CheckpointFile {
	folder, err := c.open()
	if err != nil {
		c.cfg.Logger.Warn("going on without checkpoints", "partition", p.String(), "error", err, "hint", hintOf(err))
		return nil
	}
	return folder.List(p)
}

// close gives the folder back, if there is one.
func (c *checkpoints) close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.folder == nil {
		return
	}
	if err := c.folder.Close(); err != nil {
		c.cfg.Logger.Warn("cannot give the state folder back", "error", err)
	}
}
