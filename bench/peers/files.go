package peers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Command is a program that reads the file of the workload and writes a file.
type Command struct {
	Peer, Version, Note string
	Args                []string
	// Stdin says that it reads the input there; else Args has its name.
	Stdin bool
	// Output is the file that it writes by itself; empty is stdout.
	Output string
	Env    []string
}

// Run runs the command on input. All of its life counts, also its start; its memory is
// its peak, program and buffers included. To see that peak the caller must be small:
// a process begins with the one of who started it.
func (c Command) Run(ctx context.Context, dir, input string, events int, seed uint64) (Result, error) {
	r := Result{Peer: c.Peer, Version: c.Version, What: FileToFile, Note: c.Note}
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopLimit
	cmd.Env = append(os.Environ(), c.Env...)
	output := c.Output
	if output == "" {
		output = filepath.Join(dir, c.Peer+".out")
		out, err := os.Create(output)
		if err != nil {
			return r, err
		}
		defer out.Close()
		cmd.Stdout = out
	}
	defer func() { _ = os.Remove(output) }()
	if c.Stdin {
		in, err := os.Open(input)
		if err != nil {
			return r, err
		}
		defer in.Close()
		cmd.Stdin = in
	}
	complaints, err := os.Create(filepath.Join(dir, c.Peer+".log"))
	if err != nil {
		return r, err
	}
	defer complaints.Close()
	cmd.Stderr = complaints
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("%s: %w, see %s", c.Peer, err, complaints.Name())
	}
	took := time.Since(began)
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	r.measured(events, took, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	distinct := Workload(events, seed).Events
	r.remembers(uint64(usage.Maxrss)*1024, distinct)
	return r, checkFile(&r, output, events, seed)
}

func checkFile(r *Result, output string, events int, seed uint64) error {
	oracle, err := NewOracle(events, seed)
	if err != nil {
		return err
	}
	out, err := os.Open(output)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := oracle.Lines(out); err != nil {
		return fmt.Errorf("%s: read what came out: %w", r.Peer, err)
	}
	return r.judged(oracle.Verdict())
}

const wholeProcess = "bytes are the peak memory of the whole process"

// Filter is streamdedup's own command.
func Filter(streamdedup, input string, events int, seed uint64) Command {
	return Command{
		Peer: "filter", Version: "this tree", Note: "--key json:event_id, --fpr 1e-4; " + wholeProcess,
		Args: []string{streamdedup, "filter", "--key", "json:event_id", "--capacity", strconv.Itoa(Workload(events, seed).Events),
			"--summary", "none", input},
	}
}
