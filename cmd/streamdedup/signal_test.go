//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"os"
	osexec "os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// child runs streamdedup as a process of its own, which signals need.
func child(t *testing.T, args ...string) (p *process, signal func(syscall.Signal)) {
	t.Helper()
	cmd := osexec.CommandContext(t.Context(), "streamdedup", args...)
	p = &process{stop: func() {}, code: make(chan int, 1)}
	cmd.Stdout, cmd.Stderr = io.Discard, &p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		code := 0
		if err := cmd.Wait(); err != nil {
			code = -1
			if exit := (*osexec.ExitError)(nil); errors.As(err, &exit) {
				code = exit.ExitCode()
			}
		}
		p.code <- code
	}()
	return p, func(s syscall.Signal) {
		t.Helper()
		if err := cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
	}
}

func TestTheFirstSignalEndsRunCleanly(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		brokers := kafkatest.Fake(t).ListenAddrs()
		in := kafkatest.Topic(t, brokers, 1, nil)
		produce(t, brokers, in, 1, `{"id":1}`, `{"id":1}`)
		p, signal := child(t, runArgs(brokers, in, in+"-out")...)
		consume(t, brokers, in+"-out", 1)
		signal(s)
		if code := <-p.code; code != exitOK {
			t.Fatalf("%v: exit code %d, want 0; stderr:\n%s", s, code, p.stderr.String())
		}
		if sum := lastSummary(t, p); sum.In != 2 || sum.Out != 1 {
			t.Errorf("%v: summary %+v, want 2 in, 1 out", s, sum)
		}
	}
}

// What is sent twice in one moment is meant once.
func TestSignalsOfOneMomentAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal)
		finished, quit := 0, 0
		go obey(t.Context(), signals, func() { finished++ }, func() { quit++ })
		f := func(after time.Duration, wantQuit int) {
			t.Helper()
			time.Sleep(after)
			signals <- syscall.SIGTERM
			synctest.Wait()
			if finished != 1 || quit != wantQuit {
				t.Errorf("finished %d and quit %d times, want 1 and %d", finished, quit, wantQuit)
			}
		}
		f(time.Hour, 0)
		f(time.Microsecond, 0)
		f(sameSignal-2*time.Microsecond, 0)
		f(time.Microsecond, 1)
	})
}

// Whoever waits for a broker that does not answer can still be ended.
func TestTheSecondSignalQuitsAtOnce(t *testing.T) {
	cluster := kafkatest.Fake(t)
	brokers := cluster.ListenAddrs()
	in := kafkatest.Topic(t, brokers, 1, nil)
	produce(t, brokers, in, 1, `{"id":1}`)
	asked, answer := make(chan struct{}), make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cluster.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(asked)
		select {
		case <-answer:
		case <-ctx.Done():
		}
		return nil, nil, false
	})
	p, signal := child(t, runArgs(brokers, in, in+"-out")...)
	<-asked
	signal(syscall.SIGTERM)
	p.line(t, `(another signal quits at once)`)
	again := time.NewTicker(sameSignal / 5)
	defer again.Stop()
	for quit := false; !quit; {
		select {
		case code := <-p.code:
			if code != exitFailed {
				t.Errorf("exit code %d, want 1; stderr:\n%s", code, p.stderr.String())
			}
			quit = true
		case <-again.C:
			signal(syscall.SIGINT)
		}
	}
	if !strings.Contains(p.stderr.String(), "\nerror: a second signal: quit at once") {
		t.Errorf("it does not say why it quit:\n%s", p.stderr.String())
	}
	if strings.Contains(p.stderr.String(), `"in":`) {
		t.Errorf("a summary after quitting at once:\n%s", p.stderr.String())
	}
	close(answer)
}

// A filter whose input is silent ends by the first signal, as any filter does.
func TestASignalEndsAFilterThatWaits(t *testing.T) {
	input, silent, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(input.Close(), silent.Close()) }()
	cmd := osexec.CommandContext(t.Context(), "streamdedup", "filter", "--capacity", "1000")
	cmd.Stdin = input
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := silent.WriteString("a\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 2)); err != nil { // it runs, and reads on
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	exit := (*osexec.ExitError)(nil)
	if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
		t.Errorf("it ended with %v, want an end by the signal", err)
	}
}
