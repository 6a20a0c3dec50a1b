//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	sessionTimeout = 6 * time.Second
	txnTimeout     = 10 * time.Second

	// endLimit is far above what a process takes to end when it is asked to.
	endLimit = time.Minute
	// supervision is how soon a process that ended by itself is started again.
	supervision = time.Second
)

// instance is a place in the group: one name, one process at a time, connections
// through one proxy.
type instance struct {
	name  string
	proxy *proxy
	run   *run

	mu    sync.Mutex
	life  *life // nil while no process runs, or we are ending it
	lives int
}

// life is one process of an instance.
type life struct {
	cmd   *exec.Cmd
	name  string // the instance and which of its processes
	log   string
	since time.Time
	done  chan struct{} // closed when it has ended
}

// start starts a process, unless one runs or the run is over.
func (in *instance) start() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.life != nil || in.run.over.Load() {
		return nil
	}
	in.lives++
	l := &life{name: fmt.Sprintf("%s-%d", in.name, in.lives), since: time.Now(), done: make(chan struct{})}
	l.log = filepath.Join(in.run.dir, l.name+".log")
	log, err := os.Create(l.log)
	if err != nil {
		return err
	}
	l.cmd = exec.Command(in.run.program, in.run.arguments(in)...)
	l.cmd.Stdout, l.cmd.Stderr = log, log
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C ends the run, which ends them
	if err := errors.Join(l.cmd.Start(), log.Close()); err != nil {
		return fmt.Errorf("start instance %s: %w", l.name, err)
	}
	in.life = l
	go in.watch(l)
	return nil
}

// watch waits for the end of a process. One that nobody has ended is started
// again, as a supervisor would.
func (in *instance) watch(l *life) {
	_ = l.cmd.Wait() // how it ended is in ProcessState
	close(l.done)
	in.mu.Lock()
	alone := in.life == l
	if alone {
		in.life = nil
	}
	in.mu.Unlock()
	if !alone {
		return
	}
	in.run.ended(l)
	time.Sleep(supervision)
	if err := in.start(); err != nil {
		in.run.fail("%v", err)
	}
}

// take gives the running process to who will end it, nil if none runs.
func (in *instance) take() *life {
	in.mu.Lock()
	defer in.mu.Unlock()
	l := in.life
	in.life = nil
	return l
}

// close ends whatever is left.
func (in *instance) close() {
	if l := in.take(); l != nil {
		l.kill()
	}
	in.proxy.close()
}

// running is the process, nil if none runs.
func (in *instance) running() *life {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.life
}

// kill ends a process as a crash does.
func (l *life) kill() {
	_ = l.cmd.Process.Kill() // it has ended by itself, or it ends now
	<-l.done
}

// stop asks a process to end, and waits for it.
func (l *life) stop() error {
	_ = l.cmd.Process.Signal(syscall.SIGTERM) // one that has just ended is judged all the same
	select {
	case <-l.done:
		return l.judge()
	case <-time.After(endLimit):
		l.quit()
		return fmt.Errorf("%s did not end within %v of SIGTERM; its stacks are in %s", l.name, endLimit, l.log)
	}
}

// quit ends a process that does not do what it should: it writes the stacks of all
// its goroutines to its log.
func (l *life) quit() {
	_ = l.cmd.Process.Signal(syscall.SIGQUIT) // as with kill
	select {
	case <-l.done:
	case <-time.After(endLimit):
		l.kill()
	}
}

// judge says what is wrong with how a process ended that was asked to.
func (l *life) judge() error {
	if len(l.lines("time=")) == 0 && len(l.lines("error: ")) == 0 {
		return nil // asked before it had begun, perhaps before it could hear
	}
	if code := l.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended with %v after SIGTERM: %s", l.name, l.cmd.ProcessState, l.complaint())
	}
	if !l.hasBegun() {
		return nil // asked while it was looking for the brokers: there is nothing to sum up
	}
	s, err := l.summary()
	if err != nil {
		return err
	}
	return s.check(l.name)
}

// hasBegun is whether a process has found the brokers and made its plan.
func (l *life) hasBegun() bool {
	text, err := os.ReadFile(l.log)
	return err == nil && strings.Contains(string(text), " msg=plan ")
}

// isFenced is whether a process ended because its place was given to another: the
// one end by itself, once it has begun, that the guarantees name.
func (l *life) isFenced() bool {
	return l.cmd.ProcessState.ExitCode() == 1 && strings.Contains(l.complaint(), "was taken over by another process")
}

// isStillborn is whether a process gave up before it had begun, since it could not
// reach the brokers or they did not answer.
func (l *life) isStillborn() bool {
	return l.cmd.ProcessState.ExitCode() == 1 && !l.hasBegun()
}

// complaint is the error that a process has ended with.
func (l *life) complaint() string {
	if lines := l.lines("error: "); len(lines) > 0 {
		return strings.Join(lines, ", ")
	}
	return "no error is in " + l.log
}

// lines are those of the log that begin so, without that beginning.
func (l *life) lines(prefix string) []string {
	text, err := os.ReadFile(l.log)
	if err != nil {
		return nil // a log that is gone says nothing
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			found = append(found, strings.TrimSpace(rest))
		}
	}
	return found
}

// summary is what `--summary json` prints.
type summary struct {
	In        uint64 `json:"in"`
	Unique    uint64 `json:"unique"`
	Duplicate uint64 `json:"duplicate"`
	Missing   uint64 `json:"missing"`
	Invalid   uint64 `json:"invalid"`
	Out       uint64 `json:"out"`
	Diverted  uint64 `json:"diverted"`
	Dropped   uint64 `json:"dropped"`
	Unlearned uint64 `json:"unlearned"`
}

func (l *life) summary() (summary, error) {
	var s summary
	const begin = `{"in":`
	lines := l.lines(begin)
	if len(lines) != 1 {
		return s, fmt.Errorf("%s has printed %d summaries, want one: see %s", l.name, len(lines), l.log)
	}
	if err := json.Unmarshal([]byte(begin+lines[0]), &s); err != nil {
		return s, fmt.Errorf("read the summary of %s: %w", l.name, err)
	}
	return s, nil
}

// check holds the two sums against each other. The rest cannot be: the load has
// no records without IDs, and fills no generation.
func (s summary) check(name string) error {
	switch {
	case s.Unique+s.Duplicate+s.Missing+s.Invalid != s.In:
		return fmt.Errorf("%s: the verdicts do not add up to what came in: %+v", name, s)
	case s.Out+s.Diverted+s.Dropped != s.In:
		return fmt.Errorf("%s: the fates do not add up to what came in: %+v", name, s)
	case s.Missing+s.Invalid+s.Diverted+s.Unlearned > 0, s.Out != s.Unique:
		return fmt.Errorf("%s: this load has only first copies that go out and repeats that do not: %+v", name, s)
	}
	return nil
}
