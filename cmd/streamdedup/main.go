// Command streamdedup removes duplicate events from Kafka topics, files and
// pipes. README.md says how to start; each command explains itself with --help.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	// Without this a closed pipe on stdout would kill the process by signal;
	// `streamdedup filter | head` is to end quietly.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := interruptible(context.Background())
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program: tests call it with streams of their own. It returns
// the exit code, and has printed the error by then.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdoutWriter{stdout}, stderr: stderr}
	root := newRootCmd(a)
	root.SetArgs(args)
	return a.exit(root.ExecuteContext(ctx))
}
