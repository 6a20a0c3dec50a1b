package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Names are all peers, in the order of the table.
var Names = []string{
	"engine-1e-2", "engine-1e-4", "ring", "redis", "postgres", "pebble",
	"run-eos", "run-alo", "streams-eos", "streams-alo", "flink-heap", "flink-rocksdb",
	"filter", "benthos", "runiq", "huniq", "awk", "sort",
}

var (
	onTopics = []string{"run-eos", "run-alo", "streams-eos", "streams-alo", "flink-heap", "flink-rocksdb"}
	onJVM    = onTopics[2:]
	onFiles  = []string{"filter", "benthos", "runiq", "huniq", "awk", "sort"}
)

// OnTopics says that a peer needs a Kafka, and its input in a topic.
func OnTopics(name string) bool { return slices.Contains(onTopics, name) }

// OnJVM says that a peer is a program of the folder jvm.
func OnJVM(name string) bool { return slices.Contains(onJVM, name) }

// OnFiles says that a peer needs its input in a file.
func OnFiles(name string) bool { return slices.Contains(onFiles, name) }

// Setup is what the peers need.
type Setup struct {
	Events int
	Seed   uint64
	Dir    string // of what they leave behind while they run
	Bin    string // folder of streamdedup, benthos, pebble and what cargo installed
	// Postgres is the folder of PostgreSQL's programs.
	Postgres string
	// JVM is the script that runs a Java peer.
	JVM     string
	Brokers []string
	Topic   string // the input, for peers on topics
	Input   string // and for those on files
}

// Run runs a peer once, and has an oracle judge what came out.
func (s Setup) Run(ctx context.Context, name string) (Result, error) {
	switch {
	case OnTopics(name):
		return s.runOnTopics(ctx, name)
	case OnFiles(name):
		command, err := s.command(name)
		if err != nil {
			return Result{}, err
		}
		return command.Run(ctx, s.Dir, s.Input, s.Events, s.Seed)
	case name == "pebble":
		return Program(ctx, filepath.Join(s.Bin, "pebble"), "--events", strconv.Itoa(s.Events), "--seed", strconv.FormatUint(s.Seed, 10), "--dir", s.Dir)
	}
	return s.runInMemory(ctx, name)
}

func (s Setup) runInMemory(ctx context.Context, name string) (Result, error) {
	stream, err := NewStream(s.Events, s.Seed)
	if err != nil {
		return Result{}, err
	}
	const ours = "one core, hash of the ID, window, journal and commits included; peak 1, skew 1; "
	switch name {
	case "engine-1e-2", "engine-1e-4":
		fpr := map[string]float64{"engine-1e-2": 1e-2, "engine-1e-4": 1e-4}[name]
		e, err := NewEngine(stream, fpr)
		if err != nil {
			return Result{}, err
		}
		return MeasureJudge(Result{Peer: name, Version: "this tree", Note: ours + "bytes are of the filter"}, stream, e)
	case "ring":
		version, err := dependency(os.Args[0], "github.com/bits-and-blooms/bloom/v3")
		if err != nil {
			return Result{}, err
		}
		return MeasureJudge(Result{Peer: name, Version: version, Note: "one core, 1e-2 for the ring as a whole; bytes are of the filters"}, stream, NewRing(stream, 1e-2))
	case "redis":
		return Redis(ctx, stream, s.Dir)
	case "postgres":
		return Postgres(ctx, stream, s.Dir, s.Postgres)
	}
	return Result{}, fmt.Errorf("there is no peer %q; there are: %s", name, strings.Join(Names, ", "))
}

func (s Setup) runOnTopics(ctx context.Context, name string) (r Result, err error) {
	j := TopicJob{Brokers: s.Brokers, In: s.Topic, Out: s.Topic + "-" + name, Events: s.Events, Seed: s.Seed, Dir: s.Dir}
	if err := CreateOutput(ctx, j.Brokers, j.Out); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, Discard(context.WithoutCancel(ctx), j.Brokers, j.Out)) }()
	if OnJVM(name) {
		r, err := Program(ctx, s.JVM, "--peer", name, "--brokers", strings.Join(j.Brokers, ","), "--in", j.In, "--out", j.Out, "--events", strconv.Itoa(j.Events))
		if err != nil {
			return r, err
		}
		r.What = TopicToTopic
		return r, j.Check(ctx, &r)
	}
	delivery := map[string]string{"run-eos": "exactly-once", "run-alo": "at-least-once"}[name]
	return RunTopic(ctx, filepath.Join(s.Bin, "streamdedup"), delivery, j)
}

// command is how to run a peer on files.
func (s Setup) command(name string) (Command, error) {
	crate := filepath.Join(s.Bin, name)
	var version string
	var err error
	switch name {
	case "filter":
		return Filter(filepath.Join(s.Bin, "streamdedup"), s.Input, s.Events, s.Seed), nil
	case "benthos":
		return Benthos(filepath.Join(s.Bin, "benthos"), s.Dir, s.Input)
	case "runiq":
		version, err = reported(crate, "--version")
		return Command{Peer: name, Version: version, Note: "-f quick, whole lines; " + wholeProcess, Args: []string{crate, "-f", "quick", s.Input}}, err
	case "huniq":
		version, err = reported(crate, "--version")
		return Command{Peer: name, Version: version, Note: "whole lines; " + wholeProcess, Args: []string{crate}, Stdin: true}, err
	case "awk":
		version, err = reported("awk", "-W", "version")
		return Command{Peer: name, Version: version, Note: "whole lines; " + wholeProcess, Args: []string{"awk", "!seen[$0]++", s.Input}}, err
	case "sort":
		version, err = reported("sort", "--version")
		return Command{
			Peer: name, Version: version, Note: "whole lines, LC_ALL=C, into another order; " + wholeProcess + ", without its temporary files",
			Args: []string{"sort", "-u", s.Input}, Env: []string{"LC_ALL=C"},
		}, err
	}
	return Command{}, fmt.Errorf("there is no peer %q on files", name)
}

// Program runs a program that measures itself and prints its result.
func Program(ctx context.Context, args ...string) (Result, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopLimit
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", args[0], err)
	}
	results, err := ReadResults(bytes.NewReader(out))
	if err == nil && len(results) != 1 {
		err = fmt.Errorf("%d results, want 1", len(results))
	}
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", args[0], err)
	}
	return results[0], nil
}
