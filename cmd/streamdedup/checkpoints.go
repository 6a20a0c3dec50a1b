package main

import (
	"errors"
	"fmt"
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

// folderPatience is how long restores wait for the folder to be opened: a disk that
// takes longer does not answer, and they go on without it.
const folderPatience = 10 * time.Second

var errNoAnswer = errors.New("its disk does not answer")

// checkpoints are those of a folder that may not be there yet: another process may
// have it, or its disk may be full, or hang. The pipeline goes on without, and each new
// checkpoint tries again.
type checkpoints struct {
	cfg  state.Config
	take func(state.Config) (*state.Folder, error)

	mu      sync.Mutex // never held while the disk is waited for
	attempt *attempt   // the last one, nil before the first
	closed  bool
}

// attempt is one to open the folder, which all who need it share.
type attempt struct {
	began  time.Time
	done   chan struct{}
	folder *state.Folder // once done is closed, unless it failed
	err    error
}

// checkpoints are where the settings say, nil for none.
func (s *runSettings) checkpoints(session *kafkaio.Session, log *slog.Logger) *checkpoints {
	if s.stateDir == stateDirOff {
		return nil
	}
	return &checkpoints{take: state.Open, cfg: state.Config{
		Dir: s.stateDir, Group: s.group, Instance: s.instance, Logger: log,
		IDs: func(topic string) (state.Identity, error) {
			input, changelog := session.TopicIDs(topic)
			return state.Identity{Input: input, Changelog: changelog}, nil
		},
	}}
}

// open is the folder. It waits for a while at most.
func (c *checkpoints) open() (*state.Folder, error) {
	a := c.current()
	patience := time.NewTimer(time.Until(a.began.Add(folderPatience)))
	defer patience.Stop()
	select {
	case <-a.done:
		return a.folder, a.err
	default:
	}
	select {
	case <-a.done:
		return a.folder, a.err
	case <-patience.C:
		return nil, withHint(fmt.Errorf("open state folder %s: %w", c.cfg.Dir, errNoAnswer), "check the disk, or name another --state-dir")
	}
}

// current is the attempt that is under way, or succeeded, or else a new one.
func (c *checkpoints) current() *attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.attempt; a != nil {
		select {
		case <-a.done:
			if a.err == nil {
				return a
			}
		default:
			return a
		}
	}
	a := &attempt{began: time.Now(), done: make(chan struct{})}
	c.attempt = a
	go c.try(a)
	return a
}

func (c *checkpoints) try(a *attempt) {
	folder, err := c.take(c.cfg)
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.folder, a.err = folder, err; err == nil && c.closed {
		c.giveBack(folder) // nobody waited for it
	}
	close(a.done)
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

// close gives the folder back, if there is one, or once there is.
func (c *checkpoints) close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.attempt == nil {
		return
	}
	select {
	case <-c.attempt.done:
		if c.attempt.err == nil {
			c.giveBack(c.attempt.folder)
		}
	default:
	}
}

func (c *checkpoints) giveBack(folder *state.Folder) {
	if err := folder.Close(); err != nil {
		c.cfg.Logger.Warn("cannot give the state folder back", "error", err)
	}
}
