package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/streamdedup/streamdedup/bench"
	"github.com/streamdedup/streamdedup/internal/workload"
	"github.com/streamdedup/streamdedup/sizing"
)

// runner runs the product as a process on a broker.
type runner struct {
	settings
	broker *bench.Broker
	dir    string // of what it builds and of states
}

func newRunner(ctx context.Context, s settings) (*runner, error) {
	dir, err := os.MkdirTemp("", "sizecheck")
	if err != nil {
		return nil, err
	}
	r := &runner{settings: s, dir: dir}
	if r.binary == "" {
		r.binary = filepath.Join(dir, "streamdedup")
		build := exec.CommandContext(ctx, "go", "build", "-o", r.binary, "./cmd/streamdedup")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("build the product: %w: %s", err, out), os.RemoveAll(dir))
		}
	}
	if s.brokers == "" {
		r.broker, err = bench.EmbeddedBroker()
	} else {
		r.broker, err = bench.ConnectBroker(strings.Split(s.brokers, ","))
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return r, nil
}

func (r *runner) close() {
	r.broker.Close()
	_ = os.RemoveAll(r.dir) // what is left is in the system's folder for such
}

// check is both halves of one point.
func (r *runner) check(ctx context.Context, p point) (result, error) {
	out, err := p.said()
	if err != nil {
		return out, err
	}
	if p.textbook {
		out.Bytes, out.Rate, err = measureTextbook(ctx, p, r.seed)
		return out, err
	}
	plan, err := p.plan()
	if err != nil {
		return out, err
	}
	if out.Rate, err = measureRate(ctx, plan, r.seed); err != nil {
		return out, fmt.Errorf("measure the rate: %w", err)
	}
	if out.PeakBytes, err = r.peakOfRun(ctx, plan); err != nil {
		return out, fmt.Errorf("run the process: %w", err)
	}
	return out, nil
}

// peakOfRun is the most memory that a process with this plan has resident while it
// takes records as fast as it can. They are few beside the IDs of a large plan, and
// touch all of its memory nevertheless: its pages are large, and each ID has some lines.
func (r *runner) peakOfRun(ctx context.Context, p sizing.Plan) (peak uint64, err error) {
	w := workload.Config{
		Kind: workload.Clicks, Seed: r.seed, Events: r.records, Partitions: int32(p.Workload.Partitions),
		Start: time.Now().Add(-window / 8), Span: window / 8, Window: window,
	}
	topic := fmt.Sprintf("sizecheck-%x", time.Now().UnixNano())
	group := topic + "-group"
	if err := r.broker.CreateTopic(ctx, topic, w.Partitions); err != nil {
		return 0, err
	}
	defer func() {
		err = errors.Join(err, r.broker.Discard(context.WithoutCancel(ctx), group, topic, topic+"-out", group+"-"+topic+"-seen"))
	}()
	generator, err := workload.New(w)
	if err != nil {
		return 0, err
	}
	if err := r.broker.Produce(ctx, topic, generator, w.Records(), nil); err != nil {
		return 0, err
	}
	args := append([]string{
		"run", "--brokers", strings.Join(r.broker.Addresses(), ","), "--in", topic, "--out", topic + "-out", "--create-topics",
		"--group", group, "--instance", "a", "--key", w.Kind.KeySpecs()[0], "--metrics-addr", "off", "--log-level", "warn",
		"--state-dir", filepath.Join(r.dir, topic), "--checkpoint-interval", "5s", "--on-full", "pass",
	}, strings.Fields(p.RunFlags())...)
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.binary, args...)
	cmd.Stderr = &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	watching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		// A process that ends by itself is waited for in vain.
		err := <-ended
		cancel(fmt.Errorf("it ended: %w: %s", errors.Join(err, errEnded), stderr.String()))
		ended <- err
	}()
	err = r.broker.AwaitEnd(watching, group, topic, func(int64) { peak = max(peak, residentPeak(cmd.Process.Pid)) })
	if err == nil {
		// Checkpoints are written after the records, and belong to it.
		select {
		case <-time.After(checkpointTime):
		case <-watching.Done():
			err = context.Cause(watching)
		}
		peak = max(peak, residentPeak(cmd.Process.Pid))
	}
	_ = cmd.Process.Signal(os.Interrupt) // it may have ended
	if waited := <-ended; err == nil && waited != nil {
		err = fmt.Errorf("%w: %s", waited, stderr.String())
	}
	return peak, errors.Join(err, os.RemoveAll(filepath.Join(r.dir, topic)))
}

// errEnded is of a process that ended before it was told to.
var errEnded = errors.New("the process ended by itself")

// checkpointTime is for some checkpoints at the interval above.
const checkpointTime = 12 * time.Second

var peakMemory = regexp.MustCompile(`VmHWM:\s*(\d+) kB`)

// residentPeak is the most memory that a process ever had resident, or 0 where that
// is not known.
func residentPeak(pid int) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	found := peakMemory.FindSubmatch(text)
	if found == nil {
		return 0
	}
	kilobytes, err := strconv.ParseUint(string(found[1]), 10, 54)
	if err != nil {
		return 0
	}
	return kilobytes << 10
}
