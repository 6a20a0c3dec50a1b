package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// server is a process that we started and that we end.
type server struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{} // closed when it has
}

// stopLimit is how long a server may take to end by itself.
const stopLimit = 20 * time.Second

// startServer starts a server whose output goes to name.log in dir, and what it says on
// stderr to where cmd wants it too. It ends with ctx.
func startServer(ctx context.Context, dir, name string, cmd *exec.Cmd) (*server, error) {
	s := &server{cmd: cmd, log: filepath.Join(dir, name+".log"), ended: make(chan struct{})}
	out, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	if cmd.Stdout = out; cmd.Stderr != nil {
		cmd.Stderr = io.MultiWriter(out, cmd.Stderr)
	} else {
		cmd.Stderr = out
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true // Ctrl-C is for us: who ends it is stop
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), out.Close())
	}
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		_ = out.Close()
		close(s.ended)
	}()
	go func() {
		select {
		case <-ctx.Done():
			s.stop(os.Interrupt)
		case <-s.ended:
		}
	}()
	return s, nil
}

// await asks ready now and then, until it says yes.
func (s *server) await(ctx context.Context, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-s.ended:
			return fmt.Errorf("%s ended at once, see %s", s.cmd.Path, s.log)
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait for %s, see %s", s.cmd.Path, s.log), err)
		}
	}
}

// stop asks the server to end by a signal, and ends it if it does not.
func (s *server) stop(how os.Signal) {
	_ = s.cmd.Process.Signal(how) // it may have ended
	select {
	case <-s.ended:
	case <-time.After(stopLimit):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

// gone is the error of a server that ended while it was needed.
func (s *server) gone() error { return fmt.Errorf("%s ended, see %s", s.cmd.Path, s.log) }

func (s *server) cpu() (time.Duration, error) { return cpuOfGroup(s.cmd.Process.Pid) }

// freePort is one that nobody listens on just now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
