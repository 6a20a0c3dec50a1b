//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partitions = 12
	instances  = 3

	// patience bounds the waiting for anything that must happen once things are
	// well again.
	patience = 3 * time.Minute
	// calmAfter is how long after the last fault a start may still fail for it.
	calmAfter = 30 * time.Second
	// stopLimit bounds what is done when the run itself is interrupted.
	stopLimit = 30 * time.Second
)

// run is one chaos run.
type run struct {
	options
	began   time.Time
	dir     string
	journal *os.File // what is printed, for later

	in, out, group string
	cluster        *cluster
	instances      []*instance
	visitor        *instance
	load           *load
	progress       *progress
	table          table
	verdict        verdict

	faulting sync.WaitGroup
	over     atomic.Bool // no process is started any more

	mu       sync.Mutex
	occupied map[place]bool
	calmed   time.Time // when the last fault was over
	findings []string
}

// newRun makes the run's folder.
func newRun(o options) (*run, error) {
	r := &run{options: o, began: time.Now(), occupied: map[place]bool{}}
	name := fmt.Sprintf("%s-seed%d", r.began.UTC().Format("20060102-150405"), o.seed)
	var err error
	if r.dir, err = filepath.Abs(filepath.Join(o.dir, name)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the run's folder: %w", err)
	}
	if r.journal, err = os.Create(filepath.Join(r.dir, "chaos.log")); err != nil {
		return nil, err
	}
	r.say("seed %d, %v of faults, folder %s", r.seed, r.duration, r.dir)
	return r, nil
}

// setUp makes the program, the cluster, the topics and the instances.
func (r *run) setUp(ctx context.Context) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	if err := r.buildProgram(ctx, root); err != nil {
		return err
	}
	if r.brokers != "" {
		r.cluster = &cluster{}
		err = r.cluster.connect(ctx, strings.Split(r.brokers, ","))
	} else {
		r.cluster = &cluster{scripts: filepath.Join(root, "scripts", "kafka"), dir: filepath.Join(r.dir, "kafka")}
		err = r.cluster.start(ctx, r.port)
	}
	if err != nil {
		return err
	}
	return r.makeStream(ctx)
}

// buildProgram builds the program, unless one is given.
func (r *run) buildProgram(ctx context.Context, root string) error {
	if r.program != "" {
		return nil
	}
	r.program = filepath.Join(r.dir, "streamdedup")
	build := exec.CommandContext(ctx, "go", "build", "-o", r.program, "./cmd/streamdedup")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return nil
}

// moduleRoot is the project's folder.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("look for the project's folder: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// makeStream makes the topics, the producer and the places of the instances.
func (r *run) makeStream(ctx context.Context) (err error) {
	base := fmt.Sprintf("chaos-%d-%d", r.seed, r.began.Unix())
	r.in, r.out, r.group = base+"-in", base+"-out", base
	if err := r.cluster.createTopics(ctx, partitions, r.in, r.out); err != nil {
		return err
	}
	if r.load, err = newLoad(r.cluster.seeds, r.in, partitions, r.rate, r.seed); err != nil {
		return err
	}
	r.progress = newProgress(r.cluster, r.group, r.in)
	for n := range instances + 1 {
		p, err := newProxy(r.cluster.brokers)
		if err != nil {
			return err
		}
		in := &instance{name: string(rune('a' + n)), proxy: p, run: r}
		if n == instances {
			r.visitor = in
			break
		}
		r.instances = append(r.instances, in)
	}
	return nil
}

// arguments are those of an instance's process.
func (r *run) arguments(in *instance) []string {
	return []string{
		"run", "--brokers", strings.Join(in.proxy.addresses(), ","), "--in", r.in, "--out", r.out,
		"--group", r.group, "--instance", in.name, "--key", "json:id",
		"--window", window.String(), "--fpr", fmt.Sprint(fpr), "--capacity", fmt.Sprint(2 * r.rate * int(window.Seconds())),
		"--session-timeout", sessionTimeout.String(), "--txn-timeout", txnTimeout.String(), "--commit-interval", "150ms",
		"--metrics-addr", "off", "--summary", "json",
		// Often enough that a restart finds a checkpoint, and a kill a half-written one.
		"--state-dir", filepath.Join(r.dir, "state-"+in.name), "--checkpoint-interval", "3s",
	}
}

// trouble runs load and faults for their time, and then lets everything catch up.
func (r *run) trouble(ctx context.Context) error {
	var background sync.WaitGroup
	watching, unwatch := context.WithCancel(ctx)
	defer background.Wait()
	defer unwatch()
	background.Go(func() { r.progress.follow(watching) })

	loading, enough := context.WithCancel(ctx)
	defer enough()
	written := make(chan error, 1)
	go func() { written <- r.load.run(loading) }()
	for _, in := range r.instances {
		if err := in.start(); err != nil {
			return err
		}
	}
	if err := r.progress.begun(ctx); err != nil {
		return err
	}
	brokers := 0
	if r.cluster.owned() {
		brokers = len(r.cluster.brokers)
	}
	r.say("every partition is being read: faults begin")
	faulting, calm := context.WithTimeout(ctx, r.duration)
	defer calm()
	r.faults(ctx, planFaults(r.seed, r.duration, instances, brokers), faulting.Done())
	<-faulting.Done()
	enough()
	if err := ctx.Err(); err != nil {
		return err
	}
	r.say("no more faults: catching up")
	r.mu.Lock()
	r.calmed = time.Now()
	r.mu.Unlock()
	if err := <-written; err != nil {
		return err
	}
	err := r.progress.atEnd(ctx)
	if ctx.Err() != nil {
		return err
	}
	r.over.Store(true)
	if err != nil {
		r.fail("%v", err)
		r.dump()
	} else {
		r.stop()
	}
	return nil
}

// stop ends all instances in good order.
func (r *run) stop() {
	var stopping sync.WaitGroup
	for _, in := range append(r.instances, r.visitor) {
		if l := in.take(); l != nil {
			stopping.Go(func() {
				if err := l.stop(); err != nil {
					r.fail("%v", err)
				} else {
					r.count(&r.table.cleanEnds)
				}
			})
		}
	}
	stopping.Wait()
}

// dump lets all instances write their stacks, and end.
func (r *run) dump() {
	for _, in := range append(r.instances, r.visitor) {
		if l := in.take(); l != nil {
			l.quit()
			r.say("the stacks of %s are in %s", l.name, l.log)
		}
	}
}

// audit judges the output.
func (r *run) audit(ctx context.Context) error {
	r.say("auditing")
	if err := awaitStable(ctx, r.cluster, r.out); err != nil {
		return err
	}
	a := newAudit(r.load)
	if err := readTopic(ctx, r.cluster, r.in, func(rec *kgo.Record) { a.input(rec.Partition, rec.Offset, rec.Value) }); err != nil {
		return err
	}
	if err := readTopic(ctx, r.cluster, r.out, func(rec *kgo.Record) { a.output(rec.Partition, rec.Offset, rec.Value) }); err != nil {
		return err
	}
	if r.verdict = a.finish(); r.verdict.ok() {
		return nil
	}
	return r.explain(ctx, r.verdict)
}

// ended notes that a process ended by itself.
func (r *run) ended(l *life) {
	r.count(&r.table.restarts)
	if r.isExcused(l) {
		r.say("%s ended by itself, as it may: %s", l.name, l.complaint())
		return
	}
	r.fail("%s ended by itself after %v, %v: %s", l.name, time.Since(l.since).Round(time.Millisecond), l.cmd.ProcessState, l.complaint())
}

// close ends whatever still runs. The brokers' data stays if something is wrong.
func (r *run) close() error {
	r.over.Store(true)
	for _, in := range r.instances {
		in.close()
	}
	if r.visitor != nil {
		r.visitor.close()
	}
	if r.load != nil {
		r.load.client.Close()
	}
	err := r.journal.Close()
	if r.cluster == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	err = errors.Join(err, r.cluster.close(ctx))
	if len(r.wrong()) == 0 && r.cluster.owned() && err == nil {
		err = os.RemoveAll(r.cluster.dir)
	}
	return err
}

// wrong is what was found.
func (r *run) wrong() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.findings)
}

// say prints what happens, with the time.
func (r *run) say(format string, args ...any) {
	line := fmt.Sprintf("%s  +%6.1fs  %s\n", time.Now().UTC().Format(clock), time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
	fmt.Print(line)
	fmt.Fprint(r.journal, line)
}

// happens prints and counts a fault.
func (r *run) happens(f fault, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	r.table.add(f.kind, what)
	r.say("%s", what)
}

// fail notes something that must not be.
func (r *run) fail(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	r.say("WRONG: %s", what)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings = append(r.findings, what)
}

func (r *run) count(n *int) {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	*n++
}
