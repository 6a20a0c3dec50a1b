//go:build unix

// Command chaos runs streamdedup through crashes, and audits every record.
//
//	go run ./internal/chaos --duration 2m --seed 7
//
// It starts a Kafka of three brokers, three instances of the program, and a steady
// load whose duplicates are known. Every few seconds one thing goes wrong: an
// instance is killed, stopped or asked to end; one more joins; a broker is killed;
// connections are slow, frozen or cut. When all is well again and everything is
// read, the output must hold the first copy of each event, once and in order.
//
// The seed decides the load and the faults; what they meet is the machine's to
// decide. The exit code is 1 when anything is wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	duration time.Duration
	seed     uint64
	brokers  string
	program  string
	dir      string
	port     int
	rate     int
}

func main() {
	var o options
	flag.DurationVar(&o.duration, "duration", 2*time.Minute, "how long things go wrong")
	flag.Uint64Var(&o.seed, "seed", rand.Uint64N(1_000_000), "decides the load and the faults")
	flag.StringVar(&o.brokers, "brokers", "", "a Kafka to use, HOST:PORT with commas between; its brokers are not killed (default: start one)")
	flag.StringVar(&o.program, "program", "", "the streamdedup to test (default: build it)")
	flag.StringVar(&o.dir, "dir", "build/chaos", "folder for the run's own folder")
	flag.IntVar(&o.port, "port", 23092, "first of six ports for the brokers")
	flag.IntVar(&o.rate, "rate", 2000, "records a second")
	flag.Parse()
	if flag.NArg() > 0 || o.duration <= 0 || o.rate <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := chaos(ctx, o); err != nil {
		if !errors.Is(err, errFound) {
			fmt.Fprintln(os.Stderr, "error:", err)
		}
		os.Exit(1)
	}
}

// errFound says that what is wrong has been printed.
var errFound = errors.New("something is wrong")

// chaos is the whole run.
func chaos(ctx context.Context, o options) (err error) {
	r, err := newRun(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.setUp(ctx); err != nil {
		return err
	}
	if err := r.trouble(ctx); err != nil {
		return err
	}
	if err := r.audit(ctx); err != nil {
		return err
	}
	return r.conclude()
}

// conclude prints the end.
func (r *run) conclude() error {
	fmt.Println()
	r.table.print(os.Stdout, r.verdict, r.progress.longest())
	fmt.Println()
	if findings := r.wrong(); len(findings) > 0 {
		fmt.Printf("FAILED, seed %d: logs, faults and the brokers' data are in %s\n%s\n", r.seed, r.dir, strings.Join(findings, "\n"))
		return errFound
	}
	fmt.Printf("ok, seed %d: the instances' logs are in %s\n", r.seed, r.dir)
	return nil
}
