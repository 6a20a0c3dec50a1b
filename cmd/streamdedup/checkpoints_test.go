package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamdedup/streamdedup/internal/state"
	"github.com/streamdedup/streamdedup/pipeline"
)

// Restores share one attempt to open the folder, wait for it for a while, and go on
// without it where the disk hangs. Only an attempt that ended is followed by another.
func TestCheckpointsDoNotWaitForADeadDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var attempts atomic.Int32
		answers := make(chan error)
		c := &checkpoints{
			cfg: state.Config{Dir: t.TempDir(), Group: "dedup", Instance: "a", Logger: slog.New(slog.NewTextHandler(&log, nil))},
			take: func(cfg state.Config) (*state.Folder, error) {
				attempts.Add(1)
				if err := <-answers; err != nil {
					return nil, err
				}
				return state.Open(cfg)
			},
		}
		took := func(n int) time.Duration {
			began, done := time.Now(), make(chan struct{})
			for number := range n {
				go func() {
					if files := c.List(pipeline.Partition{Topic: "clicks", Number: int32(number)}); len(files) > 0 {
						t.Errorf("%d checkpoints, and there are none", len(files))
					}
					done <- struct{}{}
				}()
			}
			for range n {
				<-done
			}
			return time.Since(began)
		}
		check := func(what string, took, want time.Duration, wantAttempts int32) {
			t.Helper()
			if n := attempts.Load(); took != want || n != wantAttempts {
				t.Errorf("%s: restores waited for %v in %d attempts, want %v in %d", what, took, n, want, wantAttempts)
			}
		}
		check("a disk that hangs", took(3), folderPatience, 1)
		if n := strings.Count(log.String(), errNoAnswer.Error()); n != 3 {
			t.Errorf("it was said %d times, want 3:\n%s", n, &log)
		}
		check("it still hangs", took(3), 0, 1)
		answers <- errors.New("full")
		synctest.Wait()
		time.AfterFunc(time.Second, func() { answers <- nil })
		check("a new attempt", took(3), time.Second, 2)
		check("it is open", took(3), 0, 2)
		c.close()
		if again, err := state.Open(c.cfg); err != nil {
			t.Errorf("the folder was not given back: %v", err)
		} else if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A folder that is open only when the process ends is given back.
func TestCheckpointsGiveALateFolderBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := state.Config{Dir: t.TempDir(), Group: "dedup", Instance: "a", Logger: slog.New(slog.DiscardHandler)}
		c := &checkpoints{cfg: cfg, take: func(cfg state.Config) (*state.Folder, error) {
			time.Sleep(2 * folderPatience)
			return state.Open(cfg)
		}}
		if _, err := c.open(); !errors.Is(err, errNoAnswer) {
			t.Errorf("got %v, want %v", err, errNoAnswer)
		}
		c.close()
		<-c.attempt.done
		again, err := state.Open(cfg)
		if err != nil {
			t.Fatalf("the folder was not given back: %v", err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
}
