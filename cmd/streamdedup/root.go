package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// app is what every command shares: the streams of the process. A command
// writes its result to stdout and everything else to stderr.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

// newRootCmd builds the command tree. A command is a file of its own with a
// function newXxxCmd(*app) *cobra.Command that is listed here.
func newRootCmd(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "streamdedup",
		Short: "Remove duplicate events from Kafka topics, files and pipes",
		Long: `Remove duplicate events from Kafka topics, files and pipes.

What was seen is remembered for a window of time in a few bytes an event, sized
by a calculator. A first copy is withheld only by a false positive, at most the
share you allow; a second copy inside the window passes only where the filter was
full, and is counted.

Exit codes: 0 ok, 1 failed, 2 wrong usage.`,
	}
	group(root,
		newDemoCmd(a),
		newRunCmd(a),
		newFilterCmd(a),
		newSizeCmd(a),
		newBenchCmd(a),
		newVerifyCmd(a),
		newStateCmd(a),
		newVersionCmd(a),
	)
	helpNamesTheNearest(root)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SilenceErrors = true // exit prints them
	root.SilenceUsage = true
	root.SetFlagErrorFunc(flagError)
	return root
}

// group makes cmd a command that only holds others: called alone it prints its
// help, called with an unknown name it names the nearest.
func group(cmd *cobra.Command, commands ...*cobra.Command) {
	cmd.AddCommand(commands...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommand(cmd, args[0], cmd.CommandPath())
	}
}

// laterCommands are the commands of a later version.
var laterCommands = []string{"doctor", "serve"}

// unknownCommand is the error for a name that no command of cmd has. As is how the
// user called it.
func unknownCommand(cmd *cobra.Command, name, as string) error {
	if !cmd.HasParent() && slices.Contains(laterCommands, name) {
		return usagef("%s %s is not built yet", cmd.CommandPath(), name)
	}
	err := usagef("unknown command %q for %q", name, cmd.CommandPath())
	names := []string{"help", "completion"}
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if near := nearest(name, names); near != "" {
		return withHint(err, fmt.Sprintf("did you mean %q?", as+" "+near))
	}
	return withHint(err, fmt.Sprintf("`%s --help` lists the commands", cmd.CommandPath()))
}

// helpNamesTheNearest makes the help command refuse a name that it does not know;
// cobra's own prints the help of the program and calls it a success.
func helpNamesTheNearest(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic("BUG: there is no help command: " + err.Error())
	}
	help.Run = nil
	help.RunE = func(_ *cobra.Command, args []string) error {
		cmd := root
		for i, name := range args {
			next, rest, err := cmd.Find([]string{name})
			if err != nil || len(rest) > 0 {
				as := strings.Join(append([]string{root.Name(), "help"}, args[:i]...), " ")
				return unknownCommand(cmd, name, as)
			}
			cmd = next
		}
		return cmd.Help()
	}
}

// noArgs refuses positional arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return withHint(usagef("unexpected argument %q", args[0]),
		fmt.Sprintf("`%s --help` lists the flags", cmd.CommandPath()))
}
