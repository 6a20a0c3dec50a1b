// Command peers runs the peers, each in a process of its own, and writes what they
// measured, a line of JSON for each run. run.sh starts it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/streamdedup/streamdedup/bench/peers"
)

type options struct {
	setup  peers.Setup
	only   string
	one    string
	rounds int
	out    string
	broker string
}

func main() {
	var o options
	flag.IntVar(&o.setup.Events, "events", 2_000_000, "records of the stream")
	flag.Uint64Var(&o.setup.Seed, "seed", 1, "of the stream")
	flag.StringVar(&o.setup.Dir, "dir", "build/peers", "folder for data")
	flag.StringVar(&o.setup.Bin, "bin", "build/peers/bin", "folder of the programs")
	flag.StringVar(&o.setup.Postgres, "postgres", "", "folder of PostgreSQL's programs")
	flag.StringVar(&o.setup.JVM, "jvm", "bench/peers/jvm/run.sh", "script that runs a Java peer")
	flag.StringVar(&o.setup.Topic, "topic", "", "the input, of one peer on topics")
	flag.StringVar(&o.setup.Input, "input", "", "the input, of one peer on files")
	flag.StringVar(&o.broker, "brokers", "", "of the Kafka, with commas between")
	flag.StringVar(&o.only, "only", "", "peers to run, with commas between (default all)")
	flag.StringVar(&o.one, "one", "", "run this peer once, in this process")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each runs, in turn")
	flag.StringVar(&o.out, "out", "build/peers/results.json", "file for the results")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.broker != "" {
		o.setup.Brokers = strings.Split(o.broker, ",")
	}
	run := o.all
	if o.one != "" {
		run = o.alone
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// alone runs one peer here.
func (o options) alone(ctx context.Context) error {
	r, err := o.setup.Run(ctx, o.one)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// all runs everybody in turn. A peer that fails is told of and left out; the others
// go on.
func (o options) all(ctx context.Context) (err error) {
	names, err := o.names()
	if err != nil {
		return err
	}
	out, err := os.Create(o.out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := o.prepare(ctx, names); err != nil {
		return err
	}
	defer func() { _ = os.Remove(o.setup.Input) }() // there may be none
	if o.setup.Topic != "" {
		defer func() {
			err = errors.Join(err, peers.Discard(context.WithoutCancel(ctx), o.setup.Brokers, o.setup.Topic))
		}()
	}
	var failures []error
	for round := range o.rounds {
		for i := range names {
			name := names[(i+round)%len(names)] // nobody always goes first
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r, err := o.child(ctx, name)
			if err != nil {
				err = fmt.Errorf("%s, round %d: %w", name, round+1, err)
				fmt.Fprintln(os.Stderr, err)
				failures = append(failures, err)
				continue
			}
			r.Round = round + 1
			fmt.Fprintf(os.Stderr, "%d/%d %-14s %10.0f events/s %8.0f ns CPU\n", round+1, o.rounds, name, r.EventsPerSecond, r.CPUNSPerEvent)
			if err := json.NewEncoder(out).Encode(r); err != nil {
				return err
			}
		}
	}
	return errors.Join(failures...)
}

// names are the peers to run. Those whose program is not there are told of, and are
// an error only if they were asked for by name.
func (o options) names() ([]string, error) {
	if o.only == "" {
		names := slices.Clone(peers.Names)
		if _, err := os.Stat(o.setup.JVM); err != nil {
			fmt.Fprintf(os.Stderr, "left out: the peers on the JVM: %v\n", err)
			names = slices.DeleteFunc(names, peers.OnJVM)
		}
		return names, nil
	}
	names := strings.Split(o.only, ",")
	for _, name := range names {
		if !slices.Contains(peers.Names, name) {
			return nil, fmt.Errorf("there is no peer %q; there are: %s", name, strings.Join(peers.Names, ", "))
		}
	}
	return names, nil
}

// prepare makes the inputs.
func (o *options) prepare(ctx context.Context, names []string) error {
	s := &o.setup
	if slices.ContainsFunc(names, peers.OnFiles) {
		s.Input = filepath.Join(s.Dir, "in.ndjson")
		in, err := os.Create(s.Input)
		if err != nil {
			return err
		}
		defer in.Close()
		if err := peers.WriteLines(in, s.Events, s.Seed); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(names, peers.OnTopics) {
		if len(s.Brokers) == 0 {
			return errors.New("peers on topics need --brokers")
		}
		s.Topic = fmt.Sprintf("peers-%x", time.Now().UnixNano())
		return peers.Fill(ctx, s.Brokers, s.Topic, s.Events, s.Seed)
	}
	return nil
}

// slowest is what an event may take before a peer counts as hanging.
const slowest = 300 * time.Microsecond

// child runs one peer in a process of its own: nobody pays for what another left in
// memory, and CPU and peak memory are its own.
func (o options) child(ctx context.Context, name string) (peers.Result, error) {
	s := o.setup
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute+time.Duration(s.Events)*slowest)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return peers.Result{}, err
	}
	return peers.Program(ctx, self, "--one", name, "--events", strconv.Itoa(s.Events), "--seed", strconv.FormatUint(s.Seed, 10),
		"--dir", s.Dir, "--bin", s.Bin, "--postgres", s.Postgres, "--jvm", s.JVM,
		"--brokers", strings.Join(s.Brokers, ","), "--topic", s.Topic, "--input", s.Input)
}
