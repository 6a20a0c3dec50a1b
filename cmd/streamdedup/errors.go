package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/streamdedup/streamdedup/internal/keys"
	"github.com/streamdedup/streamdedup/pipeline"
)

// usageError is a mistake in how the program was called: exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usagef is fmt.Errorf for a mistake in how the program was called.
func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// hinter is an error that knows what to do next. Any package may implement it.
type hinter interface{ Hint() string }

// hintedError adds what to do next to an error.
type hintedError struct {
	error
	hint string
}

func (e *hintedError) Unwrap() error { return e.error }
func (e *hintedError) Hint() string  { return e.hint }

// withHint adds a hint to err: what the user can do next, one line each.
func withHint(err error, hint string) error { return &hintedError{err, hint} }

// errQuiet makes a command exit with code 1 when everything that is to be said
// has been printed already.
var errQuiet = errors.New("failed")

// errReaderGone says that whoever reads our stdout has seen enough, as `head`
// does: not a failure, and nobody to tell.
var errReaderGone = errors.New("the reader of stdout is gone")

// stdoutWriter tells a closed stdout from the broken pipe of a connection.
type stdoutWriter struct{ io.Writer }

func (w stdoutWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		err = errReaderGone
	}
	return n, err
}

// exit prints err, with its hint, and returns the exit code that belongs to it.
func (a *app) exit(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReaderGone):
		return exitOK
	case errors.Is(err, errQuiet):
		return exitFailed
	}
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		fmt.Fprintf(a.stderr, "error: %s\n", line)
	}
	if hint := hintOf(err); hint != "" {
		for line := range strings.SplitSeq(hint, "\n") {
			fmt.Fprintf(a.stderr, "hint: %s\n", line)
		}
	}
	if usage := (*usageError)(nil); errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// warn prints an error that does not end the command, with its hint.
func (a *app) warn(err error) {
	fmt.Fprintf(a.stderr, "warning: %s\n", err)
	if hint := hintOf(err); hint != "" {
		fmt.Fprintf(a.stderr, "hint: %s\n", hint)
	}
}

// hintOf is the error's own hint, or the one for its kind, or "".
func hintOf(err error) string {
	if h := hinter(nil); errors.As(err, &h) {
		return h.Hint()
	}
	if s := (*pipeline.Stop)(nil); errors.As(err, &s) {
		return stopHint(s.Reason)
	}
	for _, known := range hints {
		if errors.Is(err, known.err) {
			return known.hint
		}
	}
	return ""
}

// hints says what to do about errors whose packages know no command line.
var hints = []struct {
	err  error
	hint string
}{
	{pipeline.ErrOtherTargets, "the topic between the stages was made again, or got more partitions, and none can be taken away: begin anew under another --group"},
	{pipeline.ErrForeignState, "go back to the settings the group had, or start anew under another --group"},
	{keys.ErrNoTable, "--format csv or tsv says how a value is divided into columns"},
	{keys.ErrNoHeader, "the values of a topic have no header"},
	{context.DeadlineExceeded, "is the broker up, and can this machine reach it?"},
	{syscall.ECONNREFUSED, "nothing listens there: is the broker up, and is --brokers right?"},
	{syscall.EADDRINUSE, "another process has the port: choose one with --metrics-addr, or \"off\""},
}

// stopHint says how a stream that a policy or the output stopped can go on.
func stopHint(why pipeline.Reason) string {
	switch why {
	case pipeline.NoReason:
		return "" // it is no policy that stopped it
	case pipeline.ReasonTooLarge:
		return "raise max.message.bytes of the output topic, or divert such records with --divert-topic"
	case pipeline.ReasonFull:
		return "raise --capacity, or let the filter grow up to --memory-limit: --on-full grow"
	}
	return fmt.Sprintf("--on-%s pass lets such records through and counts them, drop leaves them out, divert takes them aside", why)
}

// flagError turns a flag that pflag refused into a usage error, and names the
// nearest flag when there is no such flag.
func flagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		return usagef("--%s: %w", invalid.GetFlag().Name, cause(err))
	}
	wrapped := &usageError{err}
	missing := (*pflag.NotExistError)(nil)
	if !errors.As(err, &missing) {
		return wrapped
	}
	name := missing.GetSpecifiedName()
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest(name, names); near != "" {
		return withHint(wrapped, fmt.Sprintf("did you mean --%s?", near))
	}
	return withHint(wrapped, fmt.Sprintf("`%s --help` lists the flags", cmd.CommandPath()))
}

// inFlags tells the faults of a Config in the words of the command line: the
// package that found them knows its fields, the user knows flags.
type inFlags struct{ error }

func (e inFlags) Unwrap() error { return e.error }

func (e inFlags) Error() string {
	return configField.ReplaceAllStringFunc(e.error.Error(), func(match string) string {
		field := match[strings.LastIndexByte(match, '.')+1:]
		if flag, ok := flagOfField[field]; ok {
			return "--" + flag
		}
		return "--" + strings.ToLower(capital.ReplaceAllString(field, "$1-$2"))
	})
}

var (
	configField = regexp.MustCompile(`\b[a-z]+\.(?:Engine)?Config\.[A-Z]\w*`)
	capital     = regexp.MustCompile(`([a-z])([A-Z])`)
	// flagOfField are the fields whose flag is called otherwise.
	flagOfField = map[string]string{"Divert": "divert-topic", "Duplicates": "duplicates-topic", "Span": "window", "Workers": "shards", "Keys": "key"}
)
